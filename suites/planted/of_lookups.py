"""Plants in the answers of leaders about times and leader epochs, each with its near miss."""

from __future__ import annotations

from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Expected, doubtful, fails, passes
from suites.planted.plants import UNCOMMITTED, plant

_PLAIN = {"topic": "plain", "partition": 0}
_READ = {"kind": "drain", "isolation": UNCOMMITTED}
_PAID = {"topic": "paid", "partition": 0}


@plant
def offset_lookup_late(copy: Copy) -> Expected:
    """The search passed the first record of that time."""
    row = _middle(copy)
    copy.change("lookups", {"offset": row["offset"] + 3}, **_condition(row))
    return fails([(Kind.OFFSET_LOOKUP.value, "plain", 0, row["offset"])])


@plant
def offset_lookup_finds_none(copy: Copy) -> Expected:
    row = _middle(copy)
    copy.change("lookups", {"offset": None, "timestamp_ms": None, "leader_epoch": None}, **_condition(row))
    return fails([(Kind.OFFSET_LOOKUP.value, "plain", 0, row["offset"])])


@plant
def offset_lookup_early(copy: Copy) -> Expected:
    """The search stopped at a record that is older than requested."""
    row = _middle(copy)
    copy.change("lookups", {"offset": row["offset"] - 1}, **_condition(row))
    return fails([(Kind.OFFSET_LOOKUP.value, "plain", 0, row["offset"] - 1)])


@plant
def offset_lookup_with_another_time(copy: Copy) -> Expected:
    row = _middle(copy)
    copy.change("lookups", {"timestamp_ms": row["timestamp_ms"] + 1}, **_condition(row))
    return fails([(Kind.OFFSET_LOOKUP.value, "plain", 0, row["offset"])])


@plant
def near_offset_lookup_of_a_marker(copy: Copy) -> Expected:
    """A transaction marker has a timestamp, too, and no reader receives it."""
    markers = copy.original.rows("batches", **_PAID, control=["commit", "abort"])
    marker = markers[len(markers) // 2]["base_offset"]
    after = [row for row in copy.original.rows("lookups", **_PAID) if row["offset"] and row["offset"] > marker]
    row = min(after, key=lambda row: row["offset"])
    copy.change("lookups", {"offset": marker}, **_condition(row))
    return passes()


@plant
def near_offset_lookup_below_retention(copy: Copy) -> Expected:
    """Records that retention has deleted since may be named."""
    row = copy.original.rows("lookups", topic="sized", partition=0)[0]
    copy.change("lookups", {"offset": 0}, **_condition(row))
    return passes()


@plant
def lookups_without_answer(copy: Copy) -> Expected:
    nothing = {"offset": None, "timestamp_ms": None, "leader_epoch": None, "error": "NOT_LEADER_OR_FOLLOWER"}
    copy.change("lookups", nothing, **_PLAIN)
    return doubtful("lookup_unanswered")


def _middle(copy: Copy) -> Row:
    """A lookup from the middle, with an answer that no other lookup has, nor the record before it."""
    rows = [row for row in copy.original.rows("lookups", **_PLAIN) if row["offset"] is not None]
    offsets = [row["offset"] for row in rows]
    alone = [row for row in rows if offsets.count(row["offset"]) == 1 and row["offset"] > min(offsets)]
    before = {row["offset"]: row for row in copy.original.rows("observations", **_PLAIN, kind="drain")}
    fit = [r for r in alone if (b := before.get(r["offset"] - 1)) and b["timestamp_ms"] < r["time_ms"]]
    return fit[len(fit) // 2]


def _condition(row: Row) -> Row:
    return {name: row[name] for name in ("topic", "partition", "time_ms")}


# --- leader epochs; plain/0 has had at least two in the run ---


@plant
def epoch_lookup_short(copy: Copy) -> Expected:
    """A follower would truncate a record of that epoch."""
    first, last = _first_epoch(copy)
    copy.change("epoch_ends", {"end_offset": last}, **_PLAIN, epoch=first)
    return fails([(Kind.EPOCH_LOOKUP.value, "plain", 0, last)])


@plant
def epoch_lookup_beyond(copy: Copy) -> Expected:
    """A follower would keep a record that is not of that epoch."""
    first, last = _first_epoch(copy)
    later = min(row["offset"] for row in copy.original.rows("observations", **_PLAIN, **_READ) if row["offset"] > last)
    copy.change("epoch_ends", {"end_offset": later + 1}, **_PLAIN, epoch=first)
    return fails([(Kind.EPOCH_LOOKUP.value, "plain", 0, later)])


@plant
def epoch_lookup_finds_none(copy: Copy) -> Expected:
    first, _ = _first_epoch(copy)
    copy.change("epoch_ends", {"reported_epoch": None, "end_offset": None}, **_PLAIN, epoch=first)
    offset = min(row["offset"] for row in copy.original.rows("observations", **_PLAIN, **_READ))
    return fails([(Kind.EPOCH_LOOKUP.value, "plain", 0, offset)])


@plant
def near_epoch_lookup_below_retention(copy: Copy) -> Expected:
    """Epochs of records that retention has deleted may be known or not."""
    copy.change("epoch_ends", {"reported_epoch": None, "end_offset": None}, topic="sized", partition=0)
    return passes()


@plant
def epoch_lookups_without_answer(copy: Copy) -> Expected:
    nothing = {"reported_epoch": None, "end_offset": None, "error": "NOT_LEADER_OR_FOLLOWER"}
    copy.change("epoch_ends", nothing, **_PLAIN)
    return doubtful("lookup_unanswered")


def _first_epoch(copy: Copy) -> tuple[int, int]:
    """The first epoch with records, and its last offset; there is a later epoch."""
    by_epoch: dict[int, int] = {}
    for row in copy.original.rows("observations", **_PLAIN, **_READ):
        by_epoch[row["leader_epoch"]] = max(row["offset"], by_epoch.get(row["leader_epoch"], 0))
    assert len(by_epoch) > 1, by_epoch
    first = min(by_epoch)
    return first, by_epoch[first]
