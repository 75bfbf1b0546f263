"""When a transaction has ended, and when one hangs. Coordinators and leaders are scripted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness import scenarios
from harness.faults.clients.hanging_transaction import AbortTransaction, WaitTransactionEnded
from harness.faults.steps.registry import check_steps
from harness.faults.steps.step import Done
from harness.faults.steps.step_context import StepContext
from harness.kafka.admin import markers
from harness.kafka.admin.client import PartitionState, ProducerOnPartition
from harness.kafka.admin.wire import Unanswered
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.toml import patched
from suites.steps_json import events_of
from suites.unit.faults.steps.scripted import context_on

STEP = AbortTransaction(producer="p", on="t/0", deadline_s=0.3)
HANGS = ProducerOnPartition("t", 0, 7, 2, 99, 0, 4, 300)
STATE = PartitionState(topic="t", topic_id="T", partition=0, leader=2, leader_epoch=5, isr=(1, 2), replicas=(1, 2))


class Brokers:
    """The coordinator reports a state, the leader of t/0 knows producers, and its offsets advance when it aborts."""

    def __init__(self, *known: ProducerOnPartition, state: str = "CompleteCommit", says: str | None = None) -> None:
        self.known, self.state, self.says = known, state, says
        self.stable = 300
        self.aborted: list[tuple[int, ProducerOnPartition]] = []
        self.deaf = False

    def transactions(self, ids: list[str]) -> dict[str, Any]:
        return {ids[0]: SimpleNamespace(state=self.state, producer_id=7)}

    def watermarks(self, topics: list[str]) -> dict[tuple[str, int], tuple[int, int]]:
        return {("t", 0): (350, self.stable)}

    def producers(self, topics: list[str]) -> list[ProducerOnPartition]:
        return list(self.known)

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        return [STATE]

    def abort_on(self, leader: int, producer: ProducerOnPartition) -> str | None:
        self.aborted.append((leader, producer))
        if self.says == "silence":
            raise Unanswered("silent")
        if self.says is None and not self.deaf:
            self.stable = 350
        return self.says


def context(brokers: Brokers) -> StepContext:
    return context_on(None, admin=brokers)


def aborted(brokers: Brokers) -> tuple[Done, list[dict[str, Any]]]:
    on = context(brokers)
    return STEP.perform(on), events_of(on)


def test_a_hanging_transaction_is_aborted_with_the_producer_id_that_its_leader_reports() -> None:
    brokers = Brokers(ProducerOnPartition("t", 0, 8, 0, 1, 0, 0, 310), HANGS)
    done, (event,) = aborted(brokers)
    assert brokers.aborted == [(2, HANGS)]
    assert done.effect is not None
    assert (done.effect.held, done.effect.because) == (
        True,
        "the last stable offset of t/0 was 300 of 350 and is 350 now",
    )
    reported = {
        key: event[key] for key in ("kind", "topic_id", "producer", "producer_id", "start_offset", "outcome", "leader")
    }
    assert reported == {
        "kind": "transaction_aborted",
        "topic_id": "T",
        "producer": "p",
        "producer_id": 7,
        "start_offset": 300,
        "outcome": "acked",
        "leader": 2,
    }
    assert event["coordinator"] == "CompleteCommit"
    assert event["asked_ns"] <= event["at_ns"]


@pytest.mark.parametrize(
    "known",
    [
        (),
        (ProducerOnPartition("t", 0, 7, 2, 99, 0, 4, None),),
        (ProducerOnPartition("t", 0, 8, 2, 99, 0, 4, 300),),
        (ProducerOnPartition("t", 1, 7, 2, 99, 0, 4, 300),),
    ],
)
def test_nothing_is_aborted_when_no_transaction_of_the_producer_hangs(known: tuple[ProducerOnPartition, ...]) -> None:
    brokers = Brokers(*known)
    done, events = aborted(brokers)
    assert done.effect is not None
    assert (done.effect.held, done.effect.because) == (False, "no transaction of p hangs on t/0")
    assert (brokers.aborted, events) == ([], [])


def test_a_transaction_that_blocked_no_reader_has_no_effect() -> None:
    brokers = Brokers(HANGS)
    brokers.stable = 350
    done, _ = aborted(brokers)
    assert done.effect is not None
    assert not done.effect.held


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "PrepareAbort"])
def test_a_transaction_that_its_coordinator_has_not_ended_is_not_aborted(state: str) -> None:
    brokers = Brokers(HANGS, state=state)
    with pytest.raises(HarnessTimeout, match=f"the last transaction of p to end; last saw .*{state}"):
        STEP.perform(context(brokers))
    with pytest.raises(HarnessTimeout, match="the last transaction of p to end"):
        WaitTransactionEnded(producer="p", deadline_s=0.2).perform(context(brokers))
    assert brokers.aborted == []


def test_an_ended_transaction_is_reported_with_its_producer() -> None:
    assert WaitTransactionEnded(producer="p").perform(context(Brokers())).resolved == {
        "state": "CompleteCommit",
        "producer_id": 7,
    }


@pytest.mark.parametrize(
    ("says", "reported"),
    [
        ("INVALID_PRODUCER_EPOCH", "broker 2 does not abort .*: INVALID_PRODUCER_EPOCH"),
        ("silence", "waited for broker 2"),
    ],
)
def test_an_abort_without_an_answer_is_recorded_as_unknown(says: str, reported: str) -> None:
    on = context(Brokers(HANGS, says=says))
    with pytest.raises(HarnessTimeout, match=reported):
        STEP.perform(on)
    assert [event["outcome"] for event in events_of(on)] == ["unknown"]


def test_a_last_stable_offset_that_does_not_advance_is_reported() -> None:
    brokers = Brokers(HANGS)
    brokers.deaf = True
    with pytest.raises(HarnessTimeout, match="the last stable offset of t/0 to advance"):
        STEP.perform(context(brokers))


def test_a_partition_that_the_producer_does_not_write_to_is_refused() -> None:
    scenario = scenarios.load("contract_transaction_end_unclean")
    with pytest.raises(BadInput, match="unclean does not write to clean; name a partition that it writes to"):
        patched(scenario, {"steps.mended.on": "clean/0"}, check_steps)


@pytest.mark.parametrize(("before", "asked"), [(4, 4), (-1, 0)])
@pytest.mark.parametrize("code", [0, 47])
def test_the_marker_has_the_epoch_of_the_last_coordinator(before: int, asked: int, code: int) -> None:
    questions = []

    def ask(broker: int, question: Any, timeout_s: float) -> Any:
        questions.append((broker, question.build(1), question.newest))
        partition = SimpleNamespace(error_code=code)
        topics = [SimpleNamespace(partitions=[partition])]
        return SimpleNamespace(markers=[SimpleNamespace(topics=topics)])

    producer = ProducerOnPartition("t", 0, 7, 2, 99, 0, before, 300)
    error = markers.abort(cast(Any, SimpleNamespace(ask=ask)), 2, producer)
    assert error == ("INVALID_PRODUCER_EPOCH" if code else None)
    ((broker, message, newest),) = questions
    assert (broker, newest) == (2, 1)
    (marker,) = message.markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 2, False)
    assert (marker.coordinator_epoch, marker.topics[0].name, marker.topics[0].partition_indexes) == (asked, "t", [0])
    message.API_VERSION = 1
    message.with_header(correlation_id=1, client_id="c")
    assert message.encode(header=True, framed=True)
