"""Transactions that nobody would end any more, and what an operator does about one (KIP-664)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.steps.produce import transactional
from harness.faults.steps.step import Action, Done, EffectProof, PartitionExpr, Place, ProducerRef
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.kafka.admin.groups import ProducerOnPartition, TransactionState
from harness.kafka.admin.wire import Unanswered
from harness.model.clock import now_ns
from harness.model.contract.contract import ABORT_TRANSACTION
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.outcome import Outcome
from harness.model.scenario.scenario import Deadline
from harness.model.waiting import wait_for

# What a coordinator says of a transaction whose markers every partition has acknowledged.
ENDED: Final = frozenset({"CompleteCommit", "CompleteAbort"})


@dataclass(frozen=True, kw_only=True)
class WaitEnded(Action):
    """Waits until the last transaction of a producer is over for its coordinator: every partition has its marker.

    A commit is answered before that, once the coordinator will write them (KIP-98).
    """

    do: ClassVar[str] = "wait_ended"
    producer: ProducerRef
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        transactional(plan, self.producer)

    def perform(self, stage: Stage) -> Done:
        reported = _await_ended(stage, self.producer, self.deadline_s)
        return Done(resolved={"state": reported.state, "producer_id": reported.producer_id})


@dataclass(frozen=True, kw_only=True)
class AbortTransaction(Action):
    """Aborts what hangs of a producer's transaction on a partition, as kafka-transactions.sh abort does (KIP-664).

    It hangs where its coordinator is done with it and the partition's leader has it open, so that nobody reads past it
    as read_committed. An event `transaction_aborted` tells whose it was, where it began, and when it was ended.
    """

    do: ClassVar[str] = ABORT_TRANSACTION
    disturbs: ClassVar[bool] = True
    producer: ProducerRef
    on: PartitionExpr
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        transactional(plan, self.producer)
        topic, _ = place_of(self.on)
        if topic not in plan.producer(self.producer).topics:
            raise BadInput(f"on: {self.producer} does not write to {topic}; name a partition that it writes to")

    def perform(self, stage: Stage) -> Done:
        place = place_of(self.on)
        reported = _await_ended(stage, self.producer, self.deadline_s)
        high, stable = self._marks(stage, place)
        state = stage.partition(place)
        known = stage.admin.producers([place[0]])
        mine = [p for p in known if (p.topic, p.partition, p.producer_id) == (*place, reported.producer_id)]
        hanging = next((p for p in mine if p.txn_start_offset is not None), None)
        if hanging is None:
            seen = {"high_watermark": high, "last_stable_offset": stable, "coordinator": reported.state}
            return Done(effect=EffectProof(False, f"nothing of {self.producer} hangs on {self.on}", seen))
        self._abort(stage, state.leader, state.topic_id, reported, hanging)
        after = wait_for(
            lambda: self._marks(stage, place),
            until=lambda marks: marks[1] >= high,
            deadline_s=self.deadline_s,
            what=f"the last stable offset of {self.on} to move on",
        )
        seen = {
            "began": hanging.txn_start_offset,
            "before": {"high_watermark": high, "last_stable_offset": stable},
            "after": {"high_watermark": after[0], "last_stable_offset": after[1]},
        }
        stood = stable == hanging.txn_start_offset and stable < high
        because = f"the last stable offset of {self.on} stood at {stable} of {high} and is {after[1]} now"
        return Done(resolved=seen, effect=EffectProof(stood, because, seen))

    def _abort(
        self, stage: Stage, leader: int, topic_id: str, reported: TransactionState, hanging: ProducerOnPartition
    ) -> None:
        asked_ns, outcome = now_ns(), Outcome.UNKNOWN
        try:
            error = stage.admin.abort_on(leader, hanging)
            if error is not None:
                raise HarnessTimeout(f"broker {leader} does not abort what hangs on {self.on}: {error}")
            outcome = Outcome.ACKED
        except Unanswered as silent:
            raise HarnessTimeout(f"waited for broker {leader} to abort what hangs on {self.on}: {silent}") from silent
        finally:
            stage.record_event(
                "transaction_aborted",
                topic=hanging.topic,
                topic_id=topic_id,
                partition=hanging.partition,
                producer=self.producer,
                producer_id=hanging.producer_id,
                producer_epoch=hanging.producer_epoch,
                start_offset=hanging.txn_start_offset,
                leader=leader,
                coordinator=reported.state,
                outcome=outcome.value,
                asked_ns=asked_ns,
            )

    def _marks(self, stage: Stage, place: Place) -> tuple[int, int]:
        """High watermark and last stable offset, once the leader tells them."""
        marks = wait_for(
            lambda: stage.admin.watermarks([place[0]]).get(place),
            until=lambda reported: reported is not None,
            deadline_s=self.deadline_s,
            what=f"the leader of {self.on} to tell its offsets",
        )
        assert marks is not None
        return marks


def _await_ended(stage: Stage, producer: str, deadline_s: float) -> TransactionState:
    """What a coordinator says of a producer's last transaction, once that is over for it."""
    asked = stage.transactional_id(producer)
    reported: TransactionState | None = wait_for(
        lambda: stage.admin.transactions([asked]).get(asked),
        until=lambda reported: reported is not None and reported.state in ENDED,
        deadline_s=deadline_s,
        what=f"the last transaction of {producer} to be over",
    )
    assert reported is not None
    return reported
