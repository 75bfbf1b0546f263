"""Plants in what is known of the remote tier (KIP-405), each beside its near miss."""

from __future__ import annotations

from typing import Any, Final

from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Broken, Expected, doubtful, fails, passes
from suites.planted.plants import plant

TOPIC: Final = "far"
STARTED, FINISHED = "COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"
DELETING, DELETED = "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"


# --- tier_gap ---


@plant
def tier_gap_never_copied(copy: Copy) -> Expected:
    """The brokers have deleted it, and nobody ever wrote that it was copied."""
    segment = _middle(copy)
    _forget(copy, segment)
    return _fails(Kind.TIER_GAP, segment)


@plant
def tier_gap_never_finished(copy: Copy) -> Expected:
    """The upload broke off, and the segment was deleted all the same."""
    segment = _middle(copy)
    copy.drop("tier_metadata", segment_id=segment["segment_id"], state=FINISHED)
    return _fails(Kind.TIER_GAP, segment)


@plant
def tier_gap_of_another_lineage(copy: Copy) -> Expected:
    """It was copied by a leader whose records are in nobody's log."""
    segment = _middle(copy)
    copy.change("tier_metadata", {"epochs": f"99:{segment['base_offset']}"}, segment_id=segment["segment_id"])
    return _fails(Kind.TIER_GAP, segment)


@plant
def near_tier_gap_copied_again(copy: Copy) -> Expected:
    """A copy that was deleted, and another one of the same records that stays."""
    segment = _middle(copy)
    _copied_again(copy, segment)
    _tell(copy, segment, DELETING, DELETED)
    copy.drop("tier_objects", segment_id=segment["segment_id"], look="end")
    return passes()


@plant
def near_tier_gap_still_at_the_brokers(copy: Copy) -> Expected:
    """The newest copy never took place: its records are where they were."""
    _never_took_place(copy, highest_tiered=_segments(copy)[-1]["base_offset"] - 1)
    return passes()


@plant
def tier_gap_that_is_said_to_be_there(copy: Copy) -> Expected:
    """The newest copy never took place, and brokers say it did: they have its records until retention looks again."""
    return _fails(Kind.TIER_GAP, _never_took_place(copy))


# --- tier_object ---


@plant
def tier_object_is_not_there(copy: Copy) -> Expected:
    segment = _middle(copy)
    copy.drop("tier_objects", segment_id=segment["segment_id"], kind="log", look="end")
    return _fails(Kind.TIER_OBJECT, segment)


@plant
def tier_object_lacks_its_index(copy: Copy) -> Expected:
    segment = _middle(copy)
    copy.drop("tier_objects", segment_id=segment["segment_id"], kind="timeindex", look="end")
    return _fails(Kind.TIER_OBJECT, segment)


@plant
def tier_object_was_short_from_the_first(copy: Copy) -> Expected:
    """The last batch did not come along, and the metadata does not know."""
    segment = _middle(copy)
    copy.change("tier_objects", {"last_offset": segment["end_offset"] - 1}, **_log_of(segment))
    return _fails(Kind.TIER_OBJECT, segment)


@plant
def tier_object_is_damaged(copy: Copy) -> Expected:
    segment = _middle(copy)
    copy.change("tier_objects", {"faulty": "the batch at 4096 is not what its CRC says"}, **_log_of(segment))
    return _fails(Kind.TIER_OBJECT, segment)


@plant
def near_tier_object_of_a_deleted_copy(copy: Copy) -> Expected:
    """Objects go between the two words of their deletion; here it was a second copy that nobody needs."""
    again = _copied_again(copy, _middle(copy))
    _tell(copy, again, DELETING)
    copy.drop("tier_objects", segment_id=again["segment_id"], look="end")
    return passes()


@plant
def near_tier_object_that_nobody_claims(copy: Copy) -> Expected:
    """Room is taken, and nothing is lost: a note, no finding."""
    again = _copied_again(copy, _middle(copy))
    copy.drop("tier_metadata", segment_id=again["segment_id"])
    return passes()


@plant
def near_tier_object_that_was_copied_anew(copy: Copy) -> Expected:
    """Half a copy that was called finished, and another leader's whole one after it, which is the one that is read."""
    segment = _middle(copy)
    _copied_again(copy, segment)
    copy.drop("tier_objects", **_log_of(segment), look="end")
    return passes()


# --- tier_state ---


