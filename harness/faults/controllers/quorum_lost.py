"""Controllers without a majority: no leader is elected and no ISR changes until some controllers return."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

from harness.faults.nodes.process import injection, restart
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import IDLE, Probe, named, under_load
from harness.faults.steps.step import ControllersExpr, EffectProof, Fault, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.facts import FactKind, Stop

# A quorum writes an empty record twice a second (KIP-835), and elects a leader within two seconds.
NO_LEADER_S: Final = 4.0
NO_COMMIT_S: Final = 2.0
DEADLINE_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class QuorumLost(Fault):
    """`how`: by SIGKILL or by SIGSTOP."""

    do: ClassVar[str] = "quorum_lost"
    facts: ClassVar[Declares] = (
        Declared(FactKind.STOPPED, of_controllers=True),
        Declared(FactKind.FROZEN, of_controllers=True),
        Declared(FactKind.QUORUM_LOST, of_controllers=True),
    )
    summary: ClassVar[str] = (
        "Stops a majority of the controllers by SIGKILL or SIGSTOP; healing starts or continues them."
    )
    proof: ClassVar[str] = (
        "a majority of the controllers is down under load, and none of the others leads, or none commits"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "pause", "restart"})
    node: ControllersExpr = "controller_majority"
    how: Literal["kill", "pause"] = "kill"

    def declared(self) -> Declares:
        lost = Declared(FactKind.QUORUM_LOST, of_controllers=True)
        if self.how == "pause":
            return (Declared(FactKind.FROZEN, of_controllers=True), lost)
        return (Declared(FactKind.STOPPED, how=Stop.KILLED, of_controllers=True), lost)

    def validate(self, plan: StepValidation) -> None:
        controllers = plan.scenario.shape.controllers
        left = controllers - plan.reach(self.node).count
        if left > controllers // 2:
            raise BadInput(
                f'node: without {self.node!r} {left} of {controllers} are a majority; name "controller_majority"'
            )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        victims = context.nodes(self.node)
        if strangers := set(victims) - set(context.cluster.controllers):
            raise BadInput(f"quorum_lost: {sorted(strangers)} are no controllers; name controllers")
        probe = _nothing_committed(context, victims)
        try:
            if self.how == "kill":
                context.cluster.kill(*victims)
            else:
                context.cluster.pause(*victims)
            yield replace(injection(context, victims, probe), deadline_s=DEADLINE_S)
        finally:
            if self.how == "pause":
                context.cluster.resume(*victims)
            restart(context, victims)


def _nothing_committed(context: StepContext, victims: Collection[int]) -> Probe:
    """Proof, under load: now no controller leads, or the one that says it leads commits nothing.

    A slow election looks the same, so the victims must be a majority, too.
    """
    busy = under_load(context)
    before = context.admin.quorum()
    controllers = context.cluster.controllers
    left = sorted(set(controllers) - set(victims))

    def asked() -> EffectProof:
        seen: dict[str, object] = {"active_controller": [before.leader, -1]}
        if not busy:
            return EffectProof(False, IDLE, seen)
        if len(left) > len(controllers) // 2:
            return EffectProof(False, f"the other controllers, {left}, are a majority", seen)
        try:
            first = context.admin.quorum(NO_LEADER_S)
            time.sleep(NO_COMMIT_S)
            second = context.admin.quorum(NO_LEADER_S)
        except HarnessTimeout:
            because = f"{before.leader} was the active controller, and for {NO_LEADER_S:g} s there is none"
            return EffectProof(True, f"{because}; {named(busy)} had acks in the last second", seen)
        seen |= {"active_controller": [before.leader, second.leader], "committed": second.high_watermark}
        if second.high_watermark > first.high_watermark:
            return EffectProof(False, f"controller {second.leader} leads a majority", seen)
        return EffectProof(True, f"controller {second.leader} committed nothing for {NO_COMMIT_S:g} s", seen)

    return asked
