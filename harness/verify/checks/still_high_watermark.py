"""unserved: the high watermark of a leader stands still below what every replica in sync has for long.

A leader raises its high watermark when a follower fetches, and when its ISR shrinks, because it may have waited for
the replica that left (KAFKA-13091). Until then it acknowledges nothing with acks=all, and serves no record above it.
While records are written the next fetch raises it, so this shows in a partition that is idle.

A sample counts only if enough replicas were in sync, if leader and ISR were the same for long, and if no fault was open
but ends or freezes of brokers outside the ISR.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from harness.model.facts import FactKind
from harness.model.finding import Finding, Kind
from harness.model.history.changes import PartitionChange
from harness.model.history.history import History
from harness.model.sample import Sample
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.min_isr import min_isr
from harness.verify.engine.steps import open_during, step_at
from harness.verify.engine.timelines import CLOCKS_NS, LATE_NS, States, any_interrupted, held, timed_partitions
from harness.verify.promise import Check
from harness.verify.sentences import promise

# A follower that has everything fetches again after 500 ms, and an overloaded machine may delay it.
_RAISED_NS: Final = 10 * 10**9
# Before that, leader and ISR are the same for so long that followers have truncated what they had of earlier leaders.
_SETTLED_NS: Final = 4 * 10**9
_OUTSIDE: Final = frozenset({FactKind.STOPPED, FactKind.FROZEN})


class _Still(NamedTuple):
    """A sample of a leader, its mark, where the shortest log of the ISR ended long before, and the state."""

    sample: Sample
    mark: int
    common_end: int
    at_ns: int
    state: PartitionChange


def _leaders(known: Known) -> Addition:
    return Addition(findings=[*still_leaders(known.case)])


def still_leaders(case: Case) -> Iterator[Finding]:
    """One finding for each partition: the sample with the lowest mark. A history with gaps shows nothing."""
    history = case.history
    if history is None:
        return
    for _, states, of_brokers in timed_partitions(case, history):
        stills = [still for broker in sorted(of_brokers) for still in _still(case, history, states, of_brokers, broker)]
        if stills:
            yield _finding(case, min(stills, key=lambda still: still.mark - still.common_end))


def _still(
    case: Case, history: History, states: States, of_brokers: Mapping[int, Sequence[Sample]], broker: int
) -> Iterator[_Still]:
    for sample, from_ns, to_ns in held(of_brokers[broker], LATE_NS):
        led = states.mark_of_leader(sample)
        if led is None or led[1] >= sample.log_end:
            continue
        begun_ns, settled_ns = from_ns - _RAISED_NS - _SETTLED_NS, from_ns - _RAISED_NS
        rows = [states.rows[number] for number in states.during(begun_ns, to_ns)]
        same = {(row.leader, row.leader_epoch, frozenset(row.isr)) for row in rows}
        if not rows or same != {(broker, led[0], frozenset(rows[0].isr))}:
            continue
        ends = [_end(of_brokers.get(member, ()), begun_ns, settled_ns) for member in rows[0].isr]
        known = [end for end in ends if end is not None]
        if len(known) < len(ends) or led[1] >= min(known):
            continue
        if _enough(case, history, rows[0], begun_ns, to_ns) and not _disturbed(case, history, rows[0], begun_ns, to_ns):
            yield _Still(sample, led[1], min(known), from_ns, rows[0])


def _end(samples: Sequence[Sample], from_ns: int, until_ns: int) -> int | None:
    """Where the log of a replica ended by then. None if its broker has not reported it since `from_ns`."""
    reported = bisect_right(samples, until_ns, key=lambda sample: sample.at_ns)
    if not reported:
        return None
    last = samples[reported - 1]
    # Unchanged values are in no further sample, but for the last report of them.
    since = samples[reported] if reported < len(samples) and not samples[reported].after_silence else None
    return last.log_end if last.asked_ns >= from_ns or (since is not None and since.asked_ns >= until_ns) else None


def _enough(case: Case, history: History, state: PartitionChange, from_ns: int, to_ns: int) -> bool:
    """Whether the leader may raise its mark: since 3.7 not while its ISR is too small (KAFKA-15583)."""
    wanted = min_isr(case, history, state, from_ns, to_ns)
    return wanted is not None and len(state.isr) >= min(max(wanted), len(state.replicas))


def _disturbed(case: Case, history: History, state: PartitionChange, from_ns: int, to_ns: int) -> bool:
    if any_interrupted(case, history, state.isr, from_ns, to_ns):
        return True
    faults = (step for step in open_during(case.steps, from_ns - CLOCKS_NS, to_ns + CLOCKS_NS) if step.is_fault)
    facts = [fact for step in faults for fact in step.facts]
    return any(fact.kind not in _OUTSIDE or any(map(fact.concerns, state.isr)) for fact in facts)


def _finding(case: Case, still: _Still) -> Finding:
    sample, state = still.sample, still.state
    return Finding(
        kind=Kind.UNSERVED,
        topic=sample.topic,
        topic_id=sample.topic_id,
        partition=sample.partition,
        offset_first=still.mark,
        offset_last=still.common_end - 1,
        count=still.common_end - still.mark,
        first_ns=still.at_ns,
        last_ns=still.at_ns,
        step=step_at(case.steps, still.at_ns),
        reader=f"broker {sample.broker}",
        detail=(
            f"broker {sample.broker} led in epoch {state.leader_epoch} with the high watermark {still.mark}, and the "
            f"logs of all replicas in the ISR {sorted(state.isr)} had ended at {still.common_end} or later for "
            f"{_RAISED_NS // 10**9} s"
        ),
        contract=promise(Kind.UNSERVED, sample.topic, None, case.contract),
    )


CHECK: Final = Check(
    promise="A leader raises its high watermark to what every replica in sync has.",
    breaks="a leader acknowledges and serves what every replica in sync has, also after its ISR shrank (KAFKA-13091)",
    shares=(Kind.UNSERVED,),
    adds=_leaders,
    order=Order(findings=16),
    planted=(
        "unserved_by_a_leader_whose_mark_stands_still",
        "near_unserved_by_a_leader_whose_mark_stands_still_for_a_moment",
    ),
)
