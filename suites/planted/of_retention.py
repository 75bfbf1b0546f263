"""Plants in what replicas and the tier keep although retention ended for it, each with its near miss."""

from __future__ import annotations

from typing import Any, Final

from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Broken, Expected, fails, passes
from suites.planted.of_tier import TOPIC as TIERED
from suites.planted.of_tier import tiered_segments
from suites.planted.plants import created_with, plant

BROKER: Final = 2
LATER_NS: Final = 60 * 10**9  # the brokers are asked so much later than they were, so that the cluster was quiet
DUE_MS: Final = 32_000  # before they were asked last: the quiet time, and four times the interval of 500 ms

# --- not_deleted ---


@plant
def not_deleted(copy: Copy) -> Expected:
    """One broker rolled a segment that retention has ended for by now, and keeps it."""
    rolled = _rolled(copy)
    _retain(copy, _due_ms(copy) - _newest(rolled) - 501)
    return fails(_offsets(rolled), by_documents=True)


@plant
def not_deleted_by_size(copy: Copy) -> Expected:
    """One broker has a segment below the log start, and enough bytes without it."""
    _ask_later(copy)
    first = copy.original.rows("batches", topic="sized", broker=BROKER)[0]
    before = first | {"segment": 0, "base_offset": first["base_offset"] - 5, "last_offset": first["base_offset"] - 1}
    copy.add("batches", [before | {"count": 5, "base_sequence": first["base_sequence"] - 5}])
    offsets = range(before["base_offset"], first["base_offset"])
    return fails([(Kind.NOT_DELETED.value, "sized", 0, offset) for offset in offsets], by_documents=True)


@plant
def not_deleted_in_the_tier(copy: Copy) -> Expected:
    """Retention has ended for the oldest copy by now, and it stays."""
    oldest = _oldest_copy(copy)
    _retain(copy, _due_ms(copy) - _newest([oldest]) - 501, TIERED)
    offsets = range(oldest["base_offset"], oldest["end_offset"] + 1)
    return fails([(Kind.NOT_DELETED.value, TIERED, 0, offset) for offset in offsets], by_documents=True)


@plant
def near_not_deleted_in_the_tier_and_not_due(copy: Copy) -> Expected:
    """The oldest copy was due a moment too late."""
    _retain(copy, _due_ms(copy) - _newest([_oldest_copy(copy)]) - 500, TIERED)
    return passes()


@plant
def near_not_deleted_and_not_due(copy: Copy) -> Expected:
    """It was due a moment too late."""
    rolled = _rolled(copy)
    _retain(copy, _due_ms(copy) - _newest(rolled) - 500)
    return passes()


@plant
def near_not_deleted_and_not_the_oldest(copy: Copy) -> Expected:
    """The oldest segment has a young record, and a broker deletes from the oldest segment on."""
    rolled = _rolled(copy)
    _retain(copy, _due_ms(copy) - _newest(rolled) - 501)
    first = {"topic": "plain", "partition": 0, "broker": BROKER, "base_offset": rolled[0]["base_offset"]}
    copy.change("batches", {"max_timestamp_ms": _due_ms(copy)}, **first)
    return passes()


@plant
def near_not_deleted_with_a_late_step(copy: Copy) -> Expected:
    """A move between log directories, during which nothing is deleted, was over only just before."""
    rolled = _rolled(copy)
    _retain(copy, _due_ms(copy) - _newest(rolled) - 501)
    _moves_disks_until(copy, _asked_ns(copy) - 10**10)
    return passes()


@plant
def not_deleted_after_a_reassignment(copy: Copy) -> Expected:
    _taken_away(copy, before_s=6)
    return fails([(Kind.NOT_DELETED.value, "tasks", 0, None)], by_documents=True)


@plant
def near_not_deleted_just_after_a_reassignment(copy: Copy) -> Expected:
    _taken_away(copy, before_s=4)
    return passes()


@plant
def not_deleted_with_its_topic(copy: Copy) -> Expected:
    """The tier keeps a copy of a topic that was deleted long ago."""
    _copy_of_a_deleted_topic(copy)
    return fails([(Kind.NOT_DELETED.value, "gone", None, None)], by_documents=True)


@plant
def near_not_deleted_with_its_topic_and_a_late_step(copy: Copy) -> Expected:
    """A leader that ends may leave copies behind."""
    looked_ns = _copy_of_a_deleted_topic(copy)
    _moves_disks_until(copy, looked_ns - 14 * 10**9)
    return passes()


def _taken_away(copy: Copy, *, before_s: int) -> None:
    """A reassignment took the partition from a broker, so long before it was asked, and its disk still has it."""
    _ask_later(copy)
    at_ns = _asked_ns(copy) - before_s * 10**9
    with copy.document("history") as history:
        rows, end = history["changes"], history["end"]
        mine = [row for row in rows if row["type"] == "partition" and row["topic"] == "tasks"]
        now = mine[-1] | {"created": False, "offset": end, "time_ns": at_ns, "from_snapshot": False}
        now["partition_epoch"] += 1
        for row in mine:
            row["replicas"] = [*row["replicas"], BROKER]
        rows.append(now)
        history["end"] += 1
    with copy.document("cluster") as cluster:
        known = next(one for one in cluster["lineages"] if one["topic"] == "tasks")
        cluster["lineages"].append(known | {"broker": BROKER})


def _moves_disks_until(copy: Copy, to_ns: int) -> None:
    with copy.document("steps") as steps:
        fact = {"kind": "copies_rebuilt", "nodes": [BROKER], "from_ns": steps[-1]["started_ns"], "to_ns": to_ns}
        steps[-1]["facts"] = [*steps[-1].get("facts", ()), fact]


