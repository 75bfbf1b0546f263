"""Plants in the remote tier (KIP-405), each with its near miss."""

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
    """The brokers deleted it, and no metadata says that it was copied."""
    segment = _middle(copy)
    _forget(copy, segment)
    return _fails(Kind.TIER_GAP, segment)


@plant
def tier_gap_never_finished(copy: Copy) -> Expected:
    """The upload was not finished, and the segment was deleted locally."""
    segment = _middle(copy)
    copy.drop("tier_metadata", segment_id=segment["segment_id"], state=FINISHED)
    return _fails(Kind.TIER_GAP, segment)


@plant
def tier_gap_of_another_lineage(copy: Copy) -> Expected:
    """It was copied by a leader with records that are in no log."""
    segment = _middle(copy)
    copy.change("tier_metadata", {"epochs": f"99:{segment['base_offset']}"}, segment_id=segment["segment_id"])
    return _fails(Kind.TIER_GAP, segment)


@plant
def near_tier_gap_copied_again(copy: Copy) -> Expected:
    """A copy that was deleted, and another one of the same records that stays."""
    segment = _middle(copy)
    _copied_again(copy, segment)
    _write_states(copy, segment, DELETING, DELETED)
    copy.drop("tier_objects", segment_id=segment["segment_id"], look="end")
    return passes()


@plant
def near_tier_gap_still_on_the_brokers(copy: Copy) -> Expected:
    """The newest copy does not exist: its records are still on the brokers."""
    _without_last_copy(copy, highest_tiered=tiered_segments(copy)[-1]["base_offset"] - 1)
    return passes()


@plant
def tier_gap_reported_as_copied(copy: Copy) -> Expected:
    """The newest copy does not exist, and brokers report it: they delete its records at the next retention check."""
    return _fails(Kind.TIER_GAP, _without_last_copy(copy))


# --- tier_object ---


@plant
def tier_object_missing(copy: Copy) -> Expected:
    segment = _middle(copy)
    copy.drop("tier_objects", segment_id=segment["segment_id"], kind="log", look="end")
    return _fails(Kind.TIER_OBJECT, segment)


@plant
def tier_object_without_index(copy: Copy) -> Expected:
    segment = _middle(copy)
    copy.drop("tier_objects", segment_id=segment["segment_id"], kind="timeindex", look="end")
    return _fails(Kind.TIER_OBJECT, segment)


@plant
def tier_object_too_short_from_the_start(copy: Copy) -> Expected:
    """The last batch was not copied, and the metadata says that it was."""
    segment = _middle(copy)
    copy.change("tier_objects", {"last_offset": segment["end_offset"] - 1}, **_log_of(segment))
    return _fails(Kind.TIER_OBJECT, segment)


@plant
def tier_object_damaged(copy: Copy) -> Expected:
    segment = _middle(copy)
    copy.change("tier_objects", {"faulty": "the batch at 4096 is not what its CRC says"}, **_log_of(segment))
    return _fails(Kind.TIER_OBJECT, segment)


@plant
def near_tier_object_of_a_deleted_copy(copy: Copy) -> Expected:
    """Objects are removed between the two states of a deletion; here of an unneeded second copy."""
    again = _copied_again(copy, _middle(copy))
    _write_states(copy, again, DELETING)
    copy.drop("tier_objects", segment_id=again["segment_id"], look="end")
    return passes()


@plant
def near_tier_object_without_metadata(copy: Copy) -> Expected:
    """It takes space and nothing is lost: a note, no finding."""
    again = _copied_again(copy, _middle(copy))
    copy.drop("tier_metadata", segment_id=again["segment_id"])
    return passes()


@plant
def near_tier_object_copied_again(copy: Copy) -> Expected:
    """An incomplete copy that was called finished, and another leader's complete copy after it, which brokers read."""
    segment = _middle(copy)
    _copied_again(copy, segment)
    copy.drop("tier_objects", **_log_of(segment), look="end")
    return passes()


# --- tier_state ---


@plant
def tier_state_finished_after_its_deletion(copy: Copy) -> Expected:
    again = _copied_again(copy, _middle(copy))
    _write_states(copy, again, DELETING, DELETED, FINISHED)
    return _fails(Kind.TIER_STATE, again)


@plant
def near_tier_state_repeated(copy: Copy) -> Expected:
    """A broker's producer may repeat a record."""
    _write_states(copy, _middle(copy), FINISHED)
    return passes()


@plant
def near_tier_state_of_two_brokers(copy: Copy) -> Expected:
    """An old leader's record may come after its successor's."""
    again = _copied_again(copy, _middle(copy))
    _write_states(copy, again, DELETING, broker=again["broker"] % 3 + 1)
    _write_states(copy, again, FINISHED)
    return passes()


# --- doubts ---


@plant
def read_back_from_the_brokers_only(copy: Copy) -> Expected:
    """A broker had every record of the tier itself before the read after healing."""
    copy.change("tier_replicas", {"local_log_start": 0}, topic=TOPIC, look="healed", broker=1)
    return doubtful("tier_not_read")


@plant
def tier_not_read(copy: Copy) -> Expected:
    copy.drop("tier_metadata")
    copy.drop("tier_objects")
    copy.drop("tier_replicas")
    return doubtful("tier_not_read")


@plant
def tier_metadata_unreadable(copy: Copy) -> Expected:
    (row,) = copy.original.rows("tier_metadata", topic=TOPIC, state=STARTED)[:1]
    nothing = dict.fromkeys(("topic", "topic_id", "topic_partition", "segment_id", "broker", "state"))
    strange = {"kind": "unreadable", "why": "a frame of version 9", "offset": row["offset"] + 1_000_000}
    copy.add("tier_metadata", [row | nothing | strange])
    return doubtful("tier_unreadable")


def tiered_segments(copy: Copy) -> list[Row]:
    """The metadata records that start a copy, of finished copies, ordered by offset."""
    rows = copy.original.rows("tier_metadata", topic=TOPIC)
    finished = {row["segment_id"] for row in rows if row["state"] == FINISHED}
    begun = [row for row in rows if row["state"] == STARTED and row["segment_id"] in finished]
    return sorted(begun, key=lambda row: row["base_offset"])


def _middle(copy: Copy) -> Row:
    """A segment that no replica had locally, with neighbours on both sides."""
    segments = tiered_segments(copy)
    assert len(segments) > 10, f"{len(segments)} copies were finished"
    return segments[len(segments) // 2]


def _forget(copy: Copy, segment: Row) -> None:
    copy.drop("tier_metadata", segment_id=segment["segment_id"])
    copy.drop("tier_objects", segment_id=segment["segment_id"])


def _without_last_copy(copy: Copy, **said: int) -> Row:
    """Removes the newest copy; every replica has its records locally."""
    segment = tiered_segments(copy)[-1]
    _forget(copy, segment)
    rows = copy.original.rows("tier_replicas", topic=TOPIC)
    to = {"local_log_start": segment["base_offset"], **said}
    for start in {row["local_log_start"] for row in rows if row["local_log_start"] > segment["base_offset"]}:
        copy.change("tier_replicas", to, topic=TOPIC, local_log_start=start)
    return segment


def _write_states(copy: Copy, segment: Row, *states: str, broker: int | None = None) -> None:
    """More metadata records, after all that were read before the objects were looked at."""
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
