"""acked_below_min_isr: acks=all was acknowledged while the ISR was certainly smaller than min.insync.replicas, or the
high watermark of the leader rose.

Since 3.7 such a leader rejects the send, and does not move its high watermark (KAFKA-15583), so that nothing sent then
is acknowledged, nor with acks=1 given to a reader, whether or not it is lost later. The history says how large the ISR
was. Only sends count that began and were acknowledged, and marks that were reported, within one partition epoch, after
the leader had applied it: its election was clean, so that no other leader acknowledged anything, the active controller
stayed the same, and no step had begun to keep the leader or the controllers from learning of the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.clock import CLOCKS_MS
from harness.model.contract.contract import MIN_INSYNC
from harness.model.facts import MEANINGS
from harness.model.finding import Finding, Kind
from harness.model.history.changes import NO_LEADER, PartitionChange
from harness.model.history.elections import ElectedFrom
from harness.model.history.history import History
from harness.model.outcome import Outcome
from harness.model.schemas import Columns
from harness.model.version import numbers_of
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.elections import Clocks
from harness.verify.engine.kept import kept, narrowed
from harness.verify.engine.known import Known
from harness.verify.engine.min_isr import min_isr
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import Only, found
from harness.verify.engine.steps import step_at
from harness.verify.engine.tables import BUNDLE, PLACE, UNBOUNDED, frame
from harness.verify.engine.timelines import LATE_NS, Mark, Span, leader_marks, timed_partitions
from harness.verify.promise import Check, Introduced, Settings
from harness.verify.sentences import promise

_SINCE: Final = (3, 7)
_CLEAN: Final = (ElectedFrom.ISR, ElectedFrom.ELR)
# A leader on an overloaded machine applies a change of its ISR this long after the controller wrote it.
_APPLIED_NS: Final = 2 * 10**9
_CLOCKS_NS: Final = CLOCKS_MS * 10**6
_SPANS: Final[Columns] = {
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "from_ns": "int64",
    "to_ns": "int64",
    "in_sync": "int64",
}


def acked_below_min_isr(given: Prepared) -> DataFrame:
    """Records of producers with acks=all that were sent and acknowledged while too few replicas were in sync."""
    rows = [
        (n, state.topic, state.topic_id, state.partition, *span, len(state.isr))
        for n, case in enumerate(given.cases)
        for state, span in case.once(_spans)
    ]
    spans = kept(frame(given.spark, _SPANS, rows))
    sent = narrowed(given.ledger, spans, "topic_id", "partition")
    strict = given.streams.where(F.col("acks") == "all").select(BUNDLE, "stream")
    acked = sent.where(F.col("outcome") == Outcome.ACKED.value).join(F.broadcast(strict), [BUNDLE, "stream"])
    within = acked.join(F.broadcast(spans), [*PLACE]).where("called_ns >= from_ns AND returned_ns <= to_ns")
    return found(within, Kind.ACKED_BELOW_MIN_ISR, other="in_sync")


def _leaders(known: Known) -> Addition:
    return Addition(findings=[*raised_marks(known.case)])


def raised_marks(case: Case) -> Iterator[Finding]:
    """One finding for each partition and span: how far its leader's high watermark rose in it."""
    spans = case.once(_spans)
    if case.history is None or not spans:
        return
    marks = {place: leader_marks(states, of) for place, states, of in timed_partitions(case, case.history)}
    for state, span in spans:
        place = (state.topic, state.topic_id, state.partition)
        within = [
            mark
            for mark in marks.get(place, ())
            if mark.epoch == state.leader_epoch and span.from_ns + LATE_NS <= mark.at_ns <= span.to_ns
        ]
        if within and within[-1].high_watermark > within[0].high_watermark:
            yield _raised(case, state, within[0], within[-1])


def _raised(case: Case, state: PartitionChange, first: Mark, last: Mark) -> Finding:
    return Finding(
        kind=Kind.ACKED_BELOW_MIN_ISR,
        topic=state.topic,
        topic_id=state.topic_id,
        partition=state.partition,
        first_ns=first.at_ns,
        last_ns=last.at_ns,
        step=step_at(case.steps, last.at_ns),
        reader=f"broker {last.leader}",
        detail=(
            f"the high watermark of the leader, broker {last.leader}, rose from {first.high_watermark} to "
            f"{last.high_watermark} while the ISR was {sorted(state.isr)}"
        ),
        contract=promise(Kind.ACKED_BELOW_MIN_ISR, state.topic, None, case.contract),
    )


