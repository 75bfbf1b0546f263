"""Plays steps in a test, and returns their rows as a reader of steps.json gets them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.evidence.documents import plain
from harness.evidence.parsing import converted
from harness.faults.steps import step_runner
from harness.faults.steps.step_context import StepContext
from harness.model.documents.steps import Event, Steps
from harness.model.doubt_names import DoubtName
from harness.model.scenario.scenario import Step

Row = dict[str, Any]


def run_steps(
    context: StepContext, steps: Sequence[Step], on_step: Callable[[list[Row]], object] = lambda _: None
) -> list[Row]:
    """The rows of the steps, which the judge could read. `on_step` gets them whenever one changed."""

    def changed(played: Steps) -> None:
        on_step(_rows(played))

    rows = _rows(step_runner.run_steps(context, steps, changed))
    converted(rows, Steps)
    return rows


def doubts(rows: Sequence[Row]) -> list[tuple[DoubtName, str]]:
    """The doubts that rows of steps.json lead to."""
    return [(DoubtName(doubt.name), doubt.text) for doubt in step_runner.doubts(converted(list(rows), Steps))]


def events_of(context: StepContext) -> list[Row]:
    """The events of the current step, as steps.json will have them."""
    return [plain(event) for event in context.events]


def untimed(events: Sequence[Event]) -> list[Row]:
    """Events as steps.json has them, without the times when they had happened."""
    return [{key: value for key, value in plain(event).items() if key != "at_ns"} for event in events]


def _rows(steps: Steps) -> list[Row]:
    return [plain(step) for step in steps]
