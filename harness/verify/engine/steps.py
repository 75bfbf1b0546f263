"""Assigns times to the steps of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from harness.model.documents.steps import Step
from harness.model.facts import Fact, FactKind, Stop


def facts_in(steps: Sequence[Step], *kinds: FactKind) -> Iterator[Fact]:
    """The facts of these kinds of all steps."""
    return (fact for step in steps for fact in step.facts if fact.kind in kinds)


def facts_but(steps: Sequence[Step], harmless: Collection[FactKind]) -> Iterator[Fact]:
    """The facts of all other kinds of all steps."""
    return (fact for step in steps for fact in step.facts if fact.kind not in harmless)


def only(step: Step, *facts: tuple[FactKind, Stop | None]) -> bool:
    """Whether a step did something, and nothing but these."""
    return bool(step.facts) and all((fact.kind, fact.how) in facts for fact in step.facts)


def episodes_of(steps: Sequence[Step]) -> list[str]:
    """Names of the faults that had an effect."""
    return [step.name for step in steps if step.is_fault and step.effect and step.effect.held]


def step_at(steps: Sequence[Step], at_ns: int | None) -> str | None:
    """The step during which something happened: the most recent fault that was active then, else any other step."""
    if at_ns is None:
        return None
    running = open_during(steps, at_ns, at_ns)
    faults = [s for s in running if s.is_fault]
    latest = max(faults or running, key=lambda s: s.started_ns or 0, default=None)
    return latest.name if latest else None


def open_during(steps: Sequence[Step], from_ns: int, to_ns: int) -> list[Step]:
    """The steps that overlap a time span, limits included. A fault is active until it is healed; a step that never
    ended is active for ever."""
    begun = [s for s in steps if s.started_ns is not None and s.started_ns <= to_ns]
    ends = [s.healed_ns or s.ended_ns for s in begun]
    return [s for s, end_ns in zip(begun, ends, strict=True) if end_ns is None or from_ns <= end_ns]
