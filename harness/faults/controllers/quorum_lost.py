"""So many controllers gone that no majority is left: no leader is elected and no ISR changes until some return."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

from harness.faults.nodes.process import injection, restart
from harness.faults.steps.effect import IDLE, Probe, named, under_load
from harness.faults.steps.step import ControllersExpr, EffectProof, Fault, Injection
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput, HarnessTimeout

# A quorum of its own accord writes twice a second (KIP-835), and elects within two seconds.
NO_LEADER_S: Final = 4.0
NO_COMMIT_S: Final = 2.0
DEADLINE_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class QuorumLost(Fault):
    """Takes the majority of the controllers away, by SIGKILL or SIGSTOP; healing brings them back."""

    do: ClassVar[str] = "quorum_lost"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "pause", "restart"})
    node: ControllersExpr = "controller_majority"
    how: Literal["kill", "pause"] = "kill"

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        controllers = plan.scenario.shape.controllers
        left = controllers - plan.reach(self.node).count
        if left > controllers // 2:
            raise BadInput(
                f'node: without {self.node!r} {left} of {controllers} are a majority; name "controller_majority"'
            )

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        victims = stage.nodes(self.node)
        if strangers := set(victims) - set(stage.cluster.controllers):
            raise BadInput(f"quorum_lost: {sorted(strangers)} are no controllers")
        probe = _nobody_decides(stage, victims)
        try:
            if self.how == "kill":
                stage.cluster.kill(*victims)
            else:
                stage.cluster.pause(*victims)
            yield replace(injection(stage, victims, probe), deadline_s=DEADLINE_S)
        finally:
            if self.how == "pause":
                stage.cluster.resume(*victims)
            restart(stage, victims)


def _nobody_decides(stage: Stage, victims: Collection[int]) -> Probe:
    """Under load, and with a leader before: now no controller leads, or the one that says it does commits nothing.

    That alone may be an election that takes its time, so the victims must be a majority, too.
    """
    busy = under_load(stage)
    before = stage.admin.quorum()
    controllers = stage.cluster.controllers
    left = sorted(set(controllers) - set(victims))

    def asked() -> EffectProof:
        seen: dict[str, Any] = {"active_controller": [before.leader, -1]}
        if not busy:
            return EffectProof(False, IDLE, seen)
        if len(left) > len(controllers) // 2:
            return EffectProof(False, f"{left} are a majority without the victims", seen)
        try:
            first = stage.admin.quorum(NO_LEADER_S)
            time.sleep(NO_COMMIT_S)
            second = stage.admin.quorum(NO_LEADER_S)
        except HarnessTimeout:
            because = f"{before.leader} led the controllers, and for {NO_LEADER_S:g} s none says that it does"
            return EffectProof(True, f"{because}; {named(busy)} had acks in the last second", seen)
        seen |= {"active_controller": [before.leader, second.leader], "committed": second.high_watermark}
        if second.high_watermark > first.high_watermark:
            return EffectProof(False, f"controller {second.leader} leads a majority", seen)
        return EffectProof(True, f"controller {second.leader} committed nothing for {NO_COMMIT_S:g} s", seen)

    return asked
