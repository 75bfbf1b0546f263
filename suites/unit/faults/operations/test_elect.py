"""When an election by an operator counts as a fault. The leaders are scripted."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.faults.operations import alter_topic, elect
from harness.faults.steps import step_context
from harness.faults.steps.step import Done, EffectProof
from harness.kafka.admin.client import PartitionState
from harness.model.doubt_names import DoubtName
from harness.model.history.fold import fold
from harness.model.history.history import History
from harness.model.scenario.scenario import Step, Topic
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on
from suites.unit.model.history.logs import batches, change, node, partition, topic

FAULT = Step(do="alter_topic", name="fault", args={"topic": "t", "config": {}})
WAIT = Step(do="hold", name="wait", args={"seconds": 0.0})
ELECT = Step(do="elect_preferred", name="elect", args={})


class Leaders:
    """The leader of t/0 at each look; its preferred replica is 1, which an election makes the leader."""

    def __init__(self, *leaders: int) -> None:
        self.log = [partition(leader=leaders[0])]
        self.leaders = list(leaders)
        self.looks = 0
        self.epoch = 0
        self.last = leaders[0]

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        leader = self.leaders[min(self.looks, len(self.leaders) - 1)]
        self.looks += 1
        if leader != self.last:
            self.epoch += 1
            self.log.append(change(Leader=leader))
        self.last = leader
        return [
            PartitionState(
                topic="t",
                topic_id="i",
                partition=0,
                leader=leader,
                leader_epoch=self.epoch,
                isr=(1, 2, 3),
                replicas=(1, 2, 3),
            )
        ]

    def history(self) -> History:
        """The metadata log of these looks."""
        return fold([node(1, batches(topic("t"), *self.log))], [1])

    def elect_leaders(self, kind: str, places: list[tuple[str, int]]) -> dict[tuple[str, int], str | None]:
        assert (kind, places) == ("preferred", [("t", 0)])
        self.leaders = [1]
        return dict.fromkeys(places)


@pytest.fixture(autouse=True)
def quiet_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """The action before the election counts as a fault, and does nothing."""
    monkeypatch.setattr(step_context, "history_of_cluster", lambda cluster: cluster.history())
    monkeypatch.setattr(alter_topic.AlterTopic, "disturbs", True)
    monkeypatch.setattr(
        alter_topic.AlterTopic, "perform", lambda self, context: Done(effect=EffectProof(True, "as if"))
    )


def elected(leaders: Leaders, *before: Step, partitions: int = 1) -> tuple[dict[str, Any], list[tuple[DoubtName, str]]]:
    cluster = SimpleNamespace(controllers=(), history=leaders.history, capabilities={"disk.read"})
    placed = Topic(name="t", partitions=partitions)
    context = context_on(cluster, admin=leaders, topic=placed, last_ack_ns=lambda t, p: 0)
    rows = run_steps(context, [*before, ELECT])
    return rows[-1], doubts(rows)


def test_an_election_that_moves_a_leader_proves_the_effect() -> None:
    row, found = elected(Leaders(2), FAULT)
    assert row["effect"] == {
        "held": True,
        "because": "t/0 returned to the preferred leader",
        "seen": {"t/0": {"leader": [2, 1]}},
    }
    assert (row["is_fault"], found) == (True, [])


def test_a_leader_that_returned_by_itself_proves_the_effect() -> None:
    row, found = elected(Leaders(1, 2, 2, 1), FAULT, WAIT)
    assert row["effect"]["because"] == "t/0 returned to the preferred leader before the election"
    assert row["effect"]["seen"] == {"t/0": {"leader": [2, 1]}}
    assert (row["is_fault"], found) == (True, [])


def test_a_leader_that_moves_again_at_once_was_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    class Restless(Leaders):
        """At no look do the preferred replicas lead both partitions."""

        def partitions(self, topics: list[str]) -> list[PartitionState]:
            (first,) = super().partitions(topics)
            other = 3 if first.leader == 1 else 1
            return [first, replace(first, partition=1, leader=other)]

        def elect_leaders(self, kind: str, places: list[tuple[str, int]]) -> dict[tuple[str, int], str | None]:
            self.leaders = [2] * self.looks + [1, 3]
            return dict.fromkeys(places)

    monkeypatch.setattr(elect, "DEADLINE_S", 5.0)
    row, found = elected(Restless(2), FAULT, partitions=2)
    assert row["effect"]["seen"]["t/0"] == {"leader": [2, 1]}
    assert found == []

    monkeypatch.setattr(elect, "DEADLINE_S", 0.2)
    row, _ = elected(Stubborn(2), FAULT)
    assert "leader 2" in row["error"]
    (event,) = row["events"]
    assert (event["kind"], event["error"]) == ("election_in_vain", "ELECTION_NOT_NEEDED")
    assert (event["leader"], event["preferred"], event["isr"]) == (2, 1, [1, 2, 3])


class Late(Leaders):
    """The preferred replica is not in sync when it is to be elected first."""

    def __init__(self, *leaders: int) -> None:
        super().__init__(*leaders)
        self.asked = 0

    def elect_leaders(self, kind: str, places: list[tuple[str, int]]) -> dict[tuple[str, int], str | None]:
        self.asked += 1
        if self.asked == 1:
            return dict.fromkeys(places, "PREFERRED_LEADER_NOT_AVAILABLE")
        return super().elect_leaders(kind, places)


def test_a_replica_that_was_not_in_sync_is_elected_once_it_is() -> None:
    leaders = Late(2)
    row, found = elected(leaders, FAULT)
    assert row["effect"]["seen"]["t/0"] == {"leader": [2, 1]}
    assert (found, leaders.asked) == ([], 2)


class Stubborn(Leaders):
    """Elects no leader."""

    def elect_leaders(self, kind: str, places: list[tuple[str, int]]) -> dict[tuple[str, int], str | None]:
        return dict.fromkeys(places, "ELECTION_NOT_NEEDED")


@pytest.mark.parametrize(
    ("leaders", "before"),
    [
        ((1,), (FAULT,)),  # no leader ever moved
        ((2, 1), (WAIT,)),  # it moved, but before any fault
        ((1,), ()),
    ],
)
def test_leaders_that_never_moved_are_no_disturbance(leaders: tuple[int, ...], before: tuple[Step, ...]) -> None:
    row, found = elected(Leaders(*leaders), *before)
    assert not row["effect"]["held"]
    assert (row["is_fault"], found) == (False, [])
