"""Evidence that contains less than it claims. Each of these gaps would hide a defect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.doubt_names import DoubtName
from harness.model.verdict import Doubt
from harness.verify.engine.case import FINAL_PHASES, Case
from harness.verify.engine.counts import Counts

_STRENGTH: Final = ("0", "1", "all")


def evidence_gaps(case: Case, counts: Counts) -> Iterator[Doubt]:
    """Doubts about the evidence of a run that finished."""
    yield from _streams(counts)
    yield from _contract(case, counts)
    yield from _steps(case)
    yield from _spans_of_reads(case)
    yield from _disks(case, counts)


def _streams(counts: Counts) -> Iterator[Doubt]:
    unreserved = sum(row.producer is None for row in counts.streams)
    if unreserved:
        yield Doubt(
            DoubtName.NO_RESERVATION, f"{unreserved} streams have no reservation, so their producers are unknown"
        )
    for row in counts.streams:
        if row.rows != row.sent_seq:
            text = f"stream {row.stream} has {row.rows} rows in the ledger and {row.sent_seq} sequence numbers"
            yield Doubt(DoubtName.LEDGER_GAP, text)


def _steps(case: Case) -> Iterator[Doubt]:
    wanted, done = case.scenario.steps or (), case.steps
    if len(done) < len(wanted):
        yield Doubt(DoubtName.STEPS_MISSING, f"the scenario has {len(wanted)} steps, and steps.json has {len(done)}")


def _spans_of_reads(case: Case) -> Iterator[Doubt]:
    """Where each read of a copy started and ended, compared with the log that the brokers reported."""
    by_phase = {s.phase: s for s in case.cluster.snapshots}
    phases = [by_phase[phase] for phase in FINAL_PHASES if phase in by_phase]
    if not phases:
        return
    holes = {read.place: hole.to_offset for read in case.reads for hole in read.holes or ()}
    last, first = ({p.place: p.logs for p in s.partitions} for s in (phases[0], phases[-1]))
    for read in case.reads:
        read_name = f"the read {read.reader} of {read.topic}/{read.partition}"
        starts = [log.log_start for log in last.get(read.place, ())]
        ends = [log.log_end for log in first.get(read.place, ())]
        # A follower's copy is read from the last hole on that the read of the leader's copy found.
        begins = max([*starts, holes.get(read.place, 0) if read.kind == "replica" else 0])
        if starts and read.start > begins:
            text = f"{read_name} started at {read.start}, and no replica's log starts above {max(starts)}"
            yield Doubt(DoubtName.READ_LATE, text)
        if ends and read.position < max(ends) and read.reached:
            text = f"{read_name} claims to have ended at {read.position}, and a replica's log ends at {max(ends)}"
            yield Doubt(DoubtName.READ_SHORT, text)


def _disks(case: Case, counts: Counts) -> Iterator[Doubt]:
    """Disks that the backend can read, of brokers that have records."""
    last = case.last_snapshot
    if last is None or "disk.read" not in (case.run.capabilities or ()):
        return
    logs = [log for p in last.partitions for log in p.logs]
    filled = {log.broker for log in logs if log.log_end > log.log_start}
    if not counts.disks:
        yield Doubt(DoubtName.NO_BATCHES, "the disks of the brokers could be read, and were not")
    elif not_read := sorted(filled - counts.disks):
        yield Doubt(DoubtName.NO_BATCHES, f"the disks of brokers {not_read} were not read")


def _contract(case: Case, counts: Counts) -> Iterator[Doubt]:
    """A contract that promises less than the producer's client was configured for."""
    for name, (acks, idempotent) in counts.reserved.items():
        contract = case.contract.producers.get(name)
        if contract is None or acks not in _STRENGTH or contract.acks not in _STRENGTH:
            continue
        if _STRENGTH.index(contract.acks) < _STRENGTH.index(acks):
            yield Doubt(
                DoubtName.CONTRACT_WEAKER,
                f"producer {name} used acks={acks}, and the contract says acks={contract.acks}",
            )
        if idempotent and not contract.idempotent:
            yield Doubt(
                DoubtName.CONTRACT_WEAKER, f"producer {name} was idempotent, and the contract says that it is not"
            )