def _copy_of_a_deleted_topic(copy: Copy) -> int:
    """A topic of before the first one, and a finished copy of it that the last look found. Returns when that was."""
    with copy.document("history") as history:
        rows = history["changes"]
        first = next(row for row in rows if row["type"] == "topic")
        life = first | {"topic": "gone", "topic_id": "goneAAAAAAAAAAAAAAAAAA"}
        begin = rows.index(first)
        rows[begin:begin] = [life, life | {"event": "deleted"}]
    new = {"topic": life["topic"], "topic_id": life["topic_id"], "segment_id": "planted-gone"}
    known = tiered_segments(copy)[0]["segment_id"]
    objects = copy.original.rows("tier_objects", segment_id=known)
    looked_ns = max(int(row["looked_ns"]) for row in objects) + LATER_NS
    copy.add("tier_objects", [row | new | {"looked_ns": looked_ns} for row in objects])
    reported = copy.original.rows("tier_metadata", segment_id=known)
    at = copy.next("tier_metadata", "offset")
    copy.add("tier_metadata", [row | new | {"offset": at + n} for n, row in enumerate(reported)])
    return looked_ns


def _asked_ns(copy: Copy) -> int:
    return int(copy.original.documents["cluster"]["snapshots"][-1]["at_ns"]) + LATER_NS


def _due_ms(copy: Copy) -> int:
    return _asked_ns(copy) // 10**6 - DUE_MS


def _ask_later(copy: Copy) -> None:
    with copy.document("cluster") as cluster:
        cluster["snapshots"][-1]["at_ns"] += LATER_NS


def _rolled(copy: Copy) -> list[Row]:
    """Divides the log of one broker into two segments. Returns the batches of the first one."""
    _ask_later(copy)
    batches = copy.original.rows("batches", topic="plain", partition=0, broker=BROKER)
    first, second = batches[: len(batches) // 4], batches[len(batches) // 4 :]
    at: dict[str, Any] = {"topic": "plain", "partition": 0, "broker": BROKER}
    bases = {row["base_offset"] for row in second}
    copy.change("batches", {"segment": second[0]["base_offset"]}, **at, base_offset=bases)
    return first


def _oldest_copy(copy: Copy) -> Row:
    _ask_later(copy)
    return tiered_segments(copy)[0]


def _retain(copy: Copy, retention_ms: int, topic: str = "plain") -> None:
    """The topic has this retention.ms, in the contract and on the brokers."""
    with copy.document("run") as run:
        run["contract"]["topics"][topic]["retention_ms"] = retention_ms
    with copy.document("cluster") as cluster:
        for snapshot in cluster["snapshots"]:
            snapshot["topic_configs"][topic]["retention.ms"] = str(retention_ms)


def _newest(batches: list[Row]) -> int:
    return max(int(row["max_timestamp_ms"]) for row in batches)


def _offsets(batches: list[Row]) -> list[Broken]:
    offsets = range(batches[0]["base_offset"], batches[-1]["last_offset"] + 1)
    return [(Kind.NOT_DELETED.value, "plain", 0, offset) for offset in offsets]


# --- not_rolled ---


def _grown(copy: Copy) -> Row:
    """The oldest segment of sized on one disk is twenty times as large. Returns its first batch."""
    batches = copy.original.rows("batches", topic="sized", broker=3)
    oldest = [batch for batch in batches if batch["segment"] == batches[0]["segment"]]
    copy.change("batches", {"size_bytes": 200_000}, topic="sized", broker=3, segment=oldest[0]["segment"])
    return oldest[0]


@plant
def not_rolled(copy: Copy) -> Expected:
    first = _grown(copy)
    return fails([(Kind.NOT_ROLLED.value, "sized", 0, first["segment"])])


@plant
def near_not_rolled_with_a_large_setting(copy: Copy) -> Expected:
    """A step gave the topic larger segments for a while."""
    _grown(copy)
    _toggled(copy, "segment.bytes", "1073741824")
    return passes()


def _toggled(copy: Copy, key: str, value: str) -> None:
    """A step gave sized this setting for a moment."""
    with copy.document("steps") as steps:
        began = steps[-1]["started_ns"]
        fact = {"kind": "config_toggled", "topic": "sized", "config": {key: value}}
        steps[-1]["facts"].append(fact | {"from_ns": began, "to_ns": began + 1})


# --- too_large ---


def _bounded(copy: Copy, topic: str, *, below: int) -> Row:
    """The largest batch of a topic is by so many bytes larger than the topic permits. Returns it."""
    batches = copy.original.rows("batches", topic=topic, control=None)
    largest = max(batches, key=lambda batch: batch["size_bytes"])
    created_with(copy, topic, "max.message.bytes", str(largest["size_bytes"] - below))
    return largest


def _enlarged(copy: Copy) -> Row:
    largest = _bounded(copy, "sized", below=0)
    at = {"topic": "sized", "partition": 0, "base_offset": largest["base_offset"]}
    copy.change("batches", {"size_bytes": largest["size_bytes"] + 1}, **at)
    return largest


@plant
def too_large(copy: Copy) -> Expected:
    """One batch is larger than the topic permits by one byte, on every disk."""
    batch = _enlarged(copy)
    return fails([(Kind.TOO_LARGE.value, "sized", 0, batch["base_offset"])])


@plant
def near_too_large_by_nothing(copy: Copy) -> Expected:
    _bounded(copy, "sized", below=0)
    return passes()


@plant
def near_too_large_with_a_larger_setting(copy: Copy) -> Expected:
    """A step gave the topic larger batches for a while."""
    _enlarged(copy)
    _toggled(copy, "max.message.bytes", "1048588")
    return passes()


@plant
def near_too_large_after_compaction(copy: Copy) -> Expected:
    """A cleaner writes batches anew."""
    _bounded(copy, "keys", below=1)
    return passes()
