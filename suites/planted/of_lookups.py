"""Plants in the answers of leaders about times and leader epochs, each with its near miss."""

from __future__ import annotations

from collections.abc import Callable

from harness.model.finding import Kind
from harness.model.schemas import EARLIEST, MAX_TIMESTAMP
from harness.verify.engine.case import FINAL_PHASES
from suites.planted.copies import Copy, Row
from suites.planted.expected import Expected, doubtful, fails, passes
from suites.planted.plants import UNCOMMITTED, last_partition, plant

_PLAIN = {"topic": "plain", "partition": 0}
_READ = {"kind": "drain", "isolation": UNCOMMITTED}
_PAID = {"topic": "paid", "partition": 0}
_SIZED = {"topic": "sized", "partition": 0}


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
def offset_lookup_with_another_epoch(copy: Copy) -> Expected:
    """A consumer would take the log for truncated."""
    row = _middle(copy)
    copy.change("lookups", {"leader_epoch": row["leader_epoch"] + 1}, **_condition(row))
    return fails([(Kind.OFFSET_LOOKUP.value, "plain", 0, row["offset"])])


@plant
def near_offset_lookup_without_an_epoch(copy: Copy) -> Expected:
    """Old brokers name no epoch."""
    copy.change("lookups", {"leader_epoch": None}, **_condition(_middle(copy)))
    return passes()


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
def offset_lookup_of_an_older_marker(copy: Copy) -> Expected:
    """The leader names a marker, and a time of it before the requested one."""
    markers = copy.original.rows("batches", **_PAID, control=["commit", "abort"])
    marker = markers[len(markers) // 2]["base_offset"]
    after = [row for row in copy.original.rows("lookups", **_PAID) if row["offset"] and row["offset"] > marker]
    row = min((row for row in after if row["time_ms"] >= 0), key=lambda row: row["offset"])
    copy.change("lookups", {"offset": marker, "timestamp_ms": row["time_ms"] - 1}, **_condition(row))
    return fails([(Kind.OFFSET_LOOKUP.value, "paid", 0, marker)])


@plant
def offset_lookup_late_above_retention(copy: Copy) -> Expected:
    """Retention shortens the log; the record that the leader passed is still there."""
    row = _middle(copy, _SIZED)
    copy.change("lookups", {"offset": row["offset"] + 3}, **_condition(row))
    return fails([(Kind.OFFSET_LOOKUP.value, "sized", 0, row["offset"])])


@plant
def offset_lookup_finds_none_above_retention(copy: Copy) -> Expected:
    row = _middle(copy, _SIZED)
    copy.change("lookups", {"offset": None, "timestamp_ms": None, "leader_epoch": None}, **_condition(row))
    return fails([(Kind.OFFSET_LOOKUP.value, "sized", 0, row["offset"])])


@plant
def near_offset_lookup_after_a_later_time_below_retention(copy: Copy) -> Expected:
    """The segment of the log start has a record with that time, below the log start, and no later one."""
    row = _middle(copy, _SIZED)
    copy.change("lookups", {"offset": None, "timestamp_ms": None, "leader_epoch": None}, **_condition(row))
    for broker in (1, 2, 3):
        batch = copy.original.rows("batches", **_SIZED, broker=broker)[0]
        first = batch["base_offset"]
        below = {"base_offset": first - 1, "last_offset": first - 1, "count": 1, "segment": first - 1}
        below |= {"producer_id": -1, "base_sequence": -1}  # another one than the batch that it is like
        copy.add("batches", [batch | below | {"max_timestamp_ms": row["time_ms"]}])
    return passes()


@plant
def offset_lookup_of_a_later_start(copy: Copy) -> Expected:
    first = copy.original.rows("observations", **_PLAIN, **_READ)[0]["offset"]
    _answer(copy, _PLAIN, EARLIEST, first + 2, None)
    return fails([(Kind.OFFSET_LOOKUP.value, "plain", 0, first)])


@plant
def offset_lookup_of_an_older_latest(copy: Copy) -> Expected:
    """The leader passed over the segment with the latest time."""
    older, latest = _latest(copy, _PLAIN)
    _answer(copy, _PLAIN, MAX_TIMESTAMP, older["offset"], older["timestamp_ms"])
    return fails([(Kind.OFFSET_LOOKUP.value, "plain", 0, latest["offset"])])


@plant
def offset_lookup_of_another_than_the_latest(copy: Copy) -> Expected:
    """The leader names another record of the batch, with the latest time of the batch (KAFKA-16342)."""
    older, latest = _latest(copy, _PLAIN)
    _answer(copy, _PLAIN, MAX_TIMESTAMP, older["offset"], latest["timestamp_ms"])
    return fails([(Kind.OFFSET_LOOKUP.value, "plain", 0, older["offset"])])


@plant
def offset_lookup_finds_no_latest(copy: Copy) -> Expected:
    _, latest = _latest(copy, _SIZED)
    _answer(copy, _SIZED, MAX_TIMESTAMP, None, None)
    return fails([(Kind.OFFSET_LOOKUP.value, "sized", 0, latest["offset"])])


@plant
def offset_lookup_of_an_earlier_end(copy: Copy) -> Expected:
    """The leader names the offset of the last record instead of the one behind it."""
    for partition in _looks(copy):
        partition["high_watermark"] -= 1
        partition["last_stable_offset"] -= 1
    return fails([(Kind.OFFSET_LOOKUP.value, "plain", 0, _end(copy) - 1)], by_documents=True)


@plant
def offset_lookup_of_a_later_stable_offset(copy: Copy) -> Expected:
    for partition in _looks(copy):
        partition["last_stable_offset"] += 1
    return fails([(Kind.OFFSET_LOOKUP.value, "plain", 0, _end(copy))], by_documents=True)


@plant
def near_offset_lookup_of_an_end_before_a_marker(copy: Copy) -> Expected:
    """The second look, and not the first one, was taken while a record was on its way to the followers."""
    _looks(copy)[-1]["high_watermark"] -= 1
    return passes()


@plant
def offset_lookup_of_no_record(copy: Copy) -> Expected:
    """No record is so late, and the leader answers with the end of the log instead of none."""
    end, late_ms = _end(copy), max(row["time_ms"] for row in copy.original.rows("lookups", **_PLAIN))
    _answer(copy, _PLAIN, late_ms, end, late_ms)
    return fails([(Kind.OFFSET_LOOKUP.value, "plain", 0, end)])


@plant
def offset_lookup_of_no_record_as_the_latest(copy: Copy) -> Expected:
    end = _end(copy)
    _answer(copy, _PLAIN, MAX_TIMESTAMP, end, _latest(copy, _PLAIN)[1]["timestamp_ms"] + 1)
    return fails([(Kind.OFFSET_LOOKUP.value, "plain", 0, end)])


@plant
def near_offset_lookup_of_a_latest_marker(copy: Copy) -> Expected:
    """A transaction marker has a timestamp, too, and it may be the latest one."""
    marker = copy.original.rows("batches", **_PAID, control=["commit", "abort"])[-1]["base_offset"]
    _answer(copy, _PAID, MAX_TIMESTAMP, marker, _latest(copy, _PAID)[1]["timestamp_ms"] + 1)
    return passes()


@plant
def offset_lookup_beside_a_segment(copy: Copy) -> Expected:
    """The time just above the latest one of a closed segment: the leader passed the next segment's first record."""
    batches = copy.original.rows("batches", **_SIZED, broker=3)
    closed, following = sorted({row["segment"] for row in batches})[-2:]
    time_ms = 1 + max(row["max_timestamp_ms"] for row in batches if row["segment"] == closed)
    there = copy.original.rows("observations", **_SIZED, **_READ)
    first, second = [row for row in there if row["offset"] >= following and row["timestamp_ms"] >= time_ms][:2]
    _answer(copy, _SIZED, time_ms, second["offset"], second["timestamp_ms"])
    return fails([(Kind.OFFSET_LOOKUP.value, "sized", 0, first["offset"])])


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


def _middle(copy: Copy, place: Row = _PLAIN) -> Row:
    """A lookup from the middle, with an answer that no other lookup has, nor the record before it."""
    rows = [row for row in copy.original.rows("lookups", **place) if row["offset"] is not None]
    offsets = [row["offset"] for row in rows]
    alone = [row for row in rows if offsets.count(row["offset"]) == 1 and row["offset"] > min(offsets)]
    before = {row["offset"]: row for row in copy.original.rows("observations", **place, kind="drain")}
    alone = [row for row in alone if row["offset"] >= _start(copy, place)]
    fit = [r for r in alone if (b := before.get(r["offset"] - 1)) and b["timestamp_ms"] < r["time_ms"]]
    return fit[len(fit) // 2]


def _answer(copy: Copy, place: Row, time_ms: int, offset: int | None, timestamp_ms: int | None) -> None:
    """The leader's only answer to a question."""
    row = copy.original.rows("lookups", **place)[0]
    if copy.original.rows("lookups", **place, time_ms=time_ms):
        copy.drop("lookups", **place, time_ms=time_ms)
    copy.add("lookups", [row | {"time_ms": time_ms, "offset": offset, "timestamp_ms": timestamp_ms}])


def _end(copy: Copy) -> int:
    """The offset behind the log."""
    return 1 + max(int(row["last_offset"]) for row in copy.original.rows("batches", **_PLAIN))


def _looks(copy: Copy) -> list[Row]:
    """What brokers reported of the partition when the load had ended, at each look; to be changed in place."""
    with copy.document("cluster") as cluster:
        after = [snapshot for snapshot in cluster["snapshots"] if snapshot["phase"] in FINAL_PHASES]
    rows = [row for snapshot in after for row in snapshot["partitions"]]
    return [row for row in rows if (row["topic"], row["partition"]) == ("plain", 0)]


def _latest(copy: Copy, place: Row) -> tuple[Row, Row]:
    """The first of the records with the latest time, and an older record before it."""
    there = copy.original.rows("observations", **place, **_READ)
    latest = max(there, key=lambda row: (row["timestamp_ms"], -row["offset"]))
    return [row for row in there if row["timestamp_ms"] < latest["timestamp_ms"]][-1], latest


def _start(copy: Copy, place: Row = _SIZED) -> int:
    """The log start after all questions."""
    return int(max(row["log_start_after"] for row in copy.original.rows("probes", **place)))


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
def epoch_lookup_names_a_newer_epoch(copy: Copy) -> Expected:
    """A follower would keep what an older leader wrote, as if it were of the newer one."""
    first, _ = _first_epoch(copy)
    last = copy.original.rows("observations", **_PLAIN, **_READ)[-1]
    end = copy.original.rows("epoch_ends", **_PLAIN, epoch=last["leader_epoch"])[0]["end_offset"]
    copy.change("epoch_ends", {"reported_epoch": last["leader_epoch"], "end_offset": end}, **_PLAIN, epoch=first)
    return fails([(Kind.EPOCH_LOOKUP.value, "plain", 0, last["offset"])])


@plant
def epoch_lookup_past_the_log_end(copy: Copy) -> Expected:
    """A consumer would not see that the log was truncated."""
    last = copy.original.rows("observations", **_PLAIN, **_READ)[-1]
    copy.change("epoch_ends", {"end_offset": _log_end(copy) + 1}, **_PLAIN, epoch=last["leader_epoch"])
    return fails([(Kind.EPOCH_LOOKUP.value, "plain", 0, last["offset"])])


@plant
def near_epoch_lookup_at_the_log_end(copy: Copy) -> Expected:
    newest = copy.original.rows("observations", **_PLAIN, **_READ)[-1]["leader_epoch"]
    copy.change("epoch_ends", {"end_offset": _log_end(copy)}, **_PLAIN, epoch=newest)
    return passes()


@plant
def epoch_lookup_short_above_retention(copy: Copy) -> Expected:
    """Retention shortens the log; the records of the epoch are still there."""
    last = copy.original.rows("observations", **_SIZED, **_READ)[-1]
    copy.change("epoch_ends", {"end_offset": last["offset"]}, **_SIZED, epoch=last["leader_epoch"])
    return fails([(Kind.EPOCH_LOOKUP.value, "sized", 0, last["offset"])])


@plant
def epoch_lookup_finds_none_above_retention(copy: Copy) -> Expected:
    newest = copy.original.rows("observations", **_SIZED, **_READ)[-1]["leader_epoch"]
    copy.change("epoch_ends", {"reported_epoch": None, "end_offset": None}, **_SIZED, epoch=newest)
    start = _start(copy)
    first: dict[int, int] = {}
    for row in copy.original.rows("observations", **_SIZED, **_READ):
        if row["offset"] >= start:
            first.setdefault(row["leader_epoch"], row["offset"])
    return fails([(Kind.EPOCH_LOOKUP.value, "sized", 0, offset) for offset in first.values()])


@plant
def near_epoch_lookup_newer_than_the_log(copy: Copy) -> Expected:
    """A leader knows nothing of an epoch of which it has no record."""
    newest = max(row["leader_epoch"] for row in copy.original.rows("observations", **_SIZED, **_READ))
    row = copy.original.rows("epoch_ends", **_SIZED)[0]
    copy.add("epoch_ends", [row | {"epoch": newest + 1, "reported_epoch": None, "end_offset": None}])
    return passes()


@plant
def epoch_lookups_without_answer(copy: Copy) -> Expected:
    nothing = {"reported_epoch": None, "end_offset": None, "error": "NOT_LEADER_OR_FOLLOWER"}
    copy.change("epoch_ends", nothing, **_PLAIN)
    return doubtful("lookup_unanswered")


def _log_end(copy: Copy) -> int:
    return int(max(row["last_offset"] for row in copy.original.rows("batches", **_PLAIN))) + 1


def _first_epoch(copy: Copy) -> tuple[int, int]:
    """The first epoch with records, and its last offset; there is a later epoch."""
    by_epoch: dict[int, int] = {}
    for row in copy.original.rows("observations", **_PLAIN, **_READ):
        by_epoch[row["leader_epoch"]] = max(row["offset"], by_epoch.get(row["leader_epoch"], 0))
    assert len(by_epoch) > 1, by_epoch
    first = min(by_epoch)
    return first, by_epoch[first]


# --- leader epoch checkpoints: of a follower of plain/0, and of sized/0, whose log start moves ---


def _checkpoint(copy: Copy, change: Callable[[list[list[int]]], None], place: Row = _PLAIN) -> int:
    """Changes the checkpoint of a follower, and returns its broker."""
    with copy.document("cluster") as cluster:
        leader = last_partition(cluster, place["topic"], place["partition"])["leader"]
        of_place = [r for r in cluster["lineages"] if (r["topic"], r["partition"]) == tuple(place.values())]
        follower = next(r for r in of_place if r["broker"] != leader)
        change(follower["epochs"])
    return int(follower["broker"])


def _begins(copy: Copy, broker: int) -> dict[int, int]:
    """The first offset of each epoch on a disk."""
    begins: dict[int, int] = {}
    for batch in copy.original.rows("batches", **_PLAIN, broker=broker):
        begins.setdefault(batch["leader_epoch"], batch["base_offset"])
    assert len(begins) > 1, begins
    return begins


def _begins_by(copy: Copy, offsets: int) -> int:
    """The second epoch with batches begins so much later. Returns the broker."""
    second = sorted(_begins(copy, 2))[1]

    def change(epochs: list[list[int]]) -> None:
        next(entry for entry in epochs if entry[0] == second)[1] += offsets

    return _checkpoint(copy, change)


@plant
def epoch_lookup_checkpoint_without_an_epoch(copy: Copy) -> Expected:
    """A follower that has batches of an epoch would tell its leader of an older one."""
    broker = _checkpoint(copy, lambda epochs: epochs.__delitem__(slice(1, None)))
    first = sorted(_begins(copy, broker).values())[1]
    return fails([(Kind.EPOCH_LOOKUP.value, "plain", 0, first)], by_documents=True)


@plant
def epoch_lookup_checkpoint_begins_late(copy: Copy) -> Expected:
    """As leader it would make others keep a record that is not of that epoch."""
    first = sorted(_begins(copy, _begins_by(copy, 1)).values())[1]
    return fails([(Kind.EPOCH_LOOKUP.value, "plain", 0, first)], by_documents=True)


@plant
def epoch_lookup_checkpoint_begins_early(copy: Copy) -> Expected:
    first = min(_begins(copy, _begins_by(copy, -1)).values())
    return fails([(Kind.EPOCH_LOOKUP.value, "plain", 0, first)], by_documents=True)


@plant
def near_epoch_lookup_checkpoint_with_one_epoch_more(copy: Copy) -> Expected:
    """A leader that wrote nothing."""
    _checkpoint(copy, lambda epochs: epochs.append([epochs[-1][0] + 1, _log_end(copy)]))
    return passes()


@plant
def near_epoch_lookup_checkpoint_from_the_log_start(copy: Copy) -> Expected:
    """Retention raises the log start while the disks are read."""

    def raised(epochs: list[list[int]]) -> None:
        epochs[0][1] += 3

    _checkpoint(copy, raised, _SIZED)
    return passes()
