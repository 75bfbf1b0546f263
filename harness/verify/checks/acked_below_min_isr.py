"""acked_below_min_isr: acks=all was acknowledged while the ISR was certainly smaller than min.insync.replicas.

Since 3.7 such a leader rejects the send, and does not move its high watermark (KAFKA-15583), so that nothing sent then
is acknowledged, whether or not it is lost later. The history says how large the ISR was. Only sends count that began
and were acknowledged within one partition epoch, after the leader had applied it: its election was clean, so that no
other leader acknowledged anything, the active controller stayed the same, and no step had begun to keep the leader or
the controllers from learning of the change.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.clock import CLOCKS_MS
from harness.model.contract.contract import MIN_INSYNC
from harness.model.facts import MEANINGS
from harness.model.finding import Kind
from harness.model.history.changes import NO_LEADER, ConfigChange, PartitionChange
from harness.model.history.elections import ElectedFrom
from harness.model.history.history import History
from harness.model.outcome import Outcome
from harness.model.schemas import Columns
from harness.model.version import numbers_of
from harness.verify.engine.case import Case
from harness.verify.engine.elections import Clocks
from harness.verify.engine.kept import kept, narrowed
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import Only, found
from harness.verify.engine.tables import BUNDLE, PLACE, UNBOUNDED, Values, frame
from harness.verify.promise import Check, Introduced, Settings

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
    rows = [(n, *span) for n, case in enumerate(given.cases) for span in _spans(case)]
    spans = kept(frame(given.spark, _SPANS, rows))
    sent = narrowed(given.ledger, spans, "topic_id", "partition")
    strict = given.streams.where(F.col("acks") == "all").select(BUNDLE, "stream")
    acked = sent.where(F.col("outcome") == Outcome.ACKED.value).join(F.broadcast(strict), [BUNDLE, "stream"])
    within = acked.join(F.broadcast(spans), [*PLACE]).where("called_ns >= from_ns AND returned_ns <= to_ns")
    return found(within, Kind.ACKED_BELOW_MIN_ISR, other="in_sync")


def _spans(case: Case) -> Iterator[Values]:
    """When the ISR of a partition was too small, and its leader knew it; nothing for releases that may acknowledge."""
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


def _spans_of(case: Case, history: History, state: PartitionChange, after: PartitionChange) -> Iterator[Values]:
    """The times between two changes of a partition at which its leader certainly knew that its ISR was too small."""
    to_ns = after.time_ns - _CLOCKS_NS
    least = _least(case, history, state, to_ns)
    if state.from_snapshot or least is None or len(state.isr) >= least:
        return
    place = (state.topic, state.topic_id, state.partition)
    known_ns = state.time_ns + _APPLIED_NS
    for from_ns, until_ns in sorted(_hindrances(case, history, state, to_ns)):
        # A fault that begins later takes nothing from what the leader acknowledged before it.
        if known_ns < from_ns:
            yield (*place, known_ns, from_ns, len(state.isr))
        known_ns = max(known_ns, until_ns + _APPLIED_NS)
    if known_ns < to_ns:
        yield (*place, known_ns, to_ns, len(state.isr))


def _least(case: Case, history: History, state: PartitionChange, to_ns: int) -> int | None:
    """The lowest number of replicas that had to be in sync from just before the state until then; None = unknown."""
    begun = case.cluster.snapshots[0].topic_configs if case.cluster.snapshots else None
    first = ((begun or {}).get(state.topic) or {}).get(MIN_INSYNC)
    changes = [row for row in history.of(ConfigChange) if row.key == MIN_INSYNC]
    since_ns = state.time_ns - _APPLIED_NS
    times = [since_ns, *(row.time_ns for row in changes if since_ns <= row.time_ns <= to_ns)]
    values = [history.topic_setting(state.topic, MIN_INSYNC, at_ns, broker=state.leader) or first for at_ns in times]
    known = [int(value) for value in values if value is not None and value.isdecimal()]
    # No record has the value that is in force when a setting was removed.
    if len(known) < len(values) or any(row.value is None for row in changes):
        return None
    return min([*known, len(state.replicas)])


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
    planted=(
        "acked_below_min_isr",
        "near_acked_below_min_isr_sent_before",
        "near_acked_below_min_isr_of_a_frozen_leader",
        "near_acked_below_min_isr_of_a_new_controller",
    ),
)
