"""What may happen at the seam of a tiered partition, what may not, and what proves too little, with their verdicts."""

from __future__ import annotations

from typing import Any, Final

from suites.verify.checks.tiers import (
    DELETED,
    DELETING,
    FINISHED,
    KINDS,
    SEGMENTS,
    STARTED,
    Edit,
    object_row,
    tiered,
    wrote,
)
from suites.verify.edits import contract
from suites.verify.history import START_NS, Built


def _objects(to: dict[str, Any], **wanted: Any) -> Edit:
    return lambda history: history.change("tier_objects", to, **wanted)


def _without(table: str, **wanted: Any) -> Edit:
    return lambda history: history.drop(table, **wanted)


def _and(*edits: Edit) -> Edit:
    return lambda history: [edit(history) for edit in edits]


def _writes(*states: str, segment: str = "third", broker: int = 1, read: int = 1) -> Edit:
    return lambda history: [wrote(history, segment, state, broker=broker, read=read) for state in states]


def _no_copy(segment: str) -> Edit:
    """As if it had never been copied."""
    return _and(_without("tier_metadata", segment_id=segment), _without("tier_objects", segment_id=segment))


# An older leader's copy of what stood from offset 3 on before it was cut off; with the objects of a whole copy.
def _abandoned(history: Built) -> None:
    wrote(history, "abandoned", STARTED, 3, "0:3", broker=2)
    wrote(history, "abandoned", FINISHED, broker=2)
    history.tables["tier_objects"] += [object_row("abandoned", 3, kind, "end") for kind in KINDS]


def _twice(history: Built, like: str) -> None:
    """Another copy of the second segment, whose log is like that of `like`."""
    wrote(history, "twin", STARTED, 3, "1:3")
    wrote(history, "twin", FINISHED)
    objects = [object_row("twin", 3, kind, "end") | {"sha256": f"{like} {kind}"} for kind in KINDS]
    history.tables["tier_objects"] += objects


def _partition_deleted(history: Built) -> None:
    wrote(history, "x", "DELETE_PARTITION_MARKED")
    history.tables["tier_metadata"][-1].update(kind="partition_delete", segment_id=None)


def _local(to: int, **wanted: Any) -> Edit:
    """Brokers have the log from there on, and say that the tier has what lies before."""
    to_there = {"local_log_start": to, "highest_tiered": to - 1}
    return lambda history: history.change("tier_replicas", to_there, **wanted)


def _says(highest: int | None, **wanted: Any) -> Edit:
    return lambda history: history.change("tier_replicas", {"highest_tiered": highest}, look="end", **wanted)


def _of_before(segment: str) -> Edit:
    return lambda history: history.change("tier_metadata", {"topic_id": "before"}, segment_id=segment)


def _starts(at: int, **wanted: Any) -> Edit:
    return lambda history: history.change("tier_replicas", {"log_start": at}, look="end", **wanted)


def _first_expired(keep_bytes: int, edit: Edit = lambda _: None) -> Built:
    """The tier has deleted the first segment by size: 600 bytes are left in it, 100 at the brokers alone."""
    gone = _and(
        _writes(DELETING, DELETED, segment="first"),
        _without("tier_objects", segment_id="first", look="end"),
        lambda history: [history.drop("batches", base_offset=offset) for offset in range(3, 9)],
    )
    return contract(tiered(_and(gone, edit), begins=3), retention_bytes=keep_bytes)


def _until_nine(history: Built) -> None:
    """The tier has deleted all that was copied."""
    for segment in ("first", "second"):
        wrote(history, segment, DELETING)
        wrote(history, segment, DELETED)
        history.drop("tier_objects", segment_id=segment, look="end")


