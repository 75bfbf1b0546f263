"""A counted burst of records to one partition, where a scenario's arithmetic needs the number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.steps.step import Action, Done, PartitionExpr, ProducerRef
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.model.contract.contract import ID_FORGOTTEN
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.outcome import TxnOutcome
from harness.model.scenario.scenario import Count, Deadline
from harness.model.waiting import wait_for


def stepped(plan: StepValidation, producer: str) -> None:
    """BadInput for a producer that writes by itself: it takes no orders."""
    if plan.producer(producer).when != "steps":
        raise BadInput(f'producer: {producer} writes by itself; give it when = "steps"')


def transactional(plan: StepValidation, producer: str) -> None:
    """BadInput for a producer that has none of what the step is about."""
    if plan.producer(producer).transactions is None:
        raise BadInput(f"producer: {producer} has no transactions; give it transactions = {{}}")


@dataclass(frozen=True, kw_only=True)
class Produce(Action):
    """Sends so many records to a partition; waits for every ack, or with acked = false for what comes in time."""

    do: ClassVar[str] = "produce"
    producer: ProducerRef
    to: PartitionExpr
    records: Count
    acked: bool = True
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        topic, _ = place_of(self.to)
        stepped(plan, self.producer)
        if topic not in plan.producer(self.producer).topics:
            raise BadInput(f"to: {self.producer} does not write to {topic}; add that to its topics")

    def perform(self, stage: Stage) -> Done:
        topic, partition = place_of(self.to)
        burst = stage.load.burst(self.producer, topic, partition, self.records, self.deadline_s)
        if self.acked and burst.acked < self.records:
            raise HarnessTimeout(
                f"waited {self.deadline_s:g} s for {self.records} acks of {self.producer} on {self.to}; "
                f"last saw {burst.acked}"
            )
        return Done(resolved={"records": self.records, "acked": burst.acked})


@dataclass(frozen=True, kw_only=True)
class WaitTransactionalIdExpired(Action):
    """Waits until no coordinator knows the transactional id of a producer any more (transactional.id.expiration.ms)."""

    do: ClassVar[str] = ID_FORGOTTEN
    producer: ProducerRef
    deadline_s: Deadline = 60.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        transactional(plan, self.producer)

    def perform(self, stage: Stage) -> Done:
        asked = stage.transactional_id(self.producer)
        wait_for(
            lambda: {id_: reported.state for id_, reported in stage.admin.transactions([asked]).items()},
            until=lambda known: not known,
            deadline_s=self.deadline_s,
            what=f"coordinators to forget {self.producer}",
        )
        return Done()


@dataclass(frozen=True, kw_only=True)
class EndTransaction(Action):
    """Commits or aborts the transaction that earlier `produce` steps of a producer have filled; must be answered,
    unless answered = false."""

    do: ClassVar[str] = "end_transaction"
    producer: ProducerRef
    commit: bool = True
    answered: bool = True
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        stepped(plan, self.producer)
        transactional(plan, self.producer)

    def perform(self, stage: Stage) -> Done:
        wanted = TxnOutcome.COMMITTED if self.commit else TxnOutcome.ABORTED
        outcome = stage.load.end_transaction(self.producer, commit=self.commit, deadline_s=self.deadline_s)
        if self.answered and outcome is not wanted:
            raise HarnessTimeout(f"waited for a transaction of {self.producer} to be {wanted}; it is {outcome}")
        return Done(resolved={"outcome": outcome.value})
