"""Each proof of an effect, and its near misses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

import pytest

from harness.faults.steps import effect
from harness.faults.steps.effect import (
    absent,
    acks_stalled,
    answers_missed,
    any_of,
    await_recent_acks,
    isr_lost,
    leaders_moved,
    named,
)
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.waits import WaitCommits, WaitLeaderChanged
from harness.kafka.admin.client import PartitionState, Quorum
from harness.model.clock import now_ns
from harness.model.contract.internal_topics import TRANSACTIONS
from harness.model.errors import HarnessTimeout
from harness.model.scenario.scenario import Topic

P0, P1 = ("t", 0), ("t", 1)


def state(partition: int, leader: int, epoch: int, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(
        topic="t", topic_id="i", partition=partition, leader=leader, leader_epoch=epoch, isr=isr, replicas=(1, 2, 3)
    )


@dataclass
class World:
    """The answers of the scripted admin and load; tests change them between looks."""

    states: list[PartitionState] = field(default_factory=lambda: [state(0, 1, 5), state(1, 2, 5)])
    acks_ago_s: dict[tuple[str, int], float] = field(default_factory=lambda: {P0: 0.1, P1: 0.1})
    sent_again: int = 0
    given_up: int = 0
    ends: dict[tuple[str, int, int], int] = field(default_factory=dict)
    behind: list[dict[int, int]] = field(default_factory=list)  # records behind the controllers, at each look
    commits_at_looks: list[int] = field(default_factory=list)

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        return [s for s in self.states if s.topic in topics]

    def replica_offsets(self, topics: list[str]) -> Mapping[tuple[str, int, int], tuple[int, int]]:
        return {key: (0, end) for key, end in self.ends.items() if key[0] in topics}

    def last_ack_ns(self, topic: str, partition: int) -> int:
        ago_s = self.acks_ago_s.get((topic, partition))
        return 0 if ago_s is None else now_ns() - int(ago_s * 1e9)

    def retries(self) -> int:
        return self.sent_again

    def unknown(self) -> int:
        return self.given_up

    def quorum(self) -> Quorum:
        observers = {broker: 500 - records for broker, records in self.behind.pop(0).items()}
        return Quorum(leader=101, leader_epoch=1, high_watermark=500, voters={101: 500}, observers=observers)

    def commits(self, group: str) -> int:
        assert group == "readers"
        return self.commits_at_looks.pop(0) if len(self.commits_at_looks) > 1 else self.commits_at_looks[0]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    return World()


@pytest.fixture
def context(world: World) -> StepContext:
    return StepContext(
        cluster=cast(Any, None),
        admin=cast(Any, world),
        load=cast(Any, world),
        rng=Random(1),
        topics=(Topic(name="t", partitions=2),),
        say=lambda _: None,
    )


def test_newer_epochs_of_all_partitions_that_it_led_prove_the_loss_of_a_leader(
    context: StepContext, world: World
) -> None:
    probe = leaders_moved(context, await_recent_acks(context, lambda s: s.leader in (1, 2)))
    assert not probe().held
    world.states = [state(0, 3, 6), state(1, 2, 5)]
    assert "t/1 did not rise" in probe().because
    world.states = [state(0, 3, 6), state(1, 3, 6)]
    assert probe().held
    assert probe().seen["t/0"] == {"leader": [1, 3], "leader_epoch": [5, 6]}


def test_a_follower_that_left_the_log_of_a_coordinator_with_the_same_leader_counts(
    context: StepContext, world: World
) -> None:
    mine, others = (replace(state(p, leader, 5), topic=TRANSACTIONS) for p, leader in ((0, 1), (1, 3)))
    context.internal, world.states = (Topic(name=TRANSACTIONS, partitions=2),), [*world.states, mine, others]
    probe = isr_lost(context, {2}, await_recent_acks(context, lambda s: s.leader == 1))
    world.states = [*world.states[:2], mine, replace(others, isr=(1, 3))]
    assert not probe().held
    world.states = [*world.states[:2], replace(mine, isr=(1, 3)), others]
    assert probe().seen == {f"{TRANSACTIONS}/0": {"isr": [[1, 2, 3], [1, 3]]}}


def test_a_dead_process_alone_proves_nothing(context: StepContext, world: World) -> None:
    world.acks_ago_s = {P0: 5.0}
    probe = leaders_moved(context, await_recent_acks(context, lambda s: s.leader == 1))
    world.states = [state(0, 3, 6), state(1, 3, 6)]
    assert not probe().held
    assert "no partition that had acks in the last second" in probe().because


def test_a_partition_without_an_answer_has_not_moved(context: StepContext, world: World) -> None:
    probe = leaders_moved(context, await_recent_acks(context, lambda s: s.leader == 1))
    world.states = []
    assert not probe().held


def test_a_smaller_isr_proves_the_loss_of_a_follower(context: StepContext, world: World) -> None:
    probe = isr_lost(context, {3}, await_recent_acks(context, lambda s: 3 in s.isr))
    assert not probe().held
    world.states = [state(0, 1, 5, isr=(1, 3)), state(1, 2, 5)]
    assert not probe().held  # another follower left
    world.states = [state(0, 1, 5, isr=(1, 2)), state(1, 2, 5)]
    assert probe().held


def test_a_broker_is_absent_when_it_leaves_the_isr_or_was_out_of_it_already(context: StepContext, world: World) -> None:
    probe = absent(context, 3, lambda s: s.partition == 0)
    assert "still holds [3]" in probe().because
    world.states[0] = state(0, 1, 5, isr=(1, 2))
    assert probe().held
    already = absent(context, 3, lambda s: s.partition == 0)
    assert already().because == "3 was out of the ISR of t/0 already"
    world.states[0] = state(0, 1, 5)
    assert not already().held  # it has come back before the fault


def test_a_broker_that_is_out_of_the_isr_of_idle_partitions_proves_nothing(context: StepContext, world: World) -> None:
    world.states[0], world.acks_ago_s = state(0, 1, 5, isr=(1, 2)), {}
    assert not absent(context, 3, lambda s: s.partition == 0)().held


def test_acks_stall_after_half_a_second_of_silence(context: StepContext, world: World) -> None:
    probe = acks_stalled(context, [P0, P1])
    assert not probe().held
    world.acks_ago_s[P1] = 0.6
    assert probe().held
    assert list(cast(Any, probe().seen["silent_s"])) == ["t/1"]


def test_missed_answers_count_from_when_the_fault_began(context: StepContext, world: World) -> None:
    world.sent_again = world.given_up = 7
    probe = answers_missed(context)
    assert not probe().held
    world.given_up = 8  # every broker was down for longer than a send may take
    assert probe().because == "the clients gave up 1 records without an answer"
    world.sent_again = 9
    assert probe().because == "the clients retried 2 records"


def test_followers_that_do_not_grow_below_the_leader_are_behind(context: StepContext, world: World) -> None:
    probe = effect.followers_behind(context, {2, 3}, {1})
    world.ends = {("t", 0, 1): 10, ("t", 0, 2): 8, ("t", 0, 3): 10}
    assert not probe().held  # one look proves nothing: the follower may be about to fetch
    world.ends = {("t", 0, 1): 12, ("t", 0, 2): 11, ("t", 0, 3): 11}
    assert not probe().held  # both moved
    world.ends = {("t", 0, 1): 14, ("t", 0, 2): 11, ("t", 0, 3): 14}
    assert probe().held


def test_metadata_is_late_when_a_broker_is_behind_at_each_look(
    context: StepContext, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effect, "METADATA_LOOK_S", 0.0)
    probe = effect.metadata_late(context, (1, 2))
    world.behind = [{1: 2, 2: 0}, {1: 0, 2: 1}, {1: 1, 2: 0}, {1: 1, 2: 0}]  # each of them caught up once
    assert not probe().held
    world.behind = [{1: 2, 2: 0}, {1: 1, 2: 1}, {1: 1, 2: 1}, {1: 3, 2: 1}]
    assert probe().because.startswith("[1] lagged")


def test_only_commits_after_the_begin_of_the_step_count(context: StepContext, world: World) -> None:
    world.commits_at_looks = [7, 7, 8, 9]
    WaitCommits(group="readers", commits=2).perform(context)
    assert world.commits_at_looks == [9]
    with pytest.raises(HarnessTimeout, match="2 commits of group readers"):
        WaitCommits(group="readers", commits=2, deadline_s=0.05).perform(context)


def test_a_partition_that_no_victim_led_needs_no_new_leader(context: StepContext, world: World) -> None:
    context.epochs_before["down"], context.victims["down"] = {P0: 5, P1: 5}, (1,)
    wait = WaitLeaderChanged(since="down", deadline_s=0.05)
    with pytest.raises(HarnessTimeout, match=r"t/0.*leader 1 of epoch 5, was 5"):
        wait.perform(context)
    world.states = [state(0, 3, 6), state(1, 2, 5)]
    wait.perform(context)
    context.victims.clear()  # a step that chose no nodes: every partition needs a new leader
    with pytest.raises(HarnessTimeout, match=r"t/1.*leader 2 of epoch 5, was 5"):
        wait.perform(context)


def test_under_an_active_fault_partitions_count_that_had_acks_before_it(context: StepContext, world: World) -> None:
    context.busy, context.faults_open = {P0}, 1
    world.acks_ago_s = {P0: 9.0, P1: 9.0}
    assert set(await_recent_acks(context, lambda _: True)) == {P0}
    context.busy, context.faults_open = set(), 0
    assert await_recent_acks(context, lambda _: True) == {}


def test_any_of_returns_the_first_proof_that_holds_or_all_reasons(context: StepContext, world: World) -> None:
    probe = any_of(acks_stalled(context, [P0]), answers_missed(context))
    assert probe().because == "acks continued on t/0; no client missed an answer"
    world.sent_again = 1
    assert probe().because == "the clients retried 1 records"


def test_many_partitions_are_named_by_their_first_five() -> None:
    assert named([P1, P0]) == "t/0, t/1"
    assert named([("t", p) for p in range(8)]).endswith("t/4 and 3 more")
