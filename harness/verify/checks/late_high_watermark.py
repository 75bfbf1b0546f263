"""unserved: a follower in the ISR does not learn the high watermark that its leader has had for long.

A leader answers a waiting fetch when its high watermark is above the one that the follower knows (KIP-392), records or
not. Until a follower learns it, it hides committed records from consumers that read from it, and hides them again when
it becomes the leader. While records are written the next fetch brings it, so this shows in a partition that is idle.

A sample counts only if the log of the follower has the records, if leader and ISR were the same all the time, and if no
fault was open and no broker of the two started since the leader reported the mark.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from harness.model.finding import Finding, Kind
from harness.model.history.changes import NO_LEADER
from harness.model.history.history import History
from harness.model.sample import Sample
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.steps import open_during
from harness.verify.engine.timelines import CLOCKS_NS, LATE_NS, States, held, interrupted, timed_partitions
from harness.verify.promise import Check
from harness.verify.sentences import promise

# A follower waits 500 ms for an answer (replica.fetch.wait.max.ms), and an overloaded machine may delay it.
_KNOWN_NS: Final = 10 * 10**9


class _Late(NamedTuple):
    """A sample of a follower, and the high watermark that its leader had reported at that time."""

    sample: Sample
    at_ns: int
    mark: int
    mark_ns: int
    leader: int


def _followers(known: Known) -> Addition:
    return Addition(findings=[*late_followers(known.case)])


def late_followers(case: Case) -> Iterator[Finding]:
    """One finding for each replica: the sample that was behind most. A history with gaps shows nothing."""
    history = case.history
    if history is None:
        return
    for _, states, of_brokers in timed_partitions(case, history):
        for broker, samples in sorted(of_brokers.items()):
            found = list(_late(case, history, states, of_brokers, broker, samples))
            if found:
                yield _finding(case, max(found, key=lambda late: late.mark - (late.sample.high_watermark or 0)))


def _late(
    case: Case,
    history: History,
    states: States,
    of_brokers: Mapping[int, Sequence[Sample]],
    broker: int,
    samples: Sequence[Sample],
) -> Iterator[_Late]:
    for sample, from_ns, to_ns in held(samples, LATE_NS):
        rows = [states.rows[number] for number in states.during(from_ns - _KNOWN_NS, to_ns)]
        if sample.high_watermark is None or len({(row.leader, row.leader_epoch, tuple(row.isr)) for row in rows}) != 1:
            continue
        leader = rows[0].leader
        if leader in (NO_LEADER, broker) or broker not in rows[0].isr:
            continue
        mark_ns, mark = _reported(states, of_brokers.get(leader, ()), from_ns - _KNOWN_NS)
        if not sample.high_watermark < mark <= sample.log_end or _disturbed(
            case, history, (broker, leader), mark_ns, to_ns
        ):
            continue
        yield _Late(sample, from_ns, mark, mark_ns, leader)


def _reported(states: States, of_leader: Sequence[Sample], by_ns: int) -> tuple[int, int]:
    """The highest high watermark that a leader had reported by then, and when it did so first; (0, 0) without one."""
    rows = [(row.at_ns, led[1]) for row in of_leader if (led := states.mark_of_leader(row)) is not None]
    until = bisect_right(rows, by_ns, key=lambda row: row[0])
    highest = [*accumulate((mark for _, mark in rows[:until]), max)]
    return (rows[highest.index(highest[-1])][0], highest[-1]) if highest else (0, 0)


def _disturbed(case: Case, history: History, brokers: Sequence[int], from_ns: int, to_ns: int) -> bool:
    away = [span for broker in brokers for span in interrupted(case, history, broker)]
    faults = (step for step in open_during(case.steps, from_ns - CLOCKS_NS, to_ns + CLOCKS_NS) if step.is_fault)
    return any(span.touches(from_ns - CLOCKS_NS, to_ns + CLOCKS_NS) for span in away) or any(True for _ in faults)


def _finding(case: Case, late: _Late) -> Finding:
    sample = late.sample
    since_s = (late.at_ns - late.mark_ns) / 10**9
    return Finding(
        kind=Kind.UNSERVED,
        topic=sample.topic,
        topic_id=sample.topic_id,
        partition=sample.partition,
        offset_first=sample.high_watermark,
        offset_last=late.mark - 1,
        count=late.mark - (sample.high_watermark or 0),
        first_ns=late.at_ns,
        last_ns=late.at_ns,
        reader=f"broker {sample.broker}",
        detail=(
            f"broker {sample.broker} is in the ISR, its log ends at {sample.log_end}, and its high watermark was "
            f"{sample.high_watermark}; {since_s:.1f} s before its leader, broker {late.leader}, had said {late.mark}"
        ),
        contract=promise(Kind.UNSERVED, sample.topic, None, case.contract),
    )


CHECK: Final = Check(
    promise="A follower in the ISR learns the high watermark of its leader.",
    breaks="a follower in the ISR learns the high watermark of its leader, with records or without (KIP-392)",
    shares=(Kind.UNSERVED,),
    adds=_followers,
    order=Order(findings=16),
    planted=(
        "unserved_by_a_follower",
        "near_unserved_by_a_follower_for_a_moment",
        "near_unserved_by_a_follower_outside_the_isr",
    ),
)
