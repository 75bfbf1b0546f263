"""Log starts in the samples of a run: that of a replica never falls, and a follower learns its leader's.

A broker writes log starts to disk every log.flush.start.offset.checkpoint.interval.ms, and at a controlled shutdown. So
a log start falls only when a broker ended otherwise before it wrote the new one. With tiered storage a follower may
also take over an older start with the state of the tier, so topics of the remote tier are left out.

A leader sends its log start in each answer to a follower, with its high watermark. So a follower that has taken over a
high watermark which the leader reported after a log start has that log start, too. No clock is needed for that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final

from harness.model.facts import Fact, FactKind, Stop
from harness.model.finding import Finding, Kind
from harness.model.history.history import History
from harness.model.sample import Sample
from harness.verify.engine.case import Case, Place
from harness.verify.engine.steps import step_at
from harness.verify.engine.timelines import (
    CLEAN,
    CLOCKS_NS,
    States,
    brokers_of,
    harm,
    harms,
    spans_of,
    timed_partitions,
)

# How late a broker on an overloaded machine may write its checkpoint.
_LATE_NS: Final = 30 * 10**9
# A follower may still read an answer of its last leader this long after it knows the new one.
_LAST_LEADER_NS: Final = 2 * 10**9


def sampled_log_starts(case: Case) -> Iterator[Finding]:
    """Findings: log starts that fell, and followers that did not learn the log start of their leader."""
    history = case.history
    if history is None:
        return
    for place, states, of_brokers in timed_partitions(case, history):
        for broker, samples in sorted(of_brokers.items()):
            known = [sample for sample in samples if sample.log_start is not None]
            if _is_simple(case, history, place):
                yield from [*_fallen(case, states, broker, known)][:1]
            yield from [*_not_learned(case, states, of_brokers, known)][:1]


def _is_simple(case: Case, history: History, place: Place) -> bool:
    """Whether a replica keeps its own log start: without a remote tier and without a leader that may lack records."""
    contract = case.contract.topics.get(place[0])
    elections = history.elections(*place[1:])
    return contract is not None and not contract.tiered and all(one.elected_from in CLEAN for one in elections)


def _fallen(case: Case, states: States, broker: int, samples: Sequence[Sample]) -> Iterator[Finding]:
    for number, (before, after) in enumerate(pairwise(samples)):
        start, earlier = after.log_start or 0, before.log_start or 0
        if start < earlier and states.on_one_disk(broker, before.asked_ns, after.at_ns):
            first = number
            while first and (samples[first - 1].log_start or 0) > start:
                first -= 1
            if not _may_fall(case, states, broker, samples[first].asked_ns, after.at_ns):
                seen = f"the log of broker {broker} started at {earlier}, and later at {start}"
                yield _finding(case, after, start, earlier, f"{seen}, although the broker had written it to disk")


def _may_fall(case: Case, states: States, broker: int, known_ns: int, to_ns: int) -> bool:
    """Whether the broker may have ended before it wrote the log start that it knew since then, or lost it."""
    every_ns = case.contract.start_checkpoint_ms * 10**6 + _LATE_NS
    ends = spans_of(case, broker, _is_sudden_end)
    harmed = [span for one in brokers_of(states) for span in harm(case, one)]
    from_ns, to_ns = known_ns - CLOCKS_NS, to_ns + CLOCKS_NS
    unwritten = any(end.touches(from_ns, min(known_ns + every_ns, to_ns)) for end in ends)
    return unwritten or any(span.touches(from_ns, to_ns) for span in harmed)


def _is_sudden_end(fact: Fact) -> bool:
    return fact.kind is FactKind.STOPPED and fact.how is not Stop.CLEANLY and not harms(fact)


def _not_learned(
    case: Case, states: States, of_brokers: Mapping[int, Sequence[Sample]], samples: Sequence[Sample]
) -> Iterator[Finding]:
    leaders = {row.leader_epoch: row.leader for row in reversed(states.rows)}
    of_leader: dict[int, tuple[list[int], list[int]]] = {}
    first_of: dict[int, Sample] = {}  # by leader epoch
    settled_of: dict[int, Sample] = {}
    for before, after in pairwise(samples):
        epoch, mark = before.leader_epoch, before.high_watermark
        if epoch is None or mark is None or after.after_silence or after.leader_epoch != epoch:
            if after.after_silence:
                first_of, settled_of = {}, {}
            continue
        leader = leaders.get(epoch)
        if leader is None or leader == before.broker:
            continue
        first = first_of.setdefault(epoch, before)
        if before.asked_ns < first.at_ns + _LAST_LEADER_NS:
            continue
        settled = settled_of.setdefault(epoch, before)
        if mark <= (settled.high_watermark or 0):
            continue
        if epoch not in of_leader:
            of_leader[epoch] = _of_leader(of_brokers.get(leader, ()), epoch)
        marks, starts = of_leader[epoch]
        lower = bisect_left(marks, mark)  # that many answers of the leader have a lower mark
        if lower > 1 and starts[lower - 2] > (after.log_start or 0):
            start, wanted = after.log_start or 0, starts[lower - 2]
            seen = f"the log of broker {after.broker} starts at {start}, and it has a high watermark that its leader,"
            yield _finding(case, after, start, wanted, f"{seen} broker {leader}, reported after the log start {wanted}")


def _of_leader(samples: Sequence[Sample], epoch: int) -> tuple[list[int], list[int]]:
    """The high watermarks and log starts that a leader reported in its epoch, in order; neither of them falls."""
    own = [(s.high_watermark, s.log_start) for s in samples if s.leader_epoch == epoch]
    known = [(mark, start) for mark, start in own if mark is not None and start is not None]
    return [*accumulate((mark for mark, _ in known), max)], [start for _, start in known]


def _finding(case: Case, sample: Sample, start: int, wanted: int, detail: str) -> Finding:
    return Finding(
        kind=Kind.LOG_START,
        topic=sample.topic,
        topic_id=sample.topic_id,
        partition=sample.partition,
        offset_first=start,
        offset_last=wanted - 1,
        count=wanted - start,
        step=step_at(case.steps, sample.at_ns),
        reader=f"broker {sample.broker}",
        detail=detail,
        contract="a replica keeps the log start that it has, and learns that of its leader (KIP-107)",
    )
