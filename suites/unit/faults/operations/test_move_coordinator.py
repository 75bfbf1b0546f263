"""A coordinator that moves in each phase of a transaction. The states are made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.faults.operations import elect
from harness.faults.operations.move_coordinator import MoveCoordinator
from harness.faults.steps.step import Done
from harness.kafka.admin.client import PartitionState
from harness.model.contract.internal_topics import TRANSACTIONS, state_partition
from harness.model.errors import HarnessTimeout
from harness.model.place import Place
from harness.model.scenario.scenario import Topic
from suites.unit.faults.steps.scripted import context_on

PARTITIONS = 5
ID = "payments"


class Scripted:
    """A coordinator that reports these states one after the other, and moves when it is asked to."""

    def __init__(self, *states: str) -> None:
        self.reported = list(states)
        self.state = PartitionState(
            topic=TRANSACTIONS,
            topic_id="i",
            partition=state_partition(ID, PARTITIONS),
            leader=1,
            leader_epoch=3,
            isr=(1, 2, 3),
            replicas=(1, 2, 3),
        )
        self.moves: list[tuple[str, int]] = []
        self.last = ""

    def partitions(self, topics: Sequence[str]) -> list[PartitionState]:
        return [self.state]

    def reassign(self, wanted: dict[Place, list[int]]) -> None:
        self.state = replace(self.state, replicas=tuple(wanted[TRANSACTIONS, self.state.partition]))

    def elect_leaders(self, kind: str, places: Sequence[Place]) -> None:
        self.state = replace(self.state, leader=self.state.replicas[0])
        self.moves.append((self.last, self.state.leader))

    def transactions(self, ids: Sequence[str]) -> dict[str, SimpleNamespace]:
        self.last = self.reported.pop(0) if len(self.reported) > 1 else self.reported[0]
        return {ID: SimpleNamespace(state=self.last)} if self.last else {}


def performed(cluster: Scripted) -> Done:
    context = context_on(cluster)
    context.internal = (Topic(name=TRANSACTIONS, partitions=PARTITIONS),)
    return MoveCoordinator(producer=ID, deadline_s=0.2).perform(context)


def test_it_moves_once_in_each_phase_and_waits_for_the_phase() -> None:
    states = ["Empty", "Ongoing", "Ongoing", "PrepareAbort", "PrepareAbort", "", "CompleteAbort"]
    cluster = Scripted(*states)
    done = performed(cluster)
    assert cluster.moves == [("Ongoing", 2), ("PrepareAbort", 1), ("CompleteAbort", 2)]
    assert done.resolved == {"moved": {"open": [1, 2], "decided": [2, 1], "ended": [1, 2]}}
    assert done.effect is not None
    assert done.effect.held


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["Ongoing"], "the coordinator moved in 1 of 3 phases; waited"),
        (["CompleteCommit"], "the coordinator moved in 0 of 3 phases; waited"),
        ([""], "the coordinator moved in 0 of 3 phases; waited"),
    ],
)
def test_a_phase_that_was_never_seen_is_no_effect(states: list[str], said: str) -> None:
    done = performed(Scripted(*states))
    assert done.effect is not None
    assert not done.effect.held
    assert done.effect.because.startswith(said)


def test_a_leader_that_stays_is_not_a_missing_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elect, "DEADLINE_S", 0.2)
    cluster = Scripted("Ongoing")
    monkeypatch.setattr(cluster, "elect_leaders", lambda *_: {})
    with pytest.raises(HarnessTimeout, match="the chosen leader"):
        performed(cluster)