_OF_SECOND: Final = {"segment_id": "second", "kind": "log"}
CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    # --- legal
    "all is in the tier": (tiered(), []),
    "a copy of another leader overlaps": (tiered(_abandoned), []),
    "two copies of the same epoch": (tiered(lambda h: _twice(h, "second")), []),
    "a follower that is ahead of its leader, and all is in the tier": (tiered(lambda h: _starts(6, broker=2)(h)), []),
    "deleted soon after its copy was finished": (
        tiered(lambda h: h.change("tier_replicas", {"looked_ns": START_NS - 10**9}, look="loaded")),
        [],
    ),
    "a copy that is not finished is no object yet": (
        tiered(_and(lambda h: wrote(h, "begun", STARTED, 9, "1:9"), _without("tier_objects", look="loaded"))),
        [],
    ),
    "not in the tier, and still on the brokers": (tiered(_and(_no_copy("third"), _local(6))), []),
    "in the tier, and not yet known to be": (tiered(_and(_local(6), _says(2, broker=2))), []),
    "in the tier, and still on the brokers": (tiered(_and(_local(3, look="end"), _says(8))), []),
    "a release that does not say what is in the tier": (tiered(_and(_no_copy("third"), _local(6), _says(None))), []),
    "its deletion began while it was looked at": (
        tiered(_and(_writes(DELETING, read=2), _without("tier_objects", segment_id="third", look="end"))),
        [],
    ),
    "deleted, and the log begins behind it": (
        tiered(
            _and(
                _writes(DELETING, DELETED, segment="first"),
                _without("tier_objects", segment_id="first", look="end"),
                _starts(3),
            )
        ),
        [],
    ),
    "a leader that learned of retention before its followers": (
        tiered(
            _and(
                _writes(DELETING, DELETED, segment="first"),
                _without("tier_objects", segment_id="first", look="end"),
                _starts(3, broker=1),
            )
        ),
        [],
    ),
    "two leaders write across each other": (
        tiered(_and(_writes(DELETING, segment="first", broker=2), _writes(FINISHED, segment="first"), _starts(3))),
        [],
    ),
    "a topic that had the name before": (
        tiered(_and(_writes(STARTED, FINISHED, segment="old"), _of_before("old"))),
        [],
    ),
    "nobody has a tier": (contract(tiered(_no_copy("second")), tiered=False), []),
    "no segment has an index of transactions": (
        tiered(lambda h: h.change("tier_metadata", {"txn_index_empty": True}, kind="segment")),
        [],
    ),
    "a state told again": (tiered(_writes(FINISHED)), []),
    "an object is of before its copy was finished": (
        tiered(_objects({"sha256": "half", "looked_ns": START_NS}, look="loaded")),
        [],
    ),
    "expired by size, and what is left is in both": (_first_expired(700), []),
    "half a copy, and a later one of the same offsets is whole": (
        tiered(_and(lambda h: _twice(h, "second"), _without("tier_objects", **_OF_SECOND, look="end"))),
        [],
    ),
    # --- log_start
    "expired by size, one too many": (_first_expired(701), ["log_start 1"]),
    "expired by size, and one segment was copied twice": (
        _first_expired(701, lambda h: _twice(h, "second")),
        ["log_start 1"],
    ),
    "expired by size, and copies that were not finished counted": (
        _first_expired(701, lambda h: [wrote(h, f"failed {n}", STARTED, 9, "1:9") for n in range(9)]),
        ["log_start 1"],
    ),
    "expired by size, and another leader's copy counted": (
        _first_expired(900, _abandoned),
        ["log_start 2"],
    ),
    "deleted by size before it was copied": (
        contract(tiered(_and(_no_copy("third"), _until_nine), begins=9), retention_bytes=700),
        ["log_start 6"],
    ),
    # --- tier_gap
    "never copied": (tiered(_no_copy("second")), ["tier_gap 3"]),
    "copied up to the middle": (
        tiered(lambda h: h.change("tier_metadata", {"end_offset": 4}, segment_id="second", kind="segment")),
        ["tier_gap 1", "tier_object 2"],
    ),
    "deleted on one broker before it was copied": (
        tiered(_and(_no_copy("third"), _local(6), _local(9, broker=2, look="end"))),
        ["tier_gap 3"],
    ),
    "deleted in the tier before the log began behind it": (
        tiered(_and(_writes(DELETING, DELETED), _without("tier_objects", segment_id="third", look="end"))),
        ["tier_gap 3"],
    ),
    "a copy of an epoch that is not the log's": (
        tiered(_and(_no_copy("second"), _abandoned)),
        ["tier_gap 3"],
    ),
    "a copy that began and was never finished": (
        tiered(_without("tier_metadata", segment_id="second", state=FINISHED)),
        ["tier_gap 3"],
    ),
    "never copied, and a follower is ahead of its leader": (
        tiered(_and(_no_copy("second"), _starts(6, broker=2))),
        ["tier_gap 3"],
    ),
    "never copied, and said to be deleted with its partition": (
        tiered(_and(_no_copy("second"), _partition_deleted)),
        ["tier_gap 3"],
    ),
    "deleted long before its copy was finished": (
        tiered(lambda h: h.change("tier_replicas", {"looked_ns": START_NS - 10**10}, look="loaded")),
        ["tier_gap 9"],
    ),
    "said to be in the tier by one broker, and never copied": (
        tiered(_and(_no_copy("third"), _local(6), _says(8, broker=2))),
        ["tier_gap 3"],
    ),
    "said to be in the tier, and copied up to the middle": (
        tiered(
            _and(
                _local(6),
                _says(8),
                lambda h: h.change("tier_metadata", {"end_offset": 7}, segment_id="third", kind="segment"),
            )
        ),
        ["tier_gap 1", "tier_object 2"],
    ),
    "said to be in the tier, by a copy of another leader": (
        tiered(_and(_no_copy("second"), _no_copy("third"), _local(3), _abandoned, _says(5, broker=1))),
        ["tier_gap 3"],
    ),
    # --- tier_object
    "a finished copy of which there is nothing": (
        tiered(_and(lambda h: wrote(h, "twice", STARTED, 3, "1:3"), _writes(FINISHED, segment="twice"))),
        ["tier_object 3"] * len(KINDS),
    ),
    "two copies of the same epoch that differ": (tiered(lambda h: _twice(h, "other")), ["tier_object 3"]),
    "an object is missing": (tiered(_without("tier_objects", **_OF_SECOND, look="end")), ["tier_object 3"]),
    "an index is missing": (
        tiered(_without("tier_objects", segment_id="second", kind="timeindex", look="end")),
        ["tier_object 3"],
    ),
    "an index of transactions is missing": (
        tiered(lambda h: h.change("tier_metadata", {"txn_index_empty": True}, segment_id="first", kind="segment")),
        ["tier_object 3"] * 2,
    ),
    "a byte is flipped": (
        tiered(_objects({"faulty": "CRC of the batch at 100", "sha256": "other"}, **_OF_SECOND, look="end")),
        ["tier_object 3"] * 3,
    ),
    "the last batch is cut off": (
        tiered(_objects({"size_bytes": 200, "last_offset": 4, "sha256": "cut"}, **_OF_SECOND, look="end")),
        ["tier_object 3"] * 4,
    ),
    "a log is empty": (
        tiered(_objects({"first_offset": None, "last_offset": None, "size_bytes": 0}, **_OF_SECOND)),
        ["tier_object 3"] * 2,
    ),
    "a log begins late": (tiered(_objects({"first_offset": 4}, **_OF_SECOND)), ["tier_object 3"]),
    "an index changed": (
        tiered(_objects({"sha256": "other"}, segment_id="first", kind="index", look="end")),
        ["tier_object 3"] * 2,
    ),
    "half a copy, and an earlier one of the same offsets is whole": (
        tiered(
            _and(lambda h: _twice(h, "second"), _without("tier_objects", segment_id="twin", kind="log", look="end")),
        ),
        ["tier_object 3"],
    ),
    "half a copy, and half of a later one": (
        tiered(
            _and(
                lambda h: _twice(h, "second"),
                _without("tier_objects", **_OF_SECOND, look="end"),
                _without("tier_objects", segment_id="twin", kind="index", look="end"),
            )
        ),
        ["tier_object 3"] * 2,
    ),
    "half a copy, and a later one of another leader epoch": (
        tiered(_and(_abandoned, _without("tier_objects", **_OF_SECOND, look="end"))),
        ["tier_object 3"],
    ),
    # --- tier_state
    "finished after it was deleted": (
        tiered(_and(_writes(DELETING, DELETED, FINISHED, segment="first"), _starts(3))),
        ["tier_state 3"],
    ),
    "finished and never begun": (tiered(_writes(FINISHED, segment="nowhere")), ["tier_state 1"]),
}