def _spans(case: Case) -> Sequence[tuple[PartitionChange, Span]]:
    """When the ISR of a partition was too small, and its leader knew it; nothing for releases that may acknowledge."""
    return tuple(_too_small(case))


def _too_small(case: Case) -> Iterator[tuple[PartitionChange, Span]]:
    history = case.history
    if history is None or not history.whole or case.run.timestamps != "send" or not _rejects(case):
        return
    clocks = Clocks(case, history)
    rows = history.of(PartitionChange)
    clean = {e.after.offset for e in history.elections() if e.elected_from in _CLEAN}
    for topic_id, partition in dict.fromkeys(
        (r.topic_id, r.partition) for r in rows if r.topic in case.contract.topics
    ):
        states = history.partition(topic_id, partition)
        led = [state.offset in clean or state.created for state in states]
        for number, (state, after) in enumerate(pairwise(states)):
            led[number] |= number > 0 and led[number - 1] and state.leader == states[number - 1].leader
            if after.controller_epoch != state.controller_epoch:
                continue  # when the controllers committed the change is unknown: the leader may learn of it much later
            if led[number] and state.leader != NO_LEADER and clocks.right(state) and clocks.right(after):
                yield from _spans_of(case, history, state, after)


def _rejects(case: Case) -> bool:
    """Whether every release that ran refuses such sends; False if one is unknown."""
    ran = [case.manifest.release, *([case.manifest.starts_on] if case.manifest.starts_on else [])]
    return all(one is not None and one.version is not None and numbers_of(one.version) >= _SINCE for one in ran)


def _spans_of(
    case: Case, history: History, state: PartitionChange, after: PartitionChange
) -> Iterator[tuple[PartitionChange, Span]]:
    """The times between two changes of a partition at which its leader certainly knew that its ISR was too small."""
    to_ns = after.time_ns - _CLOCKS_NS
    wanted = min_isr(case, history, state, state.time_ns - _APPLIED_NS, to_ns)
    if state.from_snapshot or wanted is None or len(state.isr) >= min(*wanted, len(state.replicas)):
        return
    known_ns = state.time_ns + _APPLIED_NS
    for from_ns, until_ns in sorted(_hindrances(case, history, state, to_ns)):
        # A fault that begins later takes nothing from what the leader acknowledged before it.
        if known_ns < from_ns:
            yield state, Span(known_ns, from_ns)
        known_ns = max(known_ns, until_ns + _APPLIED_NS)
    if known_ns < to_ns:
        yield state, Span(known_ns, to_ns)


def _hindrances(case: Case, history: History, state: PartitionChange, to_ns: int) -> Iterator[tuple[int, int]]:
    """From when until when steps may have kept the leader, or the controllers, from learning or telling of a change."""
    nodes = {state.leader, *history.voters}
    for step in case.steps:
        for fact in step.facts:
            concerned = "nodes" in MEANINGS[fact.kind].keys and any(fact.concerns(node) for node in nodes)
            until_ns = max(step.healed_ns or step.ended_ns or UNBOUNDED, fact.to_ns or 0)
            if concerned and fact.from_ns <= to_ns and until_ns >= state.time_ns - _APPLIED_NS:
                yield fact.from_ns, until_ns


def _promised(settings: Settings) -> str:
    topic = settings.topic
    least = "" if topic is None else f"={settings.over_time(MIN_INSYNC, topic.min_insync_replicas)}"
    return (
        f"with acks=all nothing is acknowledged while fewer than min.insync.replicas{least} are in sync (KAFKA-15583)"
    )


CHECK: Final = Check(
    promise="With acks=all nothing is acknowledged while fewer than min.insync.replicas are in sync.",
    kinds={Kind.ACKED_BELOW_MIN_ISR: Introduced(promise=_promised)},
    seen={
        (Kind.ACKED_BELOW_MIN_ISR, Only.ONE): lambda run: (
            f"the record was sent and acknowledged with acks=all while the size of the ISR was {run.other_first}"
        )
    },
    queries={"acked_below_min_isr": acked_below_min_isr},
    adds=_leaders,
    order=Order(findings=16),
    planted=(
        "acked_below_min_isr",
        "acked_below_min_isr_by_a_mark_that_rises",
        "acked_below_min_isr_without_a_mark_that_rises",
        "near_acked_below_min_isr_sent_before",
        "near_acked_below_min_isr_of_a_frozen_leader",
        "near_acked_below_min_isr_of_a_new_controller",
    ),
)
