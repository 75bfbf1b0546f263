"""Which step of a run a moment belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Steps = Sequence[Mapping[str, Any]]


def episodes_of(steps: Steps) -> list[str]:
    """Names of the faults that bit."""
    return [step["name"] for step in steps if step["is_fault"] and (step["bite"] or {}).get("held")]


def step_at(steps: Steps, at_ns: int | None) -> str | None:
    """The step during which something happened: of the faults that were open then the latest, else any other step."""
    if at_ns is None:
        return None
    running = [s for s in steps if _covers(s, at_ns)]
    faults = [s for s in running if s["is_fault"]]
    return max(faults or running, key=lambda s: s["started_ns"], default={"name": None})["name"]


def _covers(step: Mapping[str, Any], at_ns: int) -> bool:
    if step["started_ns"] is None:
        return False
    end_ns = step["healed_ns"] or step["ended_ns"]
    return bool(step["started_ns"] <= at_ns and (end_ns is None or at_ns <= end_ns))
