"""When a wait for acks records a silent partition: only one that should have had acks. The cluster is scripted."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from harness.faults.network import unacknowledged
from harness.faults.network.unacknowledged import StateWatch
from harness.faults.steps.step_context import StepContext
from harness.kafka.admin.client import PartitionState
from suites.steps_json import events_of
from suites.unit.faults.steps.scripted import context_on

PLACES = [("two", 0), ("one", 0)]


@dataclass
class Scripted:
    """Broker 2 leads both, with broker 1 in sync."""

    isr: dict[str, tuple[int, ...]] = field(default_factory=lambda: {"two": (1, 2), "one": (2, 1)})
    leaders: dict[str, int] = field(default_factory=lambda: {"two": 2, "one": 2})
    epoch: int = 4
    down: tuple[int, ...] = (3,)
    acks_ago_s: float = 0.0

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        return [
            PartitionState(
                topic=topic,
                topic_id="id",
                partition=0,
                leader=self.leaders[topic],
                leader_epoch=self.epoch,
                isr=self.isr[topic],
                replicas=(2, 1, 3),
                elr=(),
            )
            for topic in topics
        ]

    def running(self, node: int) -> bool:
        return node not in self.down


def looked(
    monkeypatch: pytest.MonkeyPatch, cluster: Scripted, *changes: dict[str, object]
) -> tuple[StepContext, StateWatch]:
    """One look, and one more after each change."""
    monkeypatch.setattr(unacknowledged, "LOOK_EACH_S", 0.0)
    context = context_on(cluster)
    watched = StateWatch(context, PLACES)
    watched.look()
    for change in changes:
        for name, value in change.items():
            setattr(cluster, name, value)
        watched.look()
    return context, watched


def test_a_silent_partition_is_recorded_with_a_served_one_of_the_same_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    context, watched = looked(monkeypatch, Scripted(), {})
    assert watched.record_silent({PLACES[0]: 0, PLACES[1]: 500}, 500, 7)
    (event,) = events_of(context)
    assert event == {
        "kind": "no_acks",
        "at_ns": event["at_ns"],
        "topic": "two",
        "partition": 0,
        "since_ns": 7,
        "leader": 2,
        "isr": [1, 2],
        "beside": {"one/0": 500},
    }


@pytest.mark.parametrize(
    ("cluster", "acks"),
    [
        (Scripted(), (0, 499)),
        (Scripted(leaders={"two": 2, "one": 1}), (0, 500)),
        (Scripted(isr={"two": (1, 2), "one": (2,)}), (0, 500)),
    ],
    ids=["too few", "another leader", "others in sync"],
)
def test_only_partitions_with_the_same_leader_and_isr_are_compared(
    monkeypatch: pytest.MonkeyPatch, cluster: Scripted, acks: tuple[int, int]
) -> None:
    context, watched = looked(monkeypatch, cluster)
    reported = watched.record_silent(dict(zip(PLACES, acks, strict=True)), 500, 7)
    assert [event["beside"] for event in events_of(context)] == ([{}] if reported else [])
    assert reported == (acks[1] >= 500)


@pytest.mark.parametrize(
    ("cluster", "changes", "silent"),
    [
        (Scripted(), [], 1),
        (Scripted(), [{"epoch": 5}], 0),
        (Scripted(), [{"epoch": 5}, {"epoch": 5}], 0),
        (Scripted(), [{"isr": {"two": (2,), "one": (2,)}}], 0),
        (Scripted(leaders={"two": -1, "one": 2}), [], 0),
        (Scripted(down=(1,)), [], 0),
    ],
    ids=["one ack", "another epoch", "another epoch for long", "another ISR", "no leader", "in sync and down"],
)
def test_a_wait_that_times_out_for_another_reason_fails(
    monkeypatch: pytest.MonkeyPatch, cluster: Scripted, changes: list[dict[str, object]], silent: int
) -> None:
    context, watched = looked(monkeypatch, cluster, *changes)
    assert not watched.record_silent({PLACES[0]: silent, PLACES[1]: 500}, 500, 7)
    assert context.events == []
