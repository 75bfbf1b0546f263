"""Steps that tell a producer what to send: a counted burst of records, the end of a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.steps.declared_facts import NOTHING, Declared, Declares
from harness.faults.steps.step import Action, Done, PartitionExpr, ProducerRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.model.contract.contract import ID_FORGOTTEN
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.facts import FactKind
from harness.model.outcome import TxnOutcome
from harness.model.scenario.scenario import Count, Deadline
from harness.model.waiting import wait_for


def stepped(plan: StepValidation, producer: str) -> None:
    """BadInput for a producer that sends by itself, and not when steps say so."""
    if plan.producer(producer).when != "steps":
        raise BadInput(f'producer: {producer} sends by itself; give it when = "steps"')


def transactional(plan: StepValidation, producer: str) -> None:
    """BadInput for a producer without transactions."""
    if plan.producer(producer).transactions is None:
        raise BadInput(f"producer: {producer} has no transactions; give it transactions = {{}}")


@dataclass(frozen=True, kw_only=True)
class Produce(Action):
    """A counted burst, for scenarios that compute exact numbers of records."""

    do: ClassVar[str] = "produce"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = (
        "Sends `records` records to a partition, and waits for all acks, or with acked = false until the deadline."
    )
    producer: ProducerRef
    to: PartitionExpr
    records: Count
    acked: bool = True
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        topic, _ = place_of(self.to)
        stepped(plan, self.producer)
        if topic not in plan.producer(self.producer).topics:
            raise BadInput(f"to: {self.producer} does not write to {topic}; add that to its topics")

    def perform(self, context: StepContext) -> Done:
        topic, partition = place_of(self.to)
        burst = context.load.burst(self.producer, topic, partition, self.records, self.deadline_s)
        if self.acked and burst.acked < self.records:
            raise HarnessTimeout(
                f"waited {self.deadline_s:g} s for {self.records} acks of {self.producer} on {self.to}; "
                f"last saw {burst.acked}"
            )
        return Done(resolved={"records": self.records, "acked": burst.acked})


@dataclass(frozen=True, kw_only=True)
class WaitTransactionalIdExpired(Action):
    """An expired transactional id (transactional.id.expiration.ms)."""

    do: ClassVar[str] = ID_FORGOTTEN
    facts: ClassVar[Declares] = NOTHING
    relies_on: ClassVar[frozenset[str]] = frozenset({"transaction.remove.expired.transaction.cleanup.interval.ms"})
    summary: ClassVar[str] = "Waits until the transactional id of a producer has expired at its coordinator."
    producer: ProducerRef
    deadline_s: Deadline = 60.0

    def validate(self, plan: StepValidation) -> None:
        transactional(plan, self.producer)

    def perform(self, context: StepContext) -> Done:
        asked = context.transactional_id(self.producer)
        wait_for(
            lambda: {id_: reported.state for id_, reported in context.admin.transactions([asked]).items()},
            until=lambda known: not known,
            deadline_s=self.deadline_s,
            what=f"the transactional id of {self.producer} to expire",
        )
        return Done()


@dataclass(frozen=True, kw_only=True)
class EndTransaction(Action):
    """The end of a transaction that `produce` steps opened. With answered = false the step needs no answer."""

    do: ClassVar[str] = "end_transaction"
    facts: ClassVar[Declares] = (Declared(FactKind.TRANSACTION_ENDED),)
    summary: ClassVar[str] = "Commits or aborts the transaction that earlier `produce` steps of a producer opened."
    producer: ProducerRef
    commit: bool = True
    answered: bool = True
    deadline_s: Deadline = 30.0

    def declared(self) -> Declares:
        return (Declared(FactKind.TRANSACTION_ENDED, client=self.producer),)

    def validate(self, plan: StepValidation) -> None:
        stepped(plan, self.producer)
        transactional(plan, self.producer)

    def perform(self, context: StepContext) -> Done:
        wanted = TxnOutcome.COMMITTED if self.commit else TxnOutcome.ABORTED
        outcome = context.load.end_transaction(self.producer, commit=self.commit, deadline_s=self.deadline_s)
        if self.answered and outcome is not wanted:
            raise HarnessTimeout(f"waited for a transaction of {self.producer} to be {wanted}; it is {outcome}")
        return Done(resolved={"outcome": outcome.value})
