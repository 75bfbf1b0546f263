"""The last step of an upgrade: finalizes feature levels that the earlier release may not know (KIP-584, KIP-778)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from msgspec import convert

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import IDLE, under_load
from harness.faults.steps.step import Action, Done, EffectProof
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.waits import POLL_S
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.scenario.scenario import Deadline
from harness.model.waiting import wait_for

# kraft.version 1 makes voters dynamic (KIP-853): a separate procedure, which no upgrade needs.
_LEFT_ALONE: Final = frozenset({"kraft.version"})


@dataclass(frozen=True, kw_only=True)
class RaiseFeatures(Action):
    """After it a downgrade is refused."""

    do: ClassVar[str] = "raise_features"
    facts: ClassVar[Declares] = (Declared(FactKind.FEATURES_RAISED),)
    summary: ClassVar[str] = (
        "Finalizes every feature, except kraft.version, at the highest level that all nodes support; "
        "no downgrade is possible after it."
    )
    proof: ClassVar[str] = "the brokers report the higher levels, under load"
    disturbs: ClassVar[bool] = True
    by_hand: ClassVar[str] = "the plan of a cluster with `starts_on` has it, and a second one would change nothing"
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        if not any(kind.do == "roll" for kind in plan.earlier.values()):
            raise BadInput(
                'no node was upgraded, so every level is already the highest; add { do = "roll" } before this step'
            )

    def shared(self) -> str:
        return "the feature levels of the cluster"

    def perform(self, context: StepContext) -> Done:
        busy = bool(under_load(context))
        before, known = context.admin.features(), context.admin.supported_features()
        goal = {n: level for n, level in known.items() if level > before.get(n, 0) and n not in _LEFT_ALONE}
        levels = {name: [before.get(name, 0), level] for name, level in goal.items()}
        refused = context.admin.update_features(goal, "up") if goal else None
        if refused is None and goal:
            _await_levels(context, goal, self.deadline_s)
        return Done(resolved={"levels": levels}, effect=_effect(levels, refused, busy))


def raised(context: StepContext) -> dict[str, list[int]]:
    """By feature: the levels before and after the last `raise_features`."""
    done = [step.resolved for step in context.steps if step.do == RaiseFeatures.do]
    return convert(done[-1]["levels"], dict[str, list[int]]) if done else {}


def _await_levels(context: StepContext, goal: Mapping[str, int], deadline_s: float) -> None:
    wait_for(
        context.admin.features,
        until=lambda seen: all(seen.get(name) == level for name, level in goal.items()),
        deadline_s=deadline_s,
        what=f"brokers to report the feature levels {dict(goal)}",
        interval_s=POLL_S,
    )


def _effect(levels: dict[str, list[int]], refused: str | None, busy: bool) -> EffectProof:
    if not levels:
        return EffectProof(False, "every feature was already at the highest level that all nodes support")
    if refused is not None:
        return EffectProof(False, f"the active controller refused: {refused}", dict(levels))
    if not busy:
        return EffectProof(False, IDLE, dict(levels))
    texts = (f"{name} from {old} to {new}" for name, (old, new) in levels.items())
    return EffectProof(True, f"under load, {', '.join(texts)}", dict(levels))
