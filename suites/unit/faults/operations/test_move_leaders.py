"""The choice of the next leader, and a broker that is removed from its partitions. The states are made by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.faults.operations import elect, move_leaders
from harness.faults.operations.move_leaders import MoveLeaders, next_order
from harness.faults.operations.reassign import ReassignAway
from harness.kafka.admin.client import PartitionState
from harness.model.errors import HarnessTimeout
from suites.unit.faults.steps.scripted import context_on


def state(leader: int, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(
        topic="t", topic_id="i", partition=0, leader=leader, leader_epoch=3, isr=isr, replicas=(1, 2, 3)
    )


@pytest.mark.parametrize(
    ("leader", "without", "order"),
    [(1, (), [2, 1, 3]), (2, (), [1, 2, 3]), (1, (2,), [3, 1, 2]), (2, (1,), [3, 1, 2])],
)
def test_the_next_leader_is_the_first_in_sync_replica_that_is_not_left_out(
    leader: int, without: tuple[int, ...], order: list[int]
) -> None:
    assert next_order(state(leader), without) == order


def test_an_out_of_sync_replica_does_not_lead() -> None:
    assert next_order(state(1, isr=(1, 3)), ()) == [3, 1, 2]
    with pytest.raises(HarnessTimeout, match="no other replica that can lead than the leader 1"):
        next_order(state(1, isr=(1, 3)), (3,))


class Reassigned:
    """A cluster that completes each reassignment at once, or with `stuck` none."""

    def __init__(self, *, stuck: bool = False) -> None:
        self.state, self.stuck = state(1), stuck
        self.asked: list[list[int]] = []

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        return [self.state] if topics else []

    def reassign(self, wanted: dict[tuple[str, int], list[int]]) -> None:
        (replicas,) = wanted.values()
        self.asked.append(replicas)
        if not self.stuck:
            leader = self.state.leader if self.state.leader in replicas else replicas[0]
            self.state = replace(self.state, replicas=tuple(replicas), isr=tuple(replicas), leader=leader)


def test_the_leader_is_removed_and_follows_again_after_healing() -> None:
    cluster = Reassigned()
    with ReassignAway(on=("t/0",)).active(context_on(cluster)) as injection:
        assert (cluster.state.leader, cluster.state.replicas) == (2, (2, 3))
        assert injection.probe().held
        assert injection.resolved == {"t/0": {"leader": [1, 2]}}
    assert (cluster.state.leader, cluster.state.replicas) == (2, (2, 3, 1))


def test_a_leader_that_stays_is_reported_and_its_replica_requested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elect, "DEADLINE_S", 0.2)
    cluster = Reassigned(stuck=True)
    with pytest.raises(HarnessTimeout, match="another leader"), ReassignAway(on=("t/0",)).active(context_on(cluster)):
        pass
    assert cluster.asked == [[2, 3], [2, 3, 1]]


class Deciding:
    """A cluster with a coordinator that reports these states, and notes which one was the last before the election."""

    def __init__(self, *states: str) -> None:
        self.state = state(1)
        self.reported = list(states)
        self.elected_in = self.last = ""

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        return [self.state]

    def reassign(self, wanted: dict[tuple[str, int], list[int]]) -> None:
        self.state = replace(self.state, replicas=tuple(*wanted.values()))

    def elect_leaders(self, kind: str, places: list[tuple[str, int]]) -> None:
        self.elected_in = self.last
        self.state = replace(self.state, leader=self.state.replicas[0])

    def transactions(self, ids: list[str]) -> dict[str, SimpleNamespace]:
        self.last = self.reported.pop(0) if len(self.reported) > 1 else self.reported[0]
        return {"payments": SimpleNamespace(state=self.last)}


def test_the_election_meets_markers_on_their_way() -> None:
    cluster = Deciding("Ongoing", "PrepareCommit", "CompleteCommit")
    done = MoveLeaders(on=("t/0",), producer="payments").perform(context_on(cluster))
    assert cluster.elected_in == "PrepareCommit"
    assert done.effect is not None
    assert done.effect.held


def test_an_election_without_markers_is_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their leaders move all the same, so that the scenario goes on as planned."""
    monkeypatch.setattr(move_leaders, "DECIDED_S", 0.1)
    cluster = Deciding("Ongoing")
    done = MoveLeaders(on=("t/0",), producer="payments").perform(context_on(cluster))
    assert cluster.state.leader == 2
    assert done.effect is not None
    assert not done.effect.held
    assert done.effect.because.startswith("no marker was on its way: waited")
