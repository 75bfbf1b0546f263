"""Waiting for a phase of a producer's transactions, as their coordinator reports it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from harness.faults.steps.declared_facts import NOTHING, Declares
from harness.faults.steps.produce import transactional
from harness.faults.steps.step import Action, Done, ProducerRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.scenario.scenario import Deadline
from harness.model.waiting import wait_for

Phase = Literal["open", "decided", "committing", "aborting", "ended"]
# Each with Kafka's names of its states. In those that are decided the markers are on their way.
PHASES: Final[Mapping[Phase, frozenset[str]]] = {
    "open": frozenset({"Ongoing"}),
    "decided": frozenset({"PrepareCommit", "PrepareAbort"}),
    "committing": frozenset({"PrepareCommit"}),
    "aborting": frozenset({"PrepareAbort"}),
    "ended": frozenset({"CompleteCommit", "CompleteAbort", "Empty"}),
}
LOOK_S: Final = 0.01


def await_phase(context: StepContext, producer: str, phase: Phase, deadline_s: float) -> None:
    """HarnessTimeout if no transaction of the producer is seen in this phase."""
    _await(context, producer, PHASES[phase], deadline_s, f"a transaction that is {phase}")


def await_entry(context: StepContext, producer: str, phase: Phase, deadline_s: float) -> None:
    """Waits until a transaction of the producer comes into this phase. HarnessTimeout if none does.

    A phase that is seen at once may be over in a moment, so another one is seen before.
    """
    until_s = time.monotonic() + deadline_s
    others = frozenset().union(*PHASES.values()) - PHASES[phase]
    _await(context, producer, others, deadline_s, f"a transaction that is not {phase}")
    await_phase(context, producer, phase, until_s - time.monotonic())


def _await(context: StepContext, producer: str, wanted: frozenset[str], deadline_s: float, what: str) -> None:
    asked = [context.transactional_id(producer)]
    wait_for(
        lambda: {of.state for of in context.admin.transactions(asked).values()},
        until=lambda states: bool(states & wanted),
        deadline_s=deadline_s,
        what=what,
        interval_s=LOOK_S,
    )


@dataclass(frozen=True, kw_only=True)
class WaitTransaction(Action):
    """The moment for a fault that is to meet a transaction in one phase."""

    do: ClassVar[str] = "wait_transaction"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = (
        "Waits until a transaction of the producer comes into `phase`: open, decided, committing, aborting or ended."
    )
    producer: ProducerRef
    phase: Phase
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        transactional(plan, self.producer)

    def perform(self, context: StepContext) -> Done:
        await_entry(context, self.producer, self.phase, self.deadline_s)
        return Done(resolved={"phase": self.phase})
