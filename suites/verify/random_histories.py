"""Random histories: legal ones in all variety, and ones with a single defect."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from suites.verify.edits import append, contract, lose
from suites.verify.history import Built, Entry, History, Row

PLAIN = "AAAAAAAAaUuR|."
INSIDE = "AAAAaUu"
BRACKETS = (("(", ")"), ("(", ")"), ("[", "]"), ("{", "}"), ("<", ">"))


def texts(rng: Random) -> list[str]:
    """One text for each partition; the n-th transaction has the same outcome on all of them."""
    kinds = [rng.choice(BRACKETS) for _ in range(4)]
    return [_text(rng, kinds) for _ in range(rng.randint(1, 3))]


def _text(rng: Random, kinds: list[tuple[str, str]]) -> str:
    out = ["A"]
    for opening, closing in kinds[: rng.randint(0, 4)]:
        out += rng.choices(PLAIN, k=rng.randint(0, 6))
        out += [opening, *rng.choices(INSIDE, k=rng.randint(1, 5)), closing]
    return "".join([*out, *rng.choices(PLAIN, k=rng.randint(1, 8)), "A"])


def history_of(rng: Random) -> History:
    """A legal log, of which retention may have deleted the start."""
    history = History(*texts(rng))
    if rng.random() < 0.3:
        history.starts = [rng.randint(0, len(log) - 1) for log in history.logs]
    return history


def legal(rng: Random, edit: Callable[[History], None] | None = None) -> Built:
    """A legal history with everything that readers and groups may do; `edit` may change its log."""
    history = history_of(rng)
    built = history.build(edit)
    return varied(rng, history, built)


def varied(rng: Random, history: History, built: Built) -> Built:
    """Adds differences between runs that are legal."""
    kept = [len(log) - start for log, start in zip(history.logs, history.starts, strict=True)]
    if any(history.starts):
        contract(built, retention_bytes=100 * min(kept))
    for partition, log in enumerate(history.logs):
        _live_readers(rng, built, partition, len(log))
        _commits(rng, built, partition)
    return built


def _live_readers(rng: Random, built: Built, partition: int, end: int) -> None:
    """Readers start late, stop early and change sessions; a group reads some records twice."""
    for reader in ("live", "peek"):
        low, high = sorted((rng.randint(0, end), rng.randint(0, end)))
        rows = built.rows("observations", reader=reader, partition=partition)
        gone = [id(row) for row in rows if not low <= row["offset"] <= high]
        built.tables["observations"] = [row for row in built.tables["observations"] if id(row) not in gone]
        jump = rng.randint(0, end)
        for row in rows:
            row["session"] = int(row["offset"] >= jump)
    moved = rng.randint(0, end)
    before = [
        row | {"session": 0}
        for row in built.rows("observations", reader="grouped", partition=partition)
        if moved <= row["offset"] <= moved + 3
    ]
    for row in built.rows("observations", reader="grouped", partition=partition):
        row["session"] = 1 if row["offset"] >= moved else 0
    built.tables["observations"] += before


def _commits(rng: Random, built: Built, partition: int) -> None:
    """The last commit may be unanswered, and may have counted or not."""
    first, last = built.rows("offset_commits", partition=partition)
    if rng.random() < 0.3:
        last["outcome"] = "unknown"
        reported = rng.choice([first["offset"], last["offset"]])
        for row in built.drained["groups"]:
            if row["partition"] == partition:
                row["offset"] = reported


# --- one defect --------------------------------------------------------------------------------------------------

Defect = tuple[Built, set[str]]


def with_one_defect(rng: Random) -> tuple[str, Built, set[str]]:
    """A history with one defect: its name, the history, and the kinds that must be found, no more and no fewer."""
    name = rng.choice(sorted(DEFECTS))
    while (wrong := DEFECTS[name](rng)) is None:
        pass
    return name, *wrong


def _promised(history: History) -> list[tuple[int, int]]:
    """(partition, offset) of records that were acknowledged outside transactions and that retention kept.

    Not the first record that retention kept if its acknowledgement has no offset: without it nobody can know that
    retention did not delete it, too.
    """
    rows = [r for r in history.ledger if r["outcome"] == "acked" and r["txn_id"] is None]
    acked = {(r["stream"], r["seq"]): r["offset"] for r in rows}
    return [
        (partition, offset)
        for (partition, log), start in zip(enumerate(history.logs), history.starts, strict=True)
        for offset, entry in enumerate(log)
        if offset >= start
        and (entry.stream, entry.seq) in acked
        and not (offset == start > 0 and acked[entry.stream, entry.seq] is None)
    ]


def _everywhere(edit: Callable[[Random, History], bool], kinds: set[str]) -> Callable[[Random], Defect | None]:
    def defect(rng: Random) -> Defect | None:
        history = history_of(rng)
        if not edit(rng, history):
            return None
        return varied(rng, history, history.build()), kinds

    return defect


def _lose(rng: Random, history: History) -> bool:
    partition, offset = rng.choice(_promised(history))
    lose(offset, partition)(history)
    return True


def _copy(rng: Random, history: History) -> bool:
    partition, offset = rng.choice(_promised(history))
    entry = history.logs[partition][offset]
    append(entry.stream, entry.seq, partition)(history)
    return True


def _never_sent(rng: Random, history: History) -> bool:
    append(rng.choice([1, 50]), 10_000)(history)
    return True


def _refused_lands(rng: Random) -> Defect | None:
    history = History(*[f"{text}R" for text in texts(rng)])
    row = rng.choice([row for row in history.ledger if row["seq"] == history.sent[row["stream"]] - 1])
    append(row["stream"], row["seq"], row["partition"])(history)
    return varied(rng, history, history.build()), {"phantom"}


def _misroute(_: Random, history: History) -> bool:
    if len(history.logs) < 2:
        return False
    entry = next(e for e in history.logs[0] if e.stream == 1)
    history.logs[1].append(Entry(entry.stream, entry.seq, history.now_ns))
    return True


def _swap(rng: Random, history: History) -> bool:
    pairs = [(p, o) for p, o in _promised(history) if (p, o + 1) in _promised(history)]
    if pairs:
        partition, offset = rng.choice(pairs)
        log = history.logs[partition]
        log[offset], log[offset + 1] = log[offset + 1], log[offset]
    return bool(pairs)


def _show_aborted(rng: Random, history: History) -> bool:
    hidden = [
        entry
        for partition, log in enumerate(history.logs)
        for entry in log[history.starts[partition] :]
        if entry.txn and not entry.visible and history.transactions[entry.txn]["outcome"] == "aborted"
    ]
    if hidden:
        rng.choice(hidden).visible = True
    return bool(hidden)


def _start_too_far(rng: Random) -> Defect | None:
    """Retention by size deleted one record too many.

    Some disk keeps a batch: evidence without any batch does not distinguish an empty disk from an unread one.
    """
    history = History(*texts(rng))
    partition, offset = rng.choice(_promised(history))
    if len(history.logs) == 1 and offset + 1 == len(history.logs[0]):
        return None
    history.starts[partition] = offset + 1
    built = varied(rng, history, history.build())
    kept = len(history.logs[partition]) - offset - 1
    return contract(built, retention_bytes=100 * (kept + 1)), {"log_start"}


def _skipped(rng: Random) -> Defect | None:
    history = history_of(rng)
    built = varied(rng, history, history.build())
    rows = built.rows("observations", reader="leader-committed", partition=0)
    offsets = sorted(row["offset"] for row in rows)
    if len(offsets) < 3:
        return None
    left_out = rng.choice(offsets[1:-1])
    who = {"reader": "live", "kind": "live", "replica": None, "session": 8}
    built.tables["observations"] += [row | who for row in rows if row["offset"] != left_out]
    return built, {"skipped_read"}


def _in_a_table(
    defect: Callable[[Random, Built, int, int], None], kinds: set[str]
) -> Callable[[Random], Defect | None]:
    def with_table_defect(rng: Random) -> Defect | None:
        history = history_of(rng)
        places = _promised(history)
        built = varied(rng, history, history.build())
        defect(rng, built, *rng.choice(places))
        return built, kinds

    return with_table_defect


def _drop_from_replica(rng: Random, built: Built, partition: int, offset: int) -> None:
    built.drop("observations", replica=rng.choice([2, 3]), partition=partition, offset=offset)


def _drop_from_drain(_: Random, built: Built, partition: int, offset: int) -> None:
    built.drop("observations", kind="drain", partition=partition, offset=offset)


def _damage(rng: Random, built: Built, partition: int, offset: int) -> None:
    row = rng.choice(built.rows("observations", partition=partition, offset=offset))
    row.update(intact=False, **rng.choice([{}, {"stream": -1, "seq": 0}]))


def _change_replica(rng: Random, built: Built, partition: int, offset: int) -> None:
    broker = rng.choice([2, 3])
    built.change("observations", {"seq": 9999}, replica=broker, partition=partition, offset=offset)


def _change_disk(rng: Random, built: Built, partition: int, offset: int) -> None:
    change: Row = rng.choice([{"digest": -1}, {"producer_id": 99}, {"leader_epoch": 99}, {"crc_ok": False}])
    built.change("batches", change, broker=rng.choice([1, 2, 3]), partition=partition, base_offset=offset)


def _drop_from_disk(rng: Random, built: Built, partition: int, offset: int) -> None:
    """Not the first batch: where retention is active, it may have been deleted since the broker reported its log
    start."""
    later = sorted({row["base_offset"] for row in built.rows("batches", partition=partition)})[1:]
    if offset in later:
        built.drop("batches", broker=rng.choice([1, 2, 3]), partition=partition, base_offset=offset)
    else:
        _change_disk(rng, built, partition, offset)


def _received_with_older_epoch(_: Random, built: Built, partition: int, offset: int) -> None:
    """The group's reader received the record in a batch of an older leader than the one that wrote the current
    batch."""
    (seen,) = built.rows("observations", partition=partition, offset=offset, reader="leader-committed")
    who = {"reader": "peek", "kind": "live", "replica": None, "session": 9}
    built.tables["observations"].append(seen | who | {"leader_epoch": seen["leader_epoch"] - 1})


def _received_and_lost(_: Random, built: Built, partition: int, __: int) -> None:
    """A group's reader received a record of unknown outcome above all others, and no other reader did."""
    rows = built.rows("observations", partition=partition, reader="leader-uncommitted")
    place = built.drained["partitions"][partition]
    end = place["high_watermark"] + 1
    place.update(high_watermark=end, last_stable_offset=end)
    place["logs"] = [log | {"log_end": end} for log in place["logs"]]
    for read in built.reads:
        if read["partition"] == partition:
            read.update(target=end, position=end)
    marker = built.rows("batches", partition=partition)[-3:]
    built.tables["batches"] += [
        row | {"base_offset": end - 1, "last_offset": end - 1, "control": "other"} for row in marker
    ]
    seen = rows[-1] | {"reader": "peek", "kind": "live", "replica": None, "offset": end - 1, "seq": 4, "session": 9}
    seen["stream"] = partition + 1
    built.tables["observations"].append(
        seen | {"seq": max(r["seq"] for r in built.rows("ledger", stream=partition + 1)) + 1}
    )


