"""Plants: functions that change one copy and return the expected verdict on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final

from suites.planted.copies import Copy, Original, Row
from suites.planted.expected import Expected, Record

Plant = Callable[[Copy], Expected]
PLANTS: Final[dict[str, Plant]] = {}

COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"
LIVE: Final = ("committed", "grouped", "uncommitted")  # the live readers of planted.toml
AFTER_HEALING: Final = ("drain", "replica", "probe")  # kinds of readers after healing
ALL_KINDS: Final = ("live", *AFTER_HEALING)


def plant(change: Plant) -> Plant:
    """Registers a change under the name of its function."""
    assert change.__name__ not in PLANTS, change.__name__
    PLANTS[change.__name__] = change
    return change


def records(original: Original, topic: str, partition: int, **wanted: Any) -> list[Record]:
    """Acknowledged records of a place that read_uncommitted returns after healing, ordered by offset."""
    shown = {
        row["offset"]
        for row in original.rows("observations", topic=topic, partition=partition, kind="drain", isolation=UNCOMMITTED)
    }
    rows = original.rows("ledger", topic=topic, partition=partition, outcome="acked", **wanted)
    return [record_of(row) for row in rows if row["offset"] in shown]


def created_with(copy: Copy, topic: str, key: str, value: str) -> None:
    """A setting with which a topic was created, as the brokers report it."""
    with copy.document("scenario") as scenario:
        next(one for one in scenario["topics"] if one["name"] == topic)["config"][key] = value
    with copy.document("cluster") as cluster:
        for snapshot in cluster["snapshots"]:
            snapshot["topic_configs"][topic][key] = value


def elect_outsider(copy: Copy, topic: str, partition: int, *, at_ns: int, epoch: int | None = None) -> int:
    """Adds to the history an election of a broker that left the ISR long before, and was not in the ELR. Returns the
    new leader.

    epoch: the new leader epoch, None = the next one.
    """
    with copy.document("history") as history:
        rows = [row for row in history["changes"] if row["type"] == "partition" and row["topic"] == topic]
        last = [row for row in rows if row["partition"] == partition][-1]
        new = min(replica for replica in last["replicas"] if replica != last["leader"])
        others = [replica for replica in last["replicas"] if replica != new]
        without = last | {"offset": history["end"], "time_ns": 0, "isr": others, "elr": []}
        without |= {"partition_epoch": last["partition_epoch"] + 1}
        epoch = last["leader_epoch"] + 1 if epoch is None else epoch
        of_new = {"offset": history["end"] + 1, "time_ns": at_ns, "leader": new, "isr": [new], "leader_epoch": epoch}
        of_new |= {"partition_epoch": without["partition_epoch"] + 1}
        history["changes"] += [without, without | of_new]
        history["end"] += 2
    return int(new)


def partition_added(copy: Copy, topic: str, partition: int, *, step: int) -> int:
    """A step added a partition. Returns when it began."""
    with copy.document("steps") as steps:
        of = steps[step]
        event = {"kind": "partitions_added", "topic": topic, "partition": partition, "partitions": partition + 1}
        of["events"].append(event | {"at_ns": of["ended_ns"]})
        return int(of["started_ns"])


def damage_metadata(copy: Copy, node: int, what: str) -> None:
    """The fault damaged metadata on the disk of a node."""
    with copy.document("steps") as steps:
        fault = next(step for step in steps if step["is_fault"])
        times = {"from_ns": fault["started_ns"], "to_ns": fault["ended_ns"]}
        fault["facts"].append({"kind": "metadata_damaged", "nodes": [node], "what": what, **times})


def record_of(row: Row) -> Record:
    """The record of a row of the ledger."""
    return Record(**{name: row[name] for name in Record.__dataclass_fields__})


def received_live(original: Original, topic: str, partition: int, readers: Iterable[str] = LIVE) -> set[int]:
    """Offsets that each of these live readers received, and no read from an arbitrary offset."""
    seen = {
        reader: original.rows("observations", topic=topic, partition=partition, reader=reader) for reader in readers
    }
    probed = {row["offset"] for row in original.rows("observations", topic=topic, partition=partition, kind="probe")}
    return set.intersection(*({row["offset"] for row in rows} for rows in seen.values())) - probed


def named_by_lookups(original: Original, topic: str, partition: int) -> set[int]:
    """Offsets that a leader named in a lookup by time: another record there would make the answer wrong."""
    return {row["offset"] for row in original.rows("lookups", topic=topic, partition=partition)}


def middle(original: Original, topic: str = "plain", partition: int = 0, count: int = 1) -> list[Record]:
    """Adjacent records of one stream, or of one partition of one transaction, from the middle of a place.

    Every reader received them, and no lookup by time names them.
    """
    seen = received_live(original, topic, partition) - named_by_lookups(original, topic, partition)
    for run in _ranges_of_one_stream(records(original, topic, partition, txn_id=None)):
        if len(run) >= count + 2 and {r.offset for r in run[1 : count + 1]} <= seen and run[0].offset > min(seen):
            return run[1 : count + 1]
    raise AssertionError(f"{topic}/{partition} has no {count} adjacent records that every reader received")


def borders(original: Original) -> list[tuple[Record, Record]]:
    """All pairs of adjacent records of different streams in plain/0 that every reader received and no lookup by time
    names."""
    seen = received_live(original, "plain", 0) - named_by_lookups(original, "plain", 0)
    return [
        (a, b)
        for a, b in pairwise(records(original, "plain", 0))
        if a.stream != b.stream and b.offset == a.offset + 1 and {a.offset, b.offset} <= seen
    ]


def _ranges_of_one_stream(rows: Iterable[Record]) -> list[list[Record]]:
    runs: list[list[Record]] = []
    for row in rows:
        last = runs[-1][-1] if runs else None
        if last is not None and (last.stream, last.seq + 1, last.offset + 1) == (row.stream, row.seq, row.offset):
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs[len(runs) // 2 :] + runs[: len(runs) // 2]


def transaction(original: Original, outcome: str) -> dict[int, list[Record]]:
    """A transaction with this outcome that wrote to both partitions: its records by partition.

    Live readers received everything of it that their isolation permits. On a starved machine there may be none.
    """
    by_txn: dict[int, dict[int, list[Record]]] = {
        t["txn_id"]: {} for t in original.rows("transactions", outcome=outcome)
    }
    for partition in (0, 1):
        for record in records(original, "paid", partition, txn_id=set(by_txn)):
            by_txn[record.txn_id or 0].setdefault(partition, []).append(record)
    readers = LIVE if outcome == "committed" else ["uncommitted"]
    seen = {p: received_live(original, "paid", p, readers) for p in (0, 1)}
    whole = [
        parts
        for parts in by_txn.values()
        if len(parts) == 2 and all(r.offset in seen[p] for p, part in parts.items() for r in part)
    ]
    assert whole, f"live readers received no {outcome} transaction as a whole"
    return whole[len(whole) // 2]


def forget(copy: Copy, *gone: Record, kinds: Iterable[str] = ALL_KINDS, **wanted: Any) -> None:
    """Removes the observations of these records by readers of these kinds."""
    for record in gone:
        copy.drop("observations", kind=set(kinds), **record.at, **wanted)


def last_partition(cluster: Any, topic: str, partition: int) -> Any:
    """The last report of the brokers about a place."""
    rows = cluster["snapshots"][-1]["partitions"]
    return next(p for p in rows if (p["topic"], p["partition"]) == (topic, partition))


def append(copy: Copy, record: Record, *, epoch_higher_by: int = 0) -> Record:
    """Writes the record again at the end of a log, as every broker and every reader after healing would show it.

    Its batch has the producer id and epoch of the batch with `record`, the epoch raised if requested.
    """
    with copy.document("cluster") as cluster:
        place = last_partition(cluster, record.topic, record.partition)
        new = record.moved(place["high_watermark"])
        place["high_watermark"] += 1
        place["last_stable_offset"] += 1
        for log in place["logs"]:
            log["log_end"] += 1
    with copy.document("reads") as reads:
        for read in reads:
            if (read["topic"], read["partition"]) == (record.topic, record.partition):
                read["position"] += 1
                read["target"] += 1
    log = {"topic": record.topic, "partition": record.partition, "end_offset": new.offset}
    copy.change("epoch_ends", {"end_offset": new.offset + 1}, **log)
    shown = copy.original.rows("observations", **new.at | {"offset": new.offset - 1}, kind=set(AFTER_HEALING))
    own = own_values(copy.original, record)
    copy.add("observations", [row | {"offset": new.offset, **own} for row in shown])
    _append_batch(copy, record, new.offset, epoch_higher_by)
    return new


def own_values(original: Original, record: Record) -> dict[str, Any]:
    """Values that a record keeps at any place: stream, sequence number and timestamp; without the timestamp if no
    reader received it."""
    known = original.rows("observations", **record.sent)
    return record.sent | ({"timestamp_ms": known[0]["timestamp_ms"]} if known else {})


def _append_batch(copy: Copy, record: Record, offset: int, epoch_higher_by: int) -> None:
    batches = copy.original.rows("batches", topic=record.topic, partition=record.partition, control=None)
    for broker in sorted({row["broker"] for row in batches}):
        on_disk = [row for row in batches if row["broker"] == broker]
        holding = [row for row in on_disk if row["base_offset"] <= record.offset <= row["last_offset"]]
        like = (holding or on_disk)[-1]
        again = {"base_offset": offset, "last_offset": offset, "count": 1, "segment": on_disk[-1]["segment"]}
        epochs = {
            "producer_epoch": like["producer_epoch"] + epoch_higher_by,
            "base_sequence": 0 if epoch_higher_by else like["base_sequence"],
            "leader_epoch": on_disk[-1]["leader_epoch"],
        }
        copy.add("batches", [like | again | epochs])


def exited(at_ns: int, node: int = 2) -> dict[str, Any]:
    """The end of a node by itself, as run.json has it."""
    name = f"c{node}" if node > 100 else f"b{node}"
    error = "java.lang.IllegalStateException: log end offset 7 is below the recovery point 9"
    return {"name": name, "node": node, "at_ns": at_ns, "code": 1, "signal": None, "error": error, "log": [error]}
