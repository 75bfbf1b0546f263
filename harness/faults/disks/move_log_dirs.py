"""Replicas that move from one log directory of a broker to another under load, by a second copy (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

from harness.faults.disks.common import only_node
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe, named, with_recent_acks
from harness.faults.steps.step import EffectProof, Fault, Injection, OneBrokerExpr, PartitionsExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.admin.client import ReplicaDirectory
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.place import Place
from harness.model.scenario.scenario import Range
from harness.model.waiting import wait_for

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
MOVED_DEADLINE_S = 90.0


@dataclass(frozen=True, kw_only=True)
class MoveLogDirs(Fault):
    """`rate_kb_s` limits the copying. The fault is healed when the replicas are in their new directories."""

    do: ClassVar[str] = "move_log_dirs"
    facts: ClassVar[Declares] = (Declared(FactKind.COPIES_REBUILT),)
    summary: ClassVar[str] = (
        "Moves replicas of a broker to its next log directory at rate_kb_s; healing waits for the end."
    )
    proof: ClassVar[str] = "second copies of the replicas were in the making while their partitions had acks"
    node: OneBrokerExpr
    on: PartitionsExpr = ()
    rate_kb_s: Annotated[int, Range(1, 1_000_000)] = 200

    def validate(self, plan: StepValidation) -> None:
        if plan.scenario.shape.log_dirs < 2:
            raise BadInput(
                "brokers have one log directory, so replicas cannot move to another; set log_dirs = 2 in [shape]"
            )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node = only_node(context.nodes(self.node), context.cluster.brokers, self.do)
        wanted = _next_directories(context, node, context.places(self.on))
        with ExitStack() as healing:
            healing.callback(_await_moved, context, node, wanted)
            healing.callback(context.admin.alter_broker_config, (node,), {RATE: None})
            context.admin.alter_broker_config((node,), {RATE: str(self.rate_kb_s * 1024)})
            context.admin.move_replicas(node, wanted)
            resolved = {"nodes": [node], "to": {f"{t}/{p}": path for (t, p), path in wanted.items()}}
            yield Injection(resolved=resolved, probe=_copying(context, node, wanted), nodes=(node,))


def _next_directories(context: StepContext, node: int, places: list[Place]) -> dict[Place, str]:
    """By replica of the broker: the log directory after the one that it is in."""
    reported = wait_for(
        lambda: context.admin.log_directories(node),
        until=lambda reported: reported is not None,
        deadline_s=MOVED_DEADLINE_S,
        what=f"broker {node} to report its log directories",
    )
    assert reported is not None
    mine = [place for place in places if place in reported.replicas]
    if not mine:
        raise BadInput(f"broker {node} has no replica of {named(places)}; name another broker")
    return {
        place: reported.paths[(reported.paths.index(reported.replicas[place].path) + 1) % len(reported.paths)]
        for place in mine
    }


def _copying(context: StepContext, node: int, wanted: Mapping[Place, str]) -> Probe:
    """Proof: a second copy of a replica was in the making while its partition had acks."""

    def probe() -> EffectProof:
        reported, busy = context.admin.log_directories(node), with_recent_acks(context, wanted)
        if reported is None:
            return EffectProof(False, f"broker {node} does not answer")
        making = {
            p: reported.replicas[p] for p in busy if p in reported.replicas and reported.replicas[p].future is not None
        }
        lags = {f"{t}/{p}": replica.future_lag for (t, p), replica in making.items()}
        if making:
            return EffectProof(True, f"second copies of {named(making)} were in the making under load", {"lacks": lags})
        if not busy:
            return EffectProof(False, f"none of the moving partitions {named(wanted)} had acks in the last second")
        return EffectProof(False, f"no second copy of {named(wanted)} was seen in the making; lower rate_kb_s")

    return probe


def _await_moved(context: StepContext, node: int, wanted: Mapping[Place, str]) -> None:
    def pending() -> dict[str, str]:
        reported = context.admin.log_directories(node)
        if reported is None:
            return {f"broker {node}": "does not answer"}
        found = {place: reported.replicas.get(place) for place in wanted}
        return {f"{t}/{p}": why for (t, p), replica in found.items() if (why := _not_moved(replica, wanted[t, p]))}

    wait_for(
        pending,
        until=lambda left: not left,
        deadline_s=MOVED_DEADLINE_S,
        what=f"replicas of broker {node} to be in their new directories",
        interval_s=0.2,
    )


def _not_moved(replica: ReplicaDirectory | None, path: str) -> str:
    if replica is None:
        return "not there"
    if replica.path == path and replica.future is None:
        return ""
    return f"in {replica.path}, its copy lacks {replica.future_lag} records"
