"""Steps on disks: what a verdict lists as not covered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from harness.verify.conclude import _COVERED_BY, _not_covered


def step(do: str, *, held: bool = True, **args: Any) -> dict[str, Any]:
    return {"do": do, "args": args, "is_fault": True, "effect": {"held": held}, "started_ns": 5}


def case(*steps: dict[str, Any]) -> Any:
    return cast(Any, SimpleNamespace(steps=steps))


def test_only_steps_with_an_effect_count_as_tested() -> None:
    everything = list(_COVERED_BY)
    assert _not_covered(case(step("kill"))) == everything
    assert _not_covered(case(step("damage", held=False))) == everything
    for tried in (["damage"], ["damage", "disk_full"], ["power_loss", "disk_filled"], ["disk_stalled"], ["roll"]):
        left = [what for what, steps in _COVERED_BY.items() if not steps & set(tried)]
        assert len(left) == len(everything) - len(tried)
        assert _not_covered(case(*map(step, tried))) == left
