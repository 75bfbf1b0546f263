"""not_in_sync: a member of the ISR, or the leader, lacks records below a high watermark that a leader had reported, or
is fenced (see `fenced.py`), or is not in the ISR when a reassignment to it ends (see `reassigned.py`).
wrongly_eligible: a member of the ELR (KIP-966) does, or stays in it after a sudden end.

A follower joins the ISR when it has everything below the high watermark, and from then on the leader waits for it
before it raises the mark. So the log of no member of the ISR ends below a high watermark of its leader, nor below one
of an earlier leader if all elections since were clean. This holds at every moment, so one sample shows the defect,
whether or not the replica catches up later, and whether or not a record is lost. The history says which replicas were
in the ISR. A sample counts only if there was no election at its time, and if the replica was in the ISR all the time.
Records that faults of disks may have destroyed are not expected.

For the ELR the same holds, because a leader does not raise the mark while its ISR is too small. The ELR is not judged
where min.insync.replicas changed, because a leader may learn of that later than of the ISR.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from harness.model.contract.contract import MIN_INSYNC
from harness.model.finding import Finding, Kind
from harness.model.history.changes import NO_LEADER, ConfigChange, PartitionChange, ResourceKind
from harness.model.history.history import History
from harness.model.sample import Sample
from harness.verify.addition import Addition, Order
from harness.verify.checks.not_in_sync.eligible import eligible_after_a_sudden_end
from harness.verify.checks.not_in_sync.fenced import fenced_members
from harness.verify.checks.not_in_sync.reassigned import ended_out_of_sync
from harness.verify.engine.case import Case, Place
from harness.verify.engine.elections import Clocks
from harness.verify.engine.known import Known
from harness.verify.engine.steps import step_at
from harness.verify.engine.timelines import (
    CLEAN,
    CLOCKS_NS,
    LATE_NS,
    Mark,
    Span,
    States,
    brokers_of,
    harm,
    held,
    interrupted,
    leader_marks,
    timed_partitions,
)
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

# A leader that learns of its own change of the ISR twice may forget for a moment that it has to wait for a new member.
_EXPECTED_NS: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    """One partition. marks: in the order of time. highest: up to each of them. clean_since: by the number of a state,
    the leader epoch since which all elections were clean. harmed: when any of its replicas may have lost records."""

    place: Place
    states: States
    marks: Sequence[Mark]
    highest: Sequence[int]
    clean_since: Sequence[int]
    harmed: Sequence[Span]
    elr_judged: bool


class _Lack(NamedTuple):
    """A sample of a member of the ISR or the ELR, with a log that ends below the mark."""

    sample: Sample
    mark: Mark
    at_ns: int
    state: PartitionChange

    @property
    def missing(self) -> int:
        return self.mark.high_watermark - self.sample.log_end


def _replicas(known: Known) -> Addition:
    case = known.case
    found = [*replicas_not_in_sync(case)]
    if case.history is not None and case.history.whole:
        found += eligible_after_a_sudden_end(case, case.history, Clocks(case, case.history))
        found += fenced_members(case, case.history)
        found += ended_out_of_sync(case, case.history)
    return Addition(findings=found)


def replicas_not_in_sync(case: Case) -> Iterator[Finding]:
    """One finding for each replica: the sample in which it lacked most. A history with gaps shows nothing."""
    history = case.history
    if history is None:
        return
    for place, states, of_brokers in timed_partitions(case, history):
        partition = _partition(case, history, place, states, of_brokers)
        for broker, samples in sorted(of_brokers.items()):
            lacks = list(_lacks(case, history, partition, broker, samples))
            if lacks:
                yield _finding(case, max(lacks, key=lambda lack: lack.missing))


def _partition(
    case: Case, history: History, place: Place, states: States, of_brokers: Mapping[int, Sequence[Sample]]
) -> _Partition:
    marks = leader_marks(states, of_brokers)
    unclean = {e.after.leader_epoch for e in history.elections(*place[1:]) if e.elected_from not in CLEAN}
    since = accumulate((row.leader_epoch if row.leader_epoch in unclean else 0 for row in states.rows), max)
    return _Partition(
        place=place,
        states=states,
        marks=marks,
        highest=[*accumulate((mark.high_watermark for mark in marks), max)],
        clean_since=[*since],
        harmed=[span for broker in sorted(brokers_of(states)) for span in harm(case, broker)],
        elr_judged=not any(
            row.key == MIN_INSYNC
            and (row.name == place[0] or row.kind is ResourceKind.BROKER)
            and row.time_ns > states.rows[0].time_ns + CLOCKS_NS
            for row in history.of(ConfigChange)
        ),
    )


def _lacks(
    case: Case, history: History, partition: _Partition, broker: int, samples: Sequence[Sample]
) -> Iterator[_Lack]:
    """The times at which the log of a member of the ISR or the ELR ended too low."""
    away: list[Span] | None = None
    for sample, from_ns, to_ns in held(samples, LATE_NS):
        expected = bisect_right(partition.marks, from_ns - _EXPECTED_NS, key=lambda mark: mark.at_ns)
        if not expected or sample.log_end >= partition.highest[expected - 1]:
            continue
        joined = _joined(partition.states, broker, from_ns, to_ns)
        if joined is None:
            continue
        number, joined_ns = joined
        away = interrupted(case, history, broker) if away is None else away
        after_ns = _certain_from(partition.harmed, joined_ns, away, to_ns)
        state = partition.states.rows[number]
        if broker not in state.isr and not partition.elr_judged:
            continue
        epochs = range(partition.clean_since[number], state.leader_epoch + 1)
        marks = [m for m in partition.marks[:expected] if m.at_ns > after_ns and m.epoch in epochs]
        highest = max(marks, key=lambda mark: mark.high_watermark, default=None)
        if highest is not None and highest.high_watermark > sample.log_end and after_ns < from_ns:
            yield _Lack(sample, highest, from_ns, state)


def _joined(states: States, broker: int, from_ns: int, to_ns: int) -> tuple[int, int] | None:
    """The number of the state in these times, and since when the broker was in the ISR or the ELR. None unless it was
    in the same one of them during all these times, in one leader epoch."""
    numbers = states.during(from_ns, to_ns)
    rows = [states.rows[number] for number in numbers]
    if not rows or {row.leader_epoch for row in rows} != {rows[0].leader_epoch}:
        return None
    sets = {"isr" if broker in row.isr else "elr" if broker in row.elr else "" for row in rows}
    if len(sets) > 1 or "" in sets or ("isr" in sets and rows[0].leader == NO_LEADER):
        return None
    first = numbers[0]
    while first and broker in (*states.rows[first - 1].isr, *states.rows[first - 1].elr):
        first -= 1
    return numbers[0], states.rows[first].time_ns


def _certain_from(harmed: Sequence[Span], joined_ns: int, away: Sequence[Span], to_ns: int) -> int:
    """Marks of before this time are not expected: something happened since that may have cost the replica records."""
    ends = [span.to_ns for span in harmed if span.from_ns <= to_ns + CLOCKS_NS]
    ends += [span.to_ns for span in away if span.touches(joined_ns - CLOCKS_NS, to_ns + CLOCKS_NS)]
    return max(ends, default=0) + CLOCKS_NS


def _finding(case: Case, lack: _Lack) -> Finding:
    sample, mark, state = lack.sample, lack.mark, lack.state
    before_s = (lack.at_ns - mark.at_ns) / 10**9
    in_sync = sample.broker in state.isr
    kind = Kind.NOT_IN_SYNC if in_sync else Kind.WRONGLY_ELIGIBLE
    where = f"the ISR {sorted(state.isr)}" if in_sync else f"the ELR {sorted(state.elr)}"
    return Finding(
        kind=kind,
        topic=sample.topic,
        topic_id=sample.topic_id,
        partition=sample.partition,
        offset_first=sample.log_end,
        offset_last=mark.high_watermark - 1,
        count=lack.missing,
        first_ns=lack.at_ns,
        last_ns=lack.at_ns,
        step=step_at(case.steps, lack.at_ns),
        reader=f"broker {sample.broker}",
        detail=(
            f"broker {sample.broker} was in {where}, and its log ended at {sample.log_end}; "
            f"broker {mark.leader}, the leader of epoch {mark.epoch}, had reported the high watermark "
            f"{mark.high_watermark} {before_s:.1f} s before"
        ),
        contract=promise(kind, sample.topic, None, case.contract),
    )


CHECK: Final = Check(
    promise="A member of the ISR or the ELR has every record below the high watermark.",
    kinds={
        Kind.NOT_IN_SYNC: Introduced(
            promise="a replica is in the ISR only while it has every record below the high watermark (KIP-966)"
        ),
        Kind.WRONGLY_ELIGIBLE: Introduced(
            promise="a replica is in the ELR only while it has every record below the high watermark (KIP-966)"
        ),
    },
    adds=_replicas,
    order=Order(findings=16),
    planted=(
        "not_in_sync",
        "not_in_sync_as_it_joined",
        "not_in_sync_while_it_is_fenced",
        "near_not_in_sync_when_it_is_fenced_after_it_left",
        "near_not_in_sync_outside_the_isr",
        "near_not_in_sync_with_what_came_later",
        "wrongly_eligible",
        "wrongly_eligible_after_a_sudden_end",
        "near_wrongly_eligible_with_every_record",
        "near_wrongly_eligible_after_a_controlled_shutdown",
    ),
)
