"""The choice of the next leader, and a broker that is removed from its partitions. The states are made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.faults.operations import elect
from harness.faults.operations.move_leaders import next_order
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
