"""When a cluster has recovered, and when a snapshot is complete. The admin is scripted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from harness.faults.steps.waits import INTERNAL_TOPICS
from harness.kafka.admin.client import PartitionState
from harness.model.documents import cluster
from harness.model.documents.cluster import ReplicaLog, Snapshot
from harness.model.documents.run import Recovered
from harness.model.pending import Pending
from harness.model.scenario.scenario import Topic
from harness.model.wait_budget import WaitBudget
from harness.run import recovery

CLUSTER = cast(Any, SimpleNamespace(controllers=(101,), brokers=(1, 2, 3), running=lambda node: True))
LOAD = cast(Any, SimpleNamespace(produced_acks=lambda topic, partition, since_ns: 1))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_INTERVAL_S", 0.001)
    monkeypatch.setattr(recovery, "SNAPSHOT_DEADLINE_S", 0.5)
    monkeypatch.setattr(recovery, "RECOVERY_DEADLINE_S", 0.5)


def state(partition: int, *isr: int, leader: int = 1) -> PartitionState:
    return PartitionState(
        topic="t", topic_id="i", partition=partition, leader=leader, leader_epoch=1, isr=isr, replicas=(1, 2, 3)
    )


class Admin:
    """Answers one look after the other; the last one stays."""

    def __init__(self, *looks: Any) -> None:
        self.looks = list(looks)

    def partitions(self, topics: tuple[str, ...]) -> Any:
        assert topics == ("t", *INTERNAL_TOPICS)
        return self._next()

    def snapshot(self, phase: str, topics: list[str], groups: list[str]) -> Any:
        return self._next()

    def _next(self) -> Any:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


def recovered(*looks: list[PartitionState]) -> Recovered:
    return recovery.recovered(CLUSTER, cast(Any, Admin(*looks)), ["t"], LOAD, [("t", 0)])


FLAPPING = ([state(0, 1, 2, 3), state(1, 1, 2)], [state(0, 1, 2), state(1, 1, 2, 3)], [state(0, 1), state(1, 1, 2)])


def test_isrs_that_were_each_full_once_have_recovered() -> None:
    assert recovered(*FLAPPING).ok


def test_an_isr_that_was_never_full_has_not_recovered() -> None:
    seen = recovered([state(0, 1, 2, 3), state(1, 1, 2)], [state(0, 1, 2), state(1, 1, 2)])
    assert not seen.ok
    assert "t-1 leader 1 isr [1, 2]" in seen.last_seen
    assert "t-0" not in seen.last_seen
    assert seen.pending is Pending.ISR_NOT_FULL


FULL = [state(0, 1, 2, 3), state(1, 1, 2, 3)]


def test_the_result_declares_what_was_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert recovered(FULL).pending is None
    monkeypatch.setattr(LOAD, "produced_acks", lambda topic, partition, since_ns: 0)
    assert recovered(FULL).pending is Pending.NO_ACKS
    monkeypatch.setattr(CLUSTER, "running", lambda node: node != 2)
    assert recovered(FULL).pending is Pending.NODES_DOWN


def test_a_partition_without_a_leader_was_not_full() -> None:
    assert not recovered([state(0, 1, 2, 3, leader=-1)]).ok


def test_a_topic_that_no_broker_reports_has_not_recovered() -> None:
    assert not recovered([]).ok


def test_isrs_that_were_full_in_turn_are_not_full_at_one_instant() -> None:
    flapping = Admin(*FLAPPING)
    assert not recovery.isr_full(CLUSTER, cast(Any, flapping), ["t"], deadline_s=0.5).ok


LOGS = tuple(ReplicaLog(broker=broker, log_start=0, log_end=9) for broker in (1, 2, 3))
ROW = cluster.PartitionState(
    topic="t",
    topic_id="i",
    partition=0,
    leader=1,
    isr=(2, 1, 3),
    replicas=(1, 2, 3),
    logs=LOGS,
    high_watermark=9,
    last_stable_offset=9,
)


def snapshot(*rows: cluster.PartitionState) -> Snapshot:
    return Snapshot(phase="healed", at_ns=1, partitions=rows, groups=())


OPEN = {
    "a broker was silent": replace(ROW, logs=LOGS[:2]),
    "the leader moved": replace(ROW, high_watermark=None, last_stable_offset=None),
    "no stable offset": replace(ROW, last_stable_offset=None),
    "the ISR shrank": replace(ROW, isr=(1, 2)),
    "the high watermark follows": replace(ROW, high_watermark=8, last_stable_offset=8),
}


@pytest.mark.parametrize("unlucky", OPEN.values(), ids=OPEN.keys())
def test_an_incomplete_snapshot_is_taken_again(unlucky: cluster.PartitionState) -> None:
    looks = Admin(snapshot(), snapshot(unlucky), snapshot(ROW), "too late")
    assert recovery.snapshot(cast(Any, looks), "healed", ["t"], []) == snapshot(ROW)


@pytest.mark.parametrize("lasting", OPEN.values(), ids=OPEN.keys())
def test_a_snapshot_that_stays_incomplete_is_kept_as_it_is(lasting: cluster.PartitionState) -> None:
    looks = Admin(snapshot(replace(ROW, isr=(1,))), snapshot(lasting))
    assert recovery.snapshot(cast(Any, looks), "healed", ["t"], []) == snapshot(lasting)


def test_partitions_that_there_are_and_that_nobody_tells_of_are_named() -> None:
    topics = [Topic(name="t", partitions=3)]
    assert recovery.not_reported(snapshot(*(replace(ROW, partition=p) for p in range(3))), topics) == ""
    assert recovery.not_reported(snapshot(replace(ROW, partition=1)), topics) == "t-0, t-2"


def test_with_a_spent_budget_a_snapshot_is_still_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "SNAPSHOT_LEAST_S", 0.0)
    budget = WaitBudget(0.0)
    budget.begin("a wait in vain")
    short, full = snapshot(replace(ROW, isr=(1,))), snapshot(ROW)
    looks = Admin(short, full)
    assert recovery.snapshot(cast(Any, looks), "healed", ["t"], [], budget) == short