@plant
def tier_state_finished_after_its_deletion(copy: Copy) -> Expected:
    again = _copied_again(copy, _middle(copy))
    _tell(copy, again, DELETING, DELETED, FINISHED)
    return _fails(Kind.TIER_STATE, again)


@plant
def near_tier_state_told_again(copy: Copy) -> Expected:
    """A producer of brokers may repeat itself."""
    _tell(copy, _middle(copy), FINISHED)
    return passes()


@plant
def near_tier_state_of_two_brokers(copy: Copy) -> Expected:
    """An old leader's word may come after its successor's."""
    again = _copied_again(copy, _middle(copy))
    _tell(copy, again, DELETING, broker=again["broker"] % 3 + 1)
    _tell(copy, again, FINISHED)
    return passes()


# --- what proves too little ---


@plant
def tier_that_nobody_read(copy: Copy) -> Expected:
    copy.drop("tier_metadata")
    copy.drop("tier_objects")
    copy.drop("tier_replicas")
    return doubtful("tier_not_read")


@plant
def tier_whose_metadata_cannot_be_read(copy: Copy) -> Expected:
    (row,) = copy.original.rows("tier_metadata", topic=TOPIC, state=STARTED)[:1]
    nothing = dict.fromkeys(("topic", "topic_id", "topic_partition", "segment_id", "broker", "state"))
    strange = {"kind": "unreadable", "why": "a frame of version 9", "offset": row["offset"] + 1_000_000}
    copy.add("tier_metadata", [row | nothing | strange])
    return doubtful("tier_unreadable")


def _segments(copy: Copy) -> list[Row]:
    """The records that say that a copy began, of such as were finished, in the order of their offsets."""
    rows = copy.original.rows("tier_metadata", topic=TOPIC)
    finished = {row["segment_id"] for row in rows if row["state"] == FINISHED}
    begun = [row for row in rows if row["state"] == STARTED and row["segment_id"] in finished]
    return sorted(begun, key=lambda row: row["base_offset"])


def _middle(copy: Copy) -> Row:
    """One that no replica had any more, with neighbours on both sides."""
    segments = _segments(copy)
    assert len(segments) > 10, f"{len(segments)} copies were finished"
    return segments[len(segments) // 2]


def _forget(copy: Copy, segment: Row) -> None:
    copy.drop("tier_metadata", segment_id=segment["segment_id"])
    copy.drop("tier_objects", segment_id=segment["segment_id"])


def _never_took_place(copy: Copy, **said: int) -> Row:
    """The newest copy, of records that every replica has."""
    segment = _segments(copy)[-1]
    _forget(copy, segment)
    rows = copy.original.rows("tier_replicas", topic=TOPIC)
    to = {"local_log_start": segment["base_offset"], **said}
    for start in {row["local_log_start"] for row in rows if row["local_log_start"] > segment["base_offset"]}:
        copy.change("tier_replicas", to, topic=TOPIC, local_log_start=start)
    return segment


def _tell(copy: Copy, segment: Row, *states: str, broker: int | None = None) -> None:
    """More of the brokers' words, behind all that were read before the objects were looked at."""
    known = copy.original.rows("tier_metadata", segment_id=segment["segment_id"], state=FINISHED)
    like = known[0] if known else segment
    at = copy.next("tier_metadata", "offset")
    words = [{"state": state, "offset": at + n, "read": 1} for n, state in enumerate(states)]
    by = {} if broker is None else {"broker": broker}
    own = {"segment_id": segment["segment_id"], "partition": segment["partition"]}
    copy.add("tier_metadata", [like | own | by | word for word in words])


def _copied_again(copy: Copy, segment: Row) -> Row:
    """A second copy of the same records, with objects of its own."""
    new = {"segment_id": "planted-again"}
    objects = copy.original.rows("tier_objects", segment_id=segment["segment_id"])
    copy.add("tier_objects", [row | new for row in objects])
    reported = copy.original.rows("tier_metadata", segment_id=segment["segment_id"])
    at = copy.next("tier_metadata", "offset")
    copy.add("tier_metadata", [row | new | {"offset": at + n} for n, row in enumerate(reported)])
    return segment | new


def _log_of(segment: Row) -> dict[str, Any]:
    return {"segment_id": segment["segment_id"], "kind": "log"}


def _fails(kind: Kind, segment: Row) -> Expected:
    span = range(segment["base_offset"], segment["end_offset"] + 1)
    broken: list[Broken] = [(kind.value, TOPIC, 0, offset) for offset in span]
    return fails(broken, by_documents=True)
