"""Events around an incident in the order of time: of its records, of its partition, and of the faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from harness.evidence.verdicts import FINDINGS
from harness.model.documents.steps import Step
from harness.model.history.changes import NO_LEADER, PartitionChange
from harness.model.outcome import TxnOutcome
from harness.model.verdict import Verdict
from reports.incidents.evidence import Evidence
from reports.incidents.partition import ELECTED
from reports.incidents.records import wanted_of
from reports.incidents.scan import Wanted, any_of, equals, rows
from reports.review.bands import ACKNOWLEDGED, Place, short
from reports.review.content import Incident
from reports.review.rates import parts_of
from reports.review.timeline import INCIDENTS_MAX, Marked, tried
from reports.summary import clock

MOMENTS_MAX: Final = 40
TRANSACTIONS_MAX: Final = 50
_BEFORE_NS: Final = 5_000_000_000
_AFTER_NS: Final = 10_000_000_000
_ELECTION_WITHIN_NS: Final = 120_000_000_000  # an incident often shows at the next election
_OUTCOMES: Final[Mapping[TxnOutcome, str]] = {
    TxnOutcome.COMMITTED: "is committed: its coordinator acknowledged the commit",
    TxnOutcome.ABORTED: "is aborted: its coordinator acknowledged the abort",
    TxnOutcome.UNKNOWN: "ends without an answer, so its outcome is unknown",
}
Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transaction of the records. asked_ns: when its producer asked to end it; None = it never did."""

    txn_id: int
    producer: str
    outcome: TxnOutcome
    asked_ns: int | None
    ended_ns: int | None


