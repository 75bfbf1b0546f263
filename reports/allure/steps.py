"""The steps of a scenario as Allure shows them, with their real times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.model.documents.steps import Effect, Step
from harness.model.verdict import Verdict
from reports.notation import kafka_notation
from reports.summary import finding_lines
from reports.terminal import clean

_FINDINGS_MAX: Final = 5  # in the message of a step; the trace of the result has more
_VALUE_MAX: Final = 500
_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One step. start_ms, stop_ms: epoch milliseconds; None = it did not begin or end. status: a word of Allure."""

    name: str
    do: str
    is_fault: bool
    status: str
    message: str
    start_ms: int | None
    stop_ms: int | None
    parameters: tuple[tuple[str, str], ...]


def steps_with(played: Sequence[Step], verdict: Verdict) -> tuple[Ran, ...]:
    """The steps that were played, or those of the verdict, without times, if there is no steps.json."""
    if played:
        return tuple(_ran(step, verdict) for step in played)
    return tuple(
        Ran(
            name=clean(step.name),
            do=clean(step.do),
            is_fault=step.is_fault,
            status="passed",
            message="",
            start_ms=None,
            stop_ms=None,
            parameters=(("effect", _effect(step.effect) or "none"),),
        )
        for step in verdict.facts.steps
    )


def _ran(step: Step, verdict: Verdict) -> Ran:
    status, message = _outcome(step, verdict)
    return Ran(
        name=clean(step.name) if step.name == step.do else clean(f"{step.name} ({step.do})"),
        do=clean(step.do),
        is_fault=step.is_fault,
        status=status,
        message=message[:4_000],
        start_ms=None if step.started_ns is None else step.started_ns // _MS,
        stop_ms=None if step.ended_ns is None else step.ended_ns // _MS,
        parameters=tuple((name, clean(value)[:_VALUE_MAX]) for name, value in _parameters(step) if value),
    )


def _outcome(step: Step, verdict: Verdict) -> tuple[str, str]:
    """`failed` if findings that condemn are of its time, `broken` if the step itself failed or had no effect."""
    condemning = [finding for finding in verdict.findings if finding.condemns and finding.step == step.name]
    if condemning:
        heads = [clean(finding_lines(finding)[0][0].strip()) for finding in condemning[:_FINDINGS_MAX]]
        rest = len(condemning) - len(heads)
        return "failed", "\n".join([*heads, *([f"and {rest} more findings"] if rest else [])])
    if step.started_ns is None:
        return "skipped", clean(step.error or "it did not begin")
    if step.error:
        return "broken", clean(step.error)
    if step.effect is not None and step.effect.held is False:
        return "broken", clean(f"no effect: {_effect(step.effect) or 'no reason is known'}")
    return "passed", ""


def _parameters(step: Step) -> list[tuple[str, str]]:
    """Arguments, choices, the proof of the effect, and when the fault was healed."""
    healed = ""
    if step.healed_ns is not None and step.started_ns is not None:
        healed = f"{(step.healed_ns - step.started_ns) / 1e9:.2f} s after its start"
    return [
        ("arguments", json.dumps(step.args, ensure_ascii=False) if step.args else ""),
        ("resolved", json.dumps(step.resolved, ensure_ascii=False) if step.resolved else ""),
        ("effect", _effect(step.effect)),
        ("healed", healed),
    ]


def _effect(effect: Effect | None) -> str:
    return clean(kafka_notation((effect.because if effect else None) or ""))
