"""The last replica standing: the only in-sync replica dies and returns without the end of its log.

A SIGKILL alone loses no data, because the machine's page cache survives. So the step truncates the log while the
broker is down, as a power loss does with records that were not flushed. The result depends on ELR (KIP-966). Without
it, the controllers trust a replica of the ISR whatever happened to its disk: it leads again, and all others truncate
their logs to its log. With it, a replica that left the ISR while that was smaller than min.insync.replicas is still
eligible, and is elected instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final

from harness.faults.disks.common import LogSince, replica_folder
from harness.faults.nodes.process import restart
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe, await_recent_acks
from harness.faults.steps.step import EffectProof, Fault, Injection, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.kafka.admin.client import PartitionState
from harness.kafka.admin.features import elr_level
from harness.kafka.storage import damage as disk
from harness.model.clock import now_ns
from harness.model.documents.steps import LostTail
from harness.model.errors import BadInput, HarnessFailure
from harness.model.facts import FactKind, Stop
from harness.model.place import Place
from harness.model.scenario.scenario import MANY, Range

LED_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Lost:
    """The leader's log end offset before (`ended`) and after (`kept`) the truncation. `acked`: the offset after the
    last acknowledged record."""

    node: int
    replica: Path
    ended: int
    kept: int
    acked: int
    since: LogSince


@dataclass(frozen=True, kw_only=True)
class LoseTail(Fault):
    """An event `lost_tail` records the new log end offset, and whether ELR is on."""

    do: ClassVar[str] = "lose_tail"
    by_hand: ClassVar[str] = "it needs a leader that is alone in sync, and an exact number of lost records"
    proven_late: ClassVar[bool] = True
    facts: ClassVar[Declares] = (
        Declared(FactKind.STOPPED, how=Stop.KILLED),
        Declared(FactKind.DATA_LOST, what="tail"),
        Declared(FactKind.COPIES_REBUILT),
    )
    summary: ClassVar[str] = (
        "Kills the leader of `of`, the only in-sync replica, and truncates acknowledged records; healing starts it."
    )
    proof: ClassVar[str] = (
        "it was the only in-sync replica, it loaded a log that ends below the acknowledged records, and the partition "
        "has a leader again"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart", "disk.read", "disk.write"})
    stops: ClassVar[bool] = True
    of: PartitionExpr
    tail_bytes: Annotated[int, Range(1, MANY)]

    def victims(self) -> str:
        return f"leader({self.of})"

    def validate(self, plan: StepValidation) -> None:
        topic = plan.topic(place_of(self.of)[0])
        if topic.replicas == 1:
            raise BadInput(
                f"of: {topic.name} has only one replica, so no other could be elected; give it replicas = 2 or more"
            )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        place = place_of(self.of)
        await_recent_acks(context, lambda s: (s.topic, s.partition) == place)
        state, level = context.partition(place), elr_level(context.admin.features())
        try:
            context.cluster.kill(state.leader)
            lost = self._cut(context, place, state)
            context.record_event(
                LostTail(
                    topic=place[0],
                    partition=place[1],
                    at_ns=now_ns(),
                    broker=lost.node,
                    leader_epoch=state.leader_epoch,
                    isr=tuple(sorted(state.isr)),
                    elr_level=level,
                    log_end=lost.kept,
                    ended_at=lost.ended,
                )
            )
            yield Injection(
                resolved={"nodes": [lost.node], "log_end": [lost.ended, lost.kept], "acked_up_to": lost.acked},
                probe=self._probe(context, place, state, lost),
                nodes=(lost.node,),
                after_heal=True,
                deadline_s=LED_DEADLINE_S,
            )
        finally:
            restart(context, (state.leader,))

    def _cut(self, context: StepContext, place: Place, state: PartitionState) -> _Lost:
        node = state.leader
        replica = replica_folder(context.cluster.log_directories(node), place)
        if replica is None:
            raise HarnessFailure(f"broker {node} leads {self.of} and has no folder of it")
        ended = disk.log_end(replica)
        disk.tear(replica, self.tail_bytes, without_indexes=False)
        acked = context.load.highest_acked().get(place, -1) + 1
        since = LogSince(context.cluster.server_log(node))
        return _Lost(node, replica, ended, disk.log_end(replica), acked, since)

    def _probe(self, context: StepContext, place: Place, before: PartitionState, lost: _Lost) -> Probe:
        """Proof: it was alone in the ISR, its log lacks acknowledged records, and the partition has a newer leader."""

        def asked() -> EffectProof:
            seen = {"isr": sorted(before.isr), "log_end": [lost.ended, lost.kept], "acked_up_to": lost.acked}
            if set(before.isr) != {lost.node}:
                return EffectProof(False, f"broker {lost.node} was not alone in the ISR: {sorted(before.isr)}", seen)
            if lost.acked <= lost.kept:
                why = f"its log ends at {lost.kept}, and {lost.acked} records were acknowledged"
                return EffectProof(False, f"no acknowledged record was truncated: {why}", seen)
            loaded = lost.since.loaded(lost.replica)
            if loaded is None or loaded[1] > lost.kept:
                return EffectProof(
                    False, f"broker {lost.node} has not loaded a log that ends at {lost.kept}: {loaded}", seen
                )
            now = context.states([place]).get(place)
            if now is None or now.leader < 0 or now.leader_epoch <= before.leader_epoch:
                return EffectProof(False, f"{self.of} has no leader yet", seen)
            because = (
                f"broker {lost.node}, alone in the ISR, returned with {loaded[1]} of {lost.acked} acknowledged "
                f"records; broker {now.leader} leads"
            )
            return EffectProof(True, because, seen | {"leader": now.leader})

        return asked
