"""The last replica standing: a leader that is alone in the ISR dies, and returns without the end of its log.

A SIGKILL alone takes nothing from it: the machine's page cache survives. So the end is cut off its log while it is
down, as a power loss does with what was not flushed. What happens then depends on ELR (KIP-966). Without it, a replica
of the ISR is believed whatever became of its disk: it leads again, and all others cut their logs off to its own. With
it, who left the ISR while it was smaller than min.insync.replicas is still eligible, and is elected in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final

from harness.faults.disks.common import LogSince, replica_folder
from harness.faults.nodes.process import restart
from harness.faults.steps.effect import Probe, await_recent_acks
from harness.faults.steps.step import EffectProof, Fault, Injection, PartitionExpr, PartitionView, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.kafka.admin.features import elr_level
from harness.kafka.storage import damage as disk
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scenario.scenario import MANY, Range

LED_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Lost:
    """What became of the log of the leader. `acked`: the offset behind the last acknowledged record."""

    node: int
    replica: Path
    ended: int
    kept: int
    acked: int
    since: LogSince


@dataclass(frozen=True, kw_only=True)
class LoseTail(Fault):
    """Kills the leader of `of`, alone in the ISR, and cuts acknowledged records off its log; healing lets it return.

    An event `lost_tail` says where its log ends then, and whether ELR is on.
    """

    do: ClassVar[str] = "lose_tail"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart", "disk.read", "disk.write"})
    stops: ClassVar[bool] = True
    of: PartitionExpr
    tail_bytes: Annotated[int, Range(1, MANY)]

    def victims(self) -> str:
        """See `Fault`."""
        return f"leader({self.of})"

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        topic = plan.topic(place_of(self.of)[0])
        if topic.replicas == 1:
            raise BadInput(f"of: {topic.name} has one replica, which is no last one; give it replicas = 2 or more")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        place = place_of(self.of)
        await_recent_acks(stage, lambda s: (s.topic, s.partition) == place)
        state, level = stage.partition(place), elr_level(stage.admin.features())
        try:
            stage.cluster.kill(state.leader)
            lost = self._cut(stage, place, state)
            stage.record_event(
                "lost_tail",
                topic=place[0],
                partition=place[1],
                broker=lost.node,
                leader_epoch=state.leader_epoch,
                isr=sorted(state.isr),
                elr_level=level,
                log_end=lost.kept,
                ended_at=lost.ended,
            )
            yield Injection(
                resolved={"nodes": [lost.node], "log_end": [lost.ended, lost.kept], "acked_up_to": lost.acked},
                probe=self._probe(stage, place, state, lost),
                nodes=(lost.node,),
                after_heal=True,
                deadline_s=LED_DEADLINE_S,
            )
        finally:
            restart(stage, (state.leader,))

    def _cut(self, stage: Stage, place: Place, state: PartitionView) -> _Lost:
        node = state.leader
        replica = replica_folder(stage.cluster.log_directories(node), place)
        if replica is None:
            raise HarnessFailure(f"broker {node} leads {self.of} and has no folder of it")
        ended = disk.log_end(replica)
        disk.tear(replica, self.tail_bytes, without_indexes=False)
        acked = stage.load.highest_acked().get(place, -1) + 1
        since = LogSince(stage.cluster.server_log(node))
        return _Lost(node, replica, ended, disk.log_end(replica), acked, since)

    def _probe(self, stage: Stage, place: Place, before: PartitionView, lost: _Lost) -> Probe:
        """It was alone, lost what had been acknowledged, came back with so much, and somebody leads."""

        def asked() -> EffectProof:
            seen = {"isr": sorted(before.isr), "log_end": [lost.ended, lost.kept], "acked_up_to": lost.acked}
            if set(before.isr) != {lost.node}:
                return EffectProof(False, f"broker {lost.node} was not alone in the ISR: {sorted(before.isr)}", seen)
            if lost.acked <= lost.kept:
                why = f"its log ends at {lost.kept}, and {lost.acked} records were acknowledged"
                return EffectProof(False, f"no acknowledged record was cut off: {why}", seen)
            loaded = lost.since.loaded(lost.replica)
            if loaded is None or loaded[1] > lost.kept:
                return EffectProof(
                    False, f"broker {lost.node} has not loaded a log that ends at {lost.kept}: {loaded}", seen
                )
            now = stage.states([place]).get(place)
            if now is None or now.leader < 0 or now.leader_epoch <= before.leader_epoch:
                return EffectProof(False, f"{self.of} has no leader yet", seen)
            because = (
                f"broker {lost.node}, alone in sync, came back with {loaded[1]} of {lost.acked} acknowledged records; "
                f"broker {now.leader} leads"
            )
            return EffectProof(True, because, seen | {"leader": now.leader})

        return asked