_NO_TRANSACTIONS: Final[tuple[Transaction, ...]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTimes:
    """The first and the last time of each sort, epoch nanoseconds; None = not known.

    transactions: the first TRANSACTIONS_MAX of the records; `transaction_count`: of all.
    """

    sent_ns: Span | None = None
    acked_ns: Span | None = None
    transactions: tuple[Transaction, ...] = ()
    transaction_count: int = 0

    @property
    def named(self) -> list[tuple[str, int]]:
        """The first acknowledgement and the ends of the transactions, for a picture. Texts of one sort are the same."""
        found = [] if self.acked_ns is None else [(ACKNOWLEDGED, self.acked_ns[0])]
        for one in self.transactions:
            if one.ended_ns is not None:
                outcome = "ended, outcome unknown" if one.outcome is TxnOutcome.UNKNOWN else one.outcome.value
                name = "transactions" if self.transaction_count > 1 else f"transaction {one.txn_id}"
                found.append((f"{name} {outcome}", one.ended_ns))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One line. since: seconds since the start of the run. own: it is about the records. state: of the partition then.

    faults: those that were active then.
    """

    at_ns: int
    at: str
    since: str
    text: str
    own: bool
    state: str
    faults: str


def marks_of(found: Sequence[Incident], bundle: Path, verdict: Verdict) -> list[Marked]:
    """The incidents with a known time, as a timeline shows them."""
    return [
        Marked(
            text=short(f"{one.kind}: {one.amount}, {one.place}"),
            first_ns=one.span_ns[0],
            last_ns=one.span_ns[1],
            moments=tuple(times_of(one, verdict, bundle, []).named) if number < INCIDENTS_MAX else (),
        )
        for number, one in enumerate(one for one in found if one.span_ns)
        if one.span_ns
    ]


def times_of(incident: Incident, verdict: Verdict, bundle: Path, missing: list[str]) -> RecordTimes:
    """The times of the records of an incident, and the ends of their transactions."""
    sent: list[int] = []
    acked: list[int] = []
    ids: set[int] = set()

    def read() -> None:
        if not (bundle / FINDINGS).is_file():
            return
        for batch in rows(bundle / FINDINGS, wanted_of(incident, verdict), ["called_ns", "returned_ns", "txn_id"]):
            sent.extend(_ends(batch["called_ns"]))
            acked.extend(_ends(batch["returned_ns"]))
            ids.update(pc.unique(batch["txn_id"].drop_null()).to_pylist())

    def read_transactions() -> tuple[Transaction, ...]:
        wanted = any_of([equals("txn_id", one) for one in sorted(ids)[:TRANSACTIONS_MAX]])
        return tuple(_transactions(bundle, wanted)) if ids else ()

    tried(read, None, missing)
    transactions = tried(read_transactions, _NO_TRANSACTIONS, missing)
    return RecordTimes(
        sent_ns=(min(sent), max(sent)) if sent else incident.span_ns,
        acked_ns=(min(acked), max(acked)) if acked else None,
        transactions=transactions,
        transaction_count=len(ids),
    )


def _ends(column: pa.Array) -> list[int]:
    found = pc.min_max(column).as_py()
    return [] if found["min"] is None else [found["min"], found["max"]]


def _transactions(bundle: Path, wanted: Wanted) -> Iterator[Transaction]:
    columns = ["txn_id", "producer", "outcome", "end_called_ns", "ended_ns"]
    for file in parts_of(bundle, "transactions"):
        for batch in rows(file, wanted, columns):
            for row in batch.to_pylist():
                yield Transaction(
                    txn_id=row["txn_id"],
                    producer=row["producer"],
                    outcome=TxnOutcome(row["outcome"]),
                    asked_ns=row["end_called_ns"],
                    ended_ns=row["ended_ns"],
                )


def moments_of(
    incident: Incident, times: RecordTimes, evidence: Evidence, place: Place | None
) -> tuple[tuple[Moment, ...], int]:
    """The lines in the order of time, and how many others there are in this time. None without a known time."""
    own = [*_of_records(incident, times, place)]
    known = [at_ns for at_ns, _ in own]
    if not known:
        return (), 0
    span_ns = _window(known, evidence, place)
    others = [*_of_faults(evidence.steps, known, span_ns), *_of_partition(evidence, place, span_ns)]
    nearest = sorted(others, key=lambda one: min(abs(one[0] - at_ns) for at_ns in known))
    shown = nearest[: max(0, MOMENTS_MAX - len(own))]
    lines = sorted([(*one, True) for one in own] + [(*one, False) for one in shown], key=lambda one: one[0])
    made = (
        Moment(
            at_ns=at_ns,
            at=clock(at_ns),
            since=_since(at_ns, evidence),
            text=text,
            own=is_own,
            state=state_at(evidence, place, at_ns),
            faults=", ".join(faults_at(evidence.steps, at_ns)),
        )
        for at_ns, text, is_own in lines
    )
    return tuple(made), len(others) - len(shown)


def _window(known: Sequence[int], evidence: Evidence, place: Place | None) -> Span:
    first, last = min(known), max(known)
    if evidence.history is not None and place is not None:
        elected = [one.after.time_ns for one in evidence.history.elections(place[1], place[2])]
        later = [at_ns for at_ns in elected if last <= at_ns <= last + _ELECTION_WITHIN_NS]
        last = min(later, default=last)
    return first - _BEFORE_NS, last + _AFTER_NS


def _of_records(incident: Incident, times: RecordTimes, place: Place | None) -> Iterator[tuple[int, str]]:
    if times.acked_ns is None and not times.transactions:  # such as operations of admins, or states that were seen
        if times.sent_ns is not None:
            when = incident.when.removesuffix(f" during {incident.step}")
            yield times.sent_ns[0], f"{incident.kind}: {incident.amount}, {when}"
        return
    where = "" if place is None else f" to {place[0]}-{place[2]}"
    one, are = ("it", "is") if incident.count == 1 else ("they", "are")
    for span_ns, text in (
        (times.sent_ns, f"{incident.amount} {are} sent{where}"),
        (times.acked_ns, f"{one} {are} acknowledged"),
    ):
        if span_ns is not None:
            yield span_ns[0], text if span_ns[0] == span_ns[1] else f"{text}, until {clock(span_ns[1])}"
    for ended in _first_and_last(times.transactions):
        name = f"transaction {ended.txn_id}"
        if ended.asked_ns is not None:
            yield ended.asked_ns, f"the producer {ended.producer} asks to end {name}"
        if ended.ended_ns is not None:
            yield ended.ended_ns, f"{name} {_OUTCOMES[ended.outcome]}"


def _first_and_last(found: Sequence[Transaction]) -> Sequence[Transaction]:
    ordered = sorted(found, key=lambda one: one.ended_ns or one.asked_ns or 0)
    return ordered if len(ordered) <= 2 else (ordered[0], ordered[-1])


def _of_faults(steps: Sequence[Step], known: Sequence[int], span_ns: Span) -> Iterator[tuple[int, str]]:
    """Begin and end of the faults in this time, and of those that were active at a time of the records."""
    for step in steps:
        if not step.is_fault or step.started_ns is None:
            continue
        until_ns = step.healed_ns or step.ended_ns
        active = any(step.started_ns <= at_ns and (until_ns is None or at_ns <= until_ns) for at_ns in known)
        name = step.name if step.name == step.do else f"{step.name} ({step.do})"
        for at_ns, text in (
            (step.started_ns, f"fault {name} begins{_on(step)}"),
            (step.healed_ns, f"fault {name} is healed"),
        ):
            if at_ns is not None and (active or span_ns[0] <= at_ns <= span_ns[1]):
                yield at_ns, text


def _on(step: Step) -> str:
    """The brokers that a fault hits, as its facts name them."""
    nodes = sorted({node for fact in step.facts for node in fact.nodes or ()})
    return f" on node{'' if len(nodes) == 1 else 's'} {', '.join(map(str, nodes))}" if nodes else ""


def _of_partition(evidence: Evidence, place: Place | None, span_ns: Span) -> Iterator[tuple[int, str]]:
    """Changes of the leader or its epoch in this time."""
    if evidence.history is None or place is None:
        return
    elected = {one.after.leader_epoch: one for one in evidence.history.elections(place[1], place[2])}
    before: PartitionChange | None = None
    for state in evidence.history.partition(place[1], place[2]):
        changed = before is not None and before.leader_epoch != state.leader_epoch
        before = state
        if not changed or not span_ns[0] <= state.time_ns <= span_ns[1]:
            continue
        name = f"{place[0]}-{place[2]}"
        if state.leader == NO_LEADER:
            yield state.time_ns, f"{name} has no leader any more (epoch {state.leader_epoch})"
        elif (election := elected.get(state.leader_epoch)) is not None:
            origin = ELECTED[election.elected_from]
            text = f"broker {state.leader} becomes the leader of {name} in epoch {state.leader_epoch}"
            yield state.time_ns, f"{text}, elected from {origin}"
        else:
            yield state.time_ns, f"broker {state.leader} leads {name} in epoch {state.leader_epoch}"


def _since(at_ns: int, evidence: Evidence) -> str:
    return "" if evidence.buckets is None else f"{(at_ns - evidence.buckets.start_ns) / 1e9:.2f} s"


def state_at(evidence: Evidence, place: Place | None, at_ns: int) -> str:
    """The leader, its epoch and the ISR of a partition at a time; "" if that is not known."""
    if evidence.history is None or place is None:
        return ""
    state = evidence.history.partition_at(place[1], place[2], at_ns)
    if state is None:
        return ""
    leader = "no leader" if state.leader == NO_LEADER else f"leader {state.leader}"
    return f"{leader}, epoch {state.leader_epoch}, ISR {list(state.isr)}"


def faults_at(steps: Sequence[Step], at_ns: int) -> list[str]:
    """The names of the faults that were active at a time."""
    found = []
    for step in steps:
        until_ns = step.healed_ns or step.ended_ns
        begun = step.is_fault and step.started_ns is not None and step.started_ns <= at_ns
        if begun and (until_ns is None or at_ns <= until_ns):
            found.append(step.name)
    return found