def doubtful() -> dict[str, tuple[Built, str]]:
    """Histories that prove too little, and the doubt's name."""

    def unreadable(history: Built) -> None:
        wrote(history, "x", STARTED)
        history.tables["tier_metadata"][-1].update(
            kind="unreadable", why="frame 9", topic=None, topic_id=None, topic_partition=None, state=None
        )

    return {
        "a record that cannot be read": (tiered(unreadable), "tier_unreadable"),
        "no metadata": (tiered(_and(*map(_no_copy, SEGMENTS), _local(0))), "tier_not_read"),
        "no metadata, and much is in the tier": (
            tiered(_and(*(_without("tier_metadata", segment_id=segment) for segment in SEGMENTS))),
            "tier_not_read",
        ),
        "one broker did not tell": (tiered(_without("tier_replicas", look="end", broker=3)), "tier_not_read"),
        "no broker told": (tiered(_without("tier_replicas", look="end")), "tier_not_read"),
        "too little came from the tier": (
            tiered(_and(*map(_no_copy, ("second", "third")), _local(3))),
            "tier_not_read",
        ),
        "nobody looked before everything was read": (tiered(_without("tier_replicas", look="healed")), "tier_not_read"),
        "no copy was finished": (
            tiered(_and(_without("tier_metadata", state=FINISHED), _local(0, look="end"))),
            "tier_not_read",
        ),
        "no lineage": (tiered(lambda h: h.change("tier_replicas", {"epochs": "unreadable: it"})), "tier_not_read"),
    }
