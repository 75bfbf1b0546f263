"""What an upgrade ends with: feature levels are finalized that the release before may not know (KIP-584, KIP-778)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.steps.effect import IDLE, under_load
from harness.faults.steps.step import Action, Done, EffectProof
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.waits import POLL_S
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Deadline
from harness.model.waiting import wait_for

# Going to version 1 makes voters dynamic (KIP-853): a procedure of its own, that no upgrade asks for.
_LEFT_ALONE: Final = frozenset({"kraft.version"})


@dataclass(frozen=True, kw_only=True)
class RaiseFeatures(Action):
    """Finalizes every feature but kraft.version at the highest level that all nodes know: there is no way back then."""

    do: ClassVar[str] = "raise_features"
    disturbs: ClassVar[bool] = True
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        if not any(kind.do == "roll" for kind in plan.earlier.values()):
            raise BadInput('no node was upgraded before, so all levels are as high as they get; add { do = "roll" }')

    def perform(self, stage: Stage) -> Done:
        busy = bool(under_load(stage))
        before, known = stage.admin.features(), stage.admin.supported_features()
        goal = {n: level for n, level in known.items() if level > before.get(n, 0) and n not in _LEFT_ALONE}
        levels = {name: [before.get(name, 0), level] for name, level in goal.items()}
        refused = stage.admin.update_features(goal, "up") if goal else None
        if refused is None and goal:
            _await_levels(stage, goal, self.deadline_s)
        return Done(resolved={"levels": levels}, effect=_effect(levels, refused, busy))


def raised(stage: Stage) -> dict[str, list[int]]:
    """The levels before and after the last `raise_features`, by feature."""
    rows = [row for row in stage.rows if row["do"] == RaiseFeatures.do]
    return dict(rows[-1]["resolved"]["levels"]) if rows else {}


def _await_levels(stage: Stage, goal: Mapping[str, int], deadline_s: float) -> None:
    wait_for(
        stage.admin.features,
        until=lambda seen: all(seen.get(name) == level for name, level in goal.items()),
        deadline_s=deadline_s,
        what=f"brokers that go by {dict(goal)}",
        interval_s=POLL_S,
    )


def _effect(levels: dict[str, list[int]], refused: str | None, busy: bool) -> EffectProof:
    if not levels:
        return EffectProof(False, "every feature was at the highest level that all nodes know")
    if refused is not None:
        return EffectProof(False, f"the active controller refused: {refused}", dict(levels))
    if not busy:
        return EffectProof(False, IDLE, dict(levels))
    texts = (f"{name} from {old} to {new}" for name, (old, new) in levels.items())
    return EffectProof(True, f"under load, {', '.join(texts)}", dict(levels))
