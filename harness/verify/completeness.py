"""Evidence that is thinner than it says: each of these would make a defect look like silence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.verdict import Doubt
from harness.verify.engine.case import FINAL_PHASES, Case, place_of
from harness.verify.engine.counts import Counts

_STRENGTH: Final = ("0", "1", "all")


def thin(case: Case, counts: Counts) -> Iterator[Doubt]:
    """Doubts on the bundle of a run that came to its end."""
    yield from _streams(counts)
    yield from _contract(case, counts)
    yield from _steps(case)
    yield from _spans_of_reads(case)
    yield from _disks(case, counts)


def _streams(counts: Counts) -> Iterator[Doubt]:
    unreserved = sum(row["producer"] is None for row in counts.streams)
    if unreserved:
        yield Doubt("no_reservation", f"{unreserved} streams have no reservation, so who wrote them is unknown")
    for row in counts.streams:
        if row["rows"] != row["sent_seq"]:
            text = f"stream {row['stream']} has {row['rows']} rows in the ledger and {row['sent_seq']} sequences"
            yield Doubt("ledger_gap", text)


def _steps(case: Case) -> Iterator[Doubt]:
    wanted, done = case.scenario.get("steps") or [], case.steps
    if len(done) < len(wanted):
        yield Doubt("steps_missing", f"the scenario has {len(wanted)} steps, and {len(done)} are told of")


def _spans_of_reads(case: Case) -> Iterator[Doubt]:
    """From where to where each copy was read, held against what the brokers said of the log."""
    by_phase = {s["phase"]: s for s in case.cluster["snapshots"]}
    phases = [by_phase[phase] for phase in FINAL_PHASES if phase in by_phase]
    if not phases:
        return
    holes = {place_of(read): hole["to_offset"] for read in case.reads for hole in read.get("holes") or []}
    last, first = ({place_of(p): p for p in s["partitions"]} for s in (phases[0], phases[-1]))
    for read in case.reads:
        what = f"the read {read['reader']} of {read['topic']}/{read['partition']}"
        starts = [log["log_start"] for log in last.get(place_of(read), {}).get("logs", [])]
        ends = [log["log_end"] for log in first.get(place_of(read), {}).get("logs", [])]
        # Who follows is read behind the last hole that its leader's copy was seen to have.
        begins = max([*starts, holes.get(place_of(read), 0) if read["kind"] == "replica" else 0])
        if starts and read["start"] > begins:
            text = f"{what} began at {read['start']}, and no replica's log starts above {max(starts)}"
            yield Doubt("read_late", text)
        if ends and read["position"] < max(ends) and read["reached"]:
            text = f"{what} ended at {read['position']} as if reached, and a replica's log went on to {max(ends)}"
            yield Doubt("read_short", text)


def _disks(case: Case, counts: Counts) -> Iterator[Doubt]:
    """Disks that the backend can read, of brokers that have something on them."""
    last = case.last_snapshot
    if last is None or "disk.read" not in (case.run.get("capabilities") or []):
        return
    logs = [log for p in last["partitions"] for log in p["logs"]]
    filled = {log["broker"] for log in logs if log["log_end"] > log["log_start"]}
    if not counts.disks:
        yield Doubt("no_batches", "the disks could be read, and nobody read them")
    elif not_read := sorted(filled - counts.disks):
        yield Doubt("no_batches", f"nobody read the disks of brokers {not_read}")


def _contract(case: Case, counts: Counts) -> Iterator[Doubt]:
    """A contract that asks less of a producer than its client was told to keep."""
    for name, (acks, idempotent) in counts.reserved.items():
        contract = case.contract.producers.get(name)
        if contract is None or acks not in _STRENGTH or contract.acks not in _STRENGTH:
            continue
        if _STRENGTH.index(contract.acks) < _STRENGTH.index(acks):
            yield Doubt("contract_weaker", f"producer {name} asked for acks={acks}, the contract says {contract.acks}")
        if idempotent and not contract.idempotent:
            yield Doubt("contract_weaker", f"producer {name} was idempotent, the contract says it was not")
