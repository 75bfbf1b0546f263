"""Steps on disks: what a verdict lists as not covered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from harness.verify.conclude import _COVERED_BY, _without_fact
from suites.verify.judging import steps_of


def step(do: str, *, held: bool = True, **args: Any) -> dict[str, Any]:
    times = {"started_ns": 5, "ended_ns": None, "healed_ns": None}
    return {"name": do, "do": do, "args": args, "is_fault": True, "effect": {"held": held}, "events": [], **times}


def case(*steps: dict[str, Any]) -> Any:
    return cast(Any, SimpleNamespace(steps=steps_of(steps)))


def test_only_steps_with_an_effect_count_as_tested() -> None:
    everything = list(_COVERED_BY)
    assert _without_fact(case(step("kill"))) == everything
    assert _without_fact(case(step("damage", held=False))) == everything
    for tried in (["damage"], ["damage", "disk_full"], ["power_loss", "disk_filled"], ["disk_stalled"], ["roll"]):
        facts = [fact for do in tried for fact in steps_of([step(do)])[0].facts]
        shown = {word for fact in facts for word in (fact.kind, fact.how)}
        left = [what for what, words in _COVERED_BY.items() if not words & shown]
        assert len(left) == len(everything) - len(tried)
        assert _without_fact(case(*map(step, tried))) == left
