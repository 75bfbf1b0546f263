"""Waiting for a phase of a transaction. The states are made by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from harness.faults.steps.transaction_phases import PHASES, WaitTransaction, await_entry
from harness.model.errors import HarnessTimeout
from suites.unit.faults.steps.scripted import context_on

ID = "payments"


class Coordinator:
    """Reports these states one after the other, and the last one for ever; "" = it knows no transaction."""

    def __init__(self, *states: str) -> None:
        self.reported = list(states)

    def transactions(self, ids: Sequence[str]) -> dict[str, SimpleNamespace]:
        state = self.reported.pop(0) if len(self.reported) > 1 else self.reported[0]
        return {ID: SimpleNamespace(state=state)} if state else {}


def test_a_phase_that_was_there_from_the_beginning_is_not_taken() -> None:
    """It may be over in a moment."""
    states = Coordinator("PrepareCommit", "", "CompleteCommit", "Ongoing", "PrepareAbort", "CompleteAbort")
    await_entry(context_on(states), ID, "decided", 1.0)
    assert states.reported == ["CompleteAbort"]


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["PrepareCommit"], "a transaction that is not decided"),
        (["Ongoing"], "a transaction that is decided"),
        ([""], "a transaction that is not decided"),
    ],
)
def test_a_phase_that_does_not_come_is_said(states: list[str], said: str) -> None:
    with pytest.raises(HarnessTimeout, match=said):
        await_entry(context_on(Coordinator(*states)), ID, "decided", 0.1)


def test_the_step_ends_in_the_phase_or_fails() -> None:
    states = Coordinator("Ongoing", "PrepareAbort", "CompleteAbort", "PrepareCommit", "CompleteCommit")
    done = WaitTransaction(producer=ID, phase="committing").perform(context_on(states))
    assert done.resolved == {"phase": "committing"}
    assert states.reported == ["CompleteCommit"]
    with pytest.raises(HarnessTimeout, match="a transaction that is open"):
        WaitTransaction(producer=ID, phase="open", deadline_s=0.1).perform(context_on(Coordinator("Empty")))


def test_each_state_is_of_one_phase_and_those_of_a_decision_of_two() -> None:
    of = Counter(state for states in PHASES.values() for state in states)
    assert {state for state, phases in of.items() if phases > 1} == PHASES["decided"]