def _wrong_group_offset(_: Random, built: Built, partition: int, __: int) -> None:
    for row in built.drained["groups"]:
        if row["partition"] == partition:
            row["offset"] = 77_777


DEFECTS: dict[str, Callable[[Random], Defect | None]] = {
    "a promised record is missing": _everywhere(_lose, {"lost"}),
    "a record is there twice": _everywhere(_copy, {"duplicated"}),
    "a record that was never sent": _everywhere(_never_sent, {"phantom"}),
    "a refused record is there": _refused_lands,
    "a record is in another partition": _everywhere(_misroute, {"misrouted"}),
    "two records are exchanged": _everywhere(_swap, {"reordered"}),
    "an aborted record is returned": _everywhere(_show_aborted, {"aborted_read"}),
    "the drain passes over a promised record": _in_a_table(_drop_from_drain, {"lost"}),
    "a replica lacks a record": _in_a_table(_drop_from_replica, {"replica_divergence"}),
    "a replica has another record": _in_a_table(_change_replica, {"replica_divergence"}),
    "a disk has another batch": _in_a_table(_change_disk, {"replica_divergence"}),
    "a disk lacks a batch": _in_a_table(_drop_from_disk, {"replica_divergence"}),
    "a reader receives a damaged record": _in_a_table(_damage, {"corrupt"}),
    "a record was received and is missing": _in_a_table(_received_and_lost, {"vanished"}),
    "a record was received and written again": _in_a_table(_received_with_older_epoch, {"vanished"}),
    "a reader skips a record": _skipped,
    "retention deletes too much": _start_too_far,
    "a group gets an offset that was never committed": _in_a_table(_wrong_group_offset, {"commit_regressed"}),
}
