"""unserved: a follower in the ISR does not learn the high watermark that its leader has had for long.

A leader answers a waiting fetch when its high watermark is above the one that the follower knows (KIP-392), records or
not. Until a follower learns it, it hides committed records from consumers that read from it, and hides them again when
it becomes the leader. While records are written the next fetch brings it, so this shows in a partition that is idle.

A sample counts only if the log of the follower has the records, if leader and ISR were the same all the time, and if no
fault was open and no broker of the two started since the leader reported the mark.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
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
from harness.verify.engine.timelines import (
    CLOCKS_NS,
    LATE_NS,
    Mark,
    States,
    any_interrupted,
    held,
    leader_marks,
    timed_partitions,
)
from harness.verify.promise import Check
from harness.verify.sentences import promise

# A follower waits 500 ms for an answer (replica.fetch.wait.max.ms), and an overloaded machine may delay it.
_KNOWN_NS: Final = 10 * 10**9


class _Late(NamedTuple):
    """A sample of a follower, whose high watermark is `known`, and what its leader had reported at that time."""

    sample: Sample
    known: int
    at_ns: int
    mark: Mark

    @property
    def hidden(self) -> int:
        return self.mark.high_watermark - self.known


# By leader: its marks in the order of time, and of each of them the first one that is as high as any up to it.
_Marks = Mapping[int, tuple[Sequence[Mark], Sequence[Mark]]]


def _followers(known: Known) -> Addition:
    return Addition(findings=[*late_followers(known.case)])


def late_followers(case: Case) -> Iterator[Finding]:
    """One finding for each replica: the sample that was behind most. A history with gaps shows nothing."""
    history = case.history
    if history is None:
        return
    for _, states, of_brokers in timed_partitions(case, history):
        marks = _by_leader(leader_marks(states, of_brokers))
        for broker, samples in sorted(of_brokers.items()):
            found = list(_late(case, history, states, marks, broker, samples))
            if found:
                yield _finding(case, max(found, key=lambda late: late.hidden))


def _by_leader(marks: Sequence[Mark]) -> _Marks:
    of_leaders: defaultdict[int, list[Mark]] = defaultdict(list)
    for mark in marks:
        of_leaders[mark.leader].append(mark)
    return {leader: (of, [*accumulate(of, _higher)]) for leader, of in of_leaders.items()}


def _higher(one: Mark, later: Mark) -> Mark:
    return later if later.high_watermark > one.high_watermark else one


def _late(
    case: Case, history: History, states: States, marks: _Marks, broker: int, samples: Sequence[Sample]
) -> Iterator[_Late]:
    for sample, from_ns, to_ns in held(samples, LATE_NS):
        rows = [states.rows[number] for number in states.during(from_ns - _KNOWN_NS, to_ns)]
        known = sample.high_watermark
        if known is None or len({(row.leader, row.leader_epoch, tuple(row.isr)) for row in rows}) != 1:
            continue
        leader = rows[0].leader
        if leader in (NO_LEADER, broker) or broker not in rows[0].isr or leader not in marks:
            continue
        reported, highest = marks[leader]
        until = bisect_right(reported, from_ns - _KNOWN_NS, key=lambda mark: mark.at_ns)
        if not until or not known < highest[until - 1].high_watermark <= sample.log_end:
            continue
        if not _disturbed(case, history, (broker, leader), highest[until - 1].at_ns, to_ns):
            yield _Late(sample, known, from_ns, highest[until - 1])


def _disturbed(case: Case, history: History, brokers: Sequence[int], from_ns: int, to_ns: int) -> bool:
    faults = any(step.is_fault for step in open_during(case.steps, from_ns - CLOCKS_NS, to_ns + CLOCKS_NS))
    return faults or any_interrupted(case, history, brokers, from_ns, to_ns)


def _finding(case: Case, late: _Late) -> Finding:
    sample, mark = late.sample, late.mark
    since_s = (late.at_ns - mark.at_ns) / 10**9
    return Finding(
        kind=Kind.UNSERVED,
        topic=sample.topic,
        topic_id=sample.topic_id,
        partition=sample.partition,
        offset_first=late.known,
        offset_last=mark.high_watermark - 1,
        count=late.hidden,
        first_ns=late.at_ns,
        last_ns=late.at_ns,
        reader=f"broker {sample.broker}",
        detail=(
            f"broker {sample.broker} is in the ISR, its log ends at {sample.log_end}, and its high watermark was "
            f"{late.known}; {since_s:.1f} s before its leader, broker {mark.leader}, had said {mark.high_watermark}"
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
