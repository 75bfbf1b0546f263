"""Hanging transactions, which no coordinator will end, and how an operator aborts one (KIP-664)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.steps.declared_facts import NOTHING, Declared, Declares
from harness.faults.steps.produce import transactional
from harness.faults.steps.step import Action, Done, EffectProof, PartitionExpr, ProducerRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.kafka.admin.groups import ProducerOnPartition, TransactionState
from harness.kafka.admin.wire import Unanswered
from harness.model.clock import now_ns
from harness.model.contract.contract import ABORT_TRANSACTION
from harness.model.documents.steps import TransactionAborted
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.facts import FactKind
from harness.model.outcome import Outcome
from harness.model.place import Place
from harness.model.scenario.scenario import Deadline
from harness.model.waiting import wait_for

# The states of a transaction after every partition has acknowledged its marker.
ENDED: Final = frozenset({"CompleteCommit", "CompleteAbort"})


@dataclass(frozen=True, kw_only=True)
class WaitTransactionEnded(Action):
    """The coordinator answers a commit earlier, as soon as it is decided (KIP-98)."""

    do: ClassVar[str] = "wait_transaction_ended"
    facts: ClassVar[Declares] = NOTHING
    relies_on: ClassVar[frozenset[str]] = frozenset({"transaction.abort.timed.out.transaction.cleanup.interval.ms"})
    summary: ClassVar[str] = "Waits until the last transaction of a producer has ended: every partition has its marker."
    producer: ProducerRef
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        transactional(plan, self.producer)

    def perform(self, context: StepContext) -> Done:
        reported = _await_ended(context, self.producer, self.deadline_s)
        return Done(resolved={"state": reported.state, "producer_id": reported.producer_id})


@dataclass(frozen=True, kw_only=True)
class AbortTransaction(Action):
    """A transaction hangs when its coordinator has ended it and the partition's leader still has it open: no
    read_committed consumer can read past it. An event `transaction_aborted` records its producer, its start offset and
    when it was aborted.
    """

    do: ClassVar[str] = ABORT_TRANSACTION
    by_hand: ClassVar[str] = "it needs a transaction that a defect left hanging"
    facts: ClassVar[Declares] = (Declared(FactKind.TRANSACTION_ABORTED),)
    summary: ClassVar[str] = (
        "Aborts a hanging transaction of a producer on a partition, as kafka-transactions.sh abort does (KIP-664)."
    )
    proof: ClassVar[str] = (
        "the last stable offset was at the start of the hanging transaction, below the high watermark, and moved on"
    )
    disturbs: ClassVar[bool] = True
    producer: ProducerRef
    on: PartitionExpr
    deadline_s: Deadline = 30.0

    def declared(self) -> Declares:
        return (Declared(FactKind.TRANSACTION_ABORTED, client=self.producer),)

    def validate(self, plan: StepValidation) -> None:
        transactional(plan, self.producer)
        topic, _ = place_of(self.on)
        if topic not in plan.producer(self.producer).topics:
            raise BadInput(f"on: {self.producer} does not write to {topic}; name a partition that it writes to")

    def perform(self, context: StepContext) -> Done:
        place = place_of(self.on)
        reported = _await_ended(context, self.producer, self.deadline_s)
        high, stable = self._marks(context, place)
        state = context.partition(place)
        known = context.admin.producers([place[0]])
        mine = [p for p in known if (p.topic, p.partition, p.producer_id) == (*place, reported.producer_id)]
        hanging = next((p for p in mine if p.txn_start_offset is not None), None)
        if hanging is None:
            seen = {"high_watermark": high, "last_stable_offset": stable, "coordinator": reported.state}
            because = f"no transaction of {self.producer} hangs on {self.on}"
            return Done(effect=EffectProof(False, because, seen))
        self._abort(context, state.leader, state.topic_id, reported, hanging)
        after = wait_for(
            lambda: self._marks(context, place),
            until=lambda marks: marks[1] >= high,
            deadline_s=self.deadline_s,
            what=f"the last stable offset of {self.on} to advance",
        )
        seen = {
            "began": hanging.txn_start_offset,
            "before": {"high_watermark": high, "last_stable_offset": stable},
            "after": {"high_watermark": after[0], "last_stable_offset": after[1]},
        }
        stood = stable == hanging.txn_start_offset and stable < high
        because = f"the last stable offset of {self.on} was {stable} of {high} and is {after[1]} now"
        return Done(resolved=seen, effect=EffectProof(stood, because, seen))

    def _abort(
        self, context: StepContext, leader: int, topic_id: str, reported: TransactionState, hanging: ProducerOnPartition
    ) -> None:
        assert hanging.txn_start_offset is not None
        asked_ns, outcome = now_ns(), Outcome.UNKNOWN
        try:
            error = context.admin.abort_on(leader, hanging)
            if error is not None:
                raise HarnessTimeout(f"broker {leader} does not abort the hanging transaction on {self.on}: {error}")
            outcome = Outcome.ACKED
        except Unanswered as silent:
            raise HarnessTimeout(
                f"waited for broker {leader} to abort the hanging transaction on {self.on}: {silent}"
            ) from silent
        finally:
            context.record_event(
                TransactionAborted(
                    topic=hanging.topic,
                    topic_id=topic_id,
                    partition=hanging.partition,
                    at_ns=now_ns(),
                    producer=self.producer,
                    producer_id=hanging.producer_id,
                    producer_epoch=hanging.producer_epoch,
                    start_offset=hanging.txn_start_offset,
                    leader=leader,
                    coordinator=reported.state,
                    outcome=outcome.value,
                    asked_ns=asked_ns,
                )
            )

    def _marks(self, context: StepContext, place: Place) -> tuple[int, int]:
        """Waits for the leader to report the (high watermark, last stable offset) of the partition."""
        marks = wait_for(
            lambda: context.admin.watermarks([place[0]]).get(place),
            until=lambda reported: reported is not None,
            deadline_s=self.deadline_s,
            what=f"the leader of {self.on} to report its offsets",
        )
        assert marks is not None
        return marks


def _await_ended(context: StepContext, producer: str, deadline_s: float) -> TransactionState:
    """Waits until a coordinator reports that a producer's last transaction has ended; returns its state."""
    asked = context.transactional_id(producer)
    reported: TransactionState | None = wait_for(
        lambda: context.admin.transactions([asked]).get(asked),
        until=lambda reported: reported is not None and reported.state in ENDED,
        deadline_s=deadline_s,
        what=f"the last transaction of {producer} to end",
    )
    assert reported is not None
    return reported
