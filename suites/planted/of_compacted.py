"""Plants in answers about a compacted topic, and on its disks: what must stay there for ever."""

from __future__ import annotations

from harness.model.finding import Kind
from suites.planted.copies import Copy, Original, Row
from suites.planted.expected import Expected, fails, passes
from suites.planted.plants import COMMITTED, UNCOMMITTED, plant

_KEYS = {"topic": "keys", "partition": 0}
_LEADER, _FOLLOWER = 2, 1


def _staying(original: Original) -> list[Row]:
    """Observations of the newest value of each key, in the order of their offsets."""
    sends = {(row["stream"], row["seq"]): row for row in original.rows("ledger", **_KEYS)}
    newest: dict[int, Row] = {}
    for row in original.rows("observations", **_KEYS, kind="drain", isolation=UNCOMMITTED):
        newest[sends[row["stream"], row["seq"]]["key_hash"]] = row
    visible = {row["offset"] for row in original.rows("observations", **_KEYS, kind="drain", isolation=COMMITTED)}
    values = [row for row in newest.values() if sends[row["stream"], row["seq"]]["value"] != "null"]
    return sorted((row for row in values if row["offset"] in visible), key=lambda row: row["offset"])


def _answer(copy: Copy, offset: int | None, emptied_ms: int | None = None) -> tuple[Row, int]:
    """The leader's answer, before and after the disks were read, about a time before the first record that must stay.
    Returns that record and the time. emptied_ms: a segment on the leader's disk is empty, and that much younger."""
    first = _staying(copy.original)[0]
    row = next(row for row in copy.original.rows("lookups", **_KEYS) if 0 <= row["time_ms"] <= first["timestamp_ms"])
    copy.drop("lookups", **_KEYS, time_ms=row["time_ms"])
    at_ms = None if offset is None else first["timestamp_ms"]
    copy.add("lookups", [row | {"offset": offset, "timestamp_ms": at_ms}] * 2)
    with copy.document("cluster") as cluster:
        empty = _KEYS | {"broker": _LEADER, "base_offset": 0, "modified_ms": row["time_ms"] + (emptied_ms or 0)}
        cluster["empty_segments"] = [] if emptied_ms is None else [empty]
    return first, row["time_ms"]


@plant
def offset_lookup_passes_what_compaction_keeps(copy: Copy) -> Expected:
    first = _staying(copy.original)[0]["offset"]
    following = min(
        row["offset"] for row in copy.original.rows("observations", **_KEYS, kind="drain") if row["offset"] > first
    )
    after = next(row for row in copy.original.rows("observations", **_KEYS, kind="drain", offset=following))
    _answer(copy, following)
    copy.change("lookups", {"timestamp_ms": after["timestamp_ms"]}, **_KEYS, offset=following)
    return fails([(Kind.OFFSET_LOOKUP.value, "keys", 0, first)])


@plant
def near_offset_lookup_passes_what_compaction_may_remove(copy: Copy) -> Expected:
    """The leader names the first record that must stay, and the drain returns earlier ones."""
    _answer(copy, _staying(copy.original)[0]["offset"])
    return passes()


@plant
def offset_lookup_finds_nothing_of_a_compacted_topic(copy: Copy) -> Expected:
    first, _ = _answer(copy, None)
    return fails([(Kind.OFFSET_LOOKUP.value, "keys", 0, first["offset"])])


@plant
def near_offset_lookup_in_an_emptied_segment(copy: Copy) -> Expected:
    """Kafka takes the time of the file for the latest time in the segment, and looks nowhere else."""
    _answer(copy, None, emptied_ms=0)
    return passes()


@plant
def offset_lookup_past_an_emptied_segment(copy: Copy) -> Expected:
    """The file of the emptied segment is older than the requested time."""
    first, _ = _answer(copy, None, emptied_ms=-1)
    return fails([(Kind.OFFSET_LOOKUP.value, "keys", 0, first["offset"])])


@plant
def disk_of_a_compacted_topic_without_a_value(copy: Copy) -> Expected:
    """A cleaner removed a whole batch, and with it the newest values of keys."""
    batch, offsets = _batch(copy)
    copy.drop("batches", **_KEYS, broker=_FOLLOWER, base_offset=batch["base_offset"])
    return fails([(Kind.REPLICA_DIVERGENCE.value, "keys", 0, offset) for offset in offsets])


@plant
def disk_of_a_compacted_topic_with_too_few_records(copy: Copy) -> Expected:
    """A cleaner kept the batch, and too few records in it."""
    batch, offsets = _batch(copy)
    fewer = {"count": len(offsets) - 1}
    copy.change("batches", fewer, **_KEYS, broker=_FOLLOWER, base_offset=batch["base_offset"])
    return fails([(Kind.REPLICA_DIVERGENCE.value, "keys", 0, offsets[0])])


@plant
def disk_of_a_compacted_topic_with_another_leader_epoch(copy: Copy) -> Expected:
    batch, _ = _batch(copy)
    other = {"leader_epoch": batch["leader_epoch"] + 1}
    copy.change("batches", other, **_KEYS, broker=_FOLLOWER, base_offset=batch["base_offset"])
    offsets = range(batch["base_offset"], batch["last_offset"] + 1)
    return fails([(Kind.REPLICA_DIVERGENCE.value, "keys", 0, offset) for offset in offsets])


@plant
def disk_of_a_compacted_topic_with_a_broken_batch(copy: Copy) -> Expected:
    batch, _ = _batch(copy)
    copy.change("batches", {"crc_ok": False}, **_KEYS, broker=_FOLLOWER, base_offset=batch["base_offset"])
    offsets = range(batch["base_offset"], batch["last_offset"] + 1)
    return fails([(Kind.REPLICA_DIVERGENCE.value, "keys", 0, offset) for offset in offsets])


@plant
def near_disk_of_a_compacted_topic(copy: Copy) -> Expected:
    """One cleaner has removed what it may from a batch, and written the rest anew; it removed another batch whole."""
    batch, offsets = _batch(copy)
    where = _KEYS | {"broker": _FOLLOWER}
    copy.change("batches", {"count": len(offsets), "digest": 1}, **where, base_offset=batch["base_offset"])
    staying = {row["offset"] for row in _staying(copy.original)}
    for gone in copy.original.rows("batches", **where):
        if not staying & {*range(gone["base_offset"], gone["last_offset"] + 1)}:
            copy.drop("batches", **where, base_offset=gone["base_offset"])
            return passes()
    return passes()


def _batch(copy: Copy) -> tuple[Row, list[int]]:
    """A batch on the follower's disk with newest values, and the offsets of these."""
    staying = [row["offset"] for row in _staying(copy.original)]
    for batch in copy.original.rows("batches", **_KEYS, broker=_FOLLOWER):
        offsets = [offset for offset in staying if batch["base_offset"] <= offset <= batch["last_offset"]]
        if offsets:
            return batch, offsets
    raise AssertionError("no batch of keys/0 has the newest value of a key")
