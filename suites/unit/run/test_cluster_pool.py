"""Scenarios of one shape share a cluster; a doubtful one is stopped, and one that does not stop is not used again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import clusters, scenarios
from harness.clusters import Releases
from harness.kafka.release.release import Release
from harness.model.errors import HarnessFailure
from harness.model.scenario.scenario import ClusterShape
from harness.run import cluster_pool
from harness.run.cluster_pool import ClusterPool

CALM = scenarios.load("calm")
WIDE = replace(CALM, name="wide", shape=ClusterShape(brokers=5))
FRESH = replace(CALM, name="fresh", fresh=True)


class FakeCluster:
    def __init__(self, shape: ClusterShape, backend: str, events: list[str]) -> None:
        self.shape = shape
        self._name = f"{backend} of {shape.brokers}"
        self._events = events
        events.append(f"started {self._name}")

    def stop(self) -> None:
        self._events.append(f"stopped {self._name}")

    def close(self) -> None:
        self._events.append(f"closed {self._name}")

    def describe_kept(self) -> str:
        return "reach it at h:1"


class Lines(list[str]):
    def __call__(self, text: str) -> None: ...

    def line(self, text: str) -> None:
        self.append(text)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def make(release: Release, shape: ClusterShape, *, backend: str, **_: Any) -> FakeCluster:
        return FakeCluster(shape, backend, found)

    monkeypatch.setattr(clusters, "make", make)
    monkeypatch.setattr(cluster_pool, "clear", lambda cluster, scenario: found.append(f"cleared {scenario.name}"))
    return found


def pool(said: Lines | None = None, **options: Any) -> ClusterPool:
    return ClusterPool(Releases(Release("4.3.1", "a", "here", ())), Lines() if said is None else said, **options)


def test_scenarios_of_one_shape_share_a_cluster_that_is_cleared_between_them(events: list[str]) -> None:
    with pool() as shared:
        for _ in range(2):
            shared.take(CALM, "processes")
            shared.give_back(CALM, healthy=True)
    assert events == ["started processes of 3", "cleared calm", "cleared calm", "closed processes of 3"]


@pytest.mark.parametrize(
    ("other", "backend", "started"),
    [
        (WIDE, "processes", "started processes of 5"),
        (CALM, "containers", "started containers of 3"),
        (FRESH, "processes", "started processes of 3"),
    ],
    ids=["shape", "backend", "fresh"],
)
def test_another_shape_or_backend_or_a_fresh_one_takes_a_new_cluster(
    events: list[str], other: Any, backend: str, started: str
) -> None:
    with pool() as shared:
        shared.take(CALM, "processes")
        shared.give_back(CALM, healthy=True)
        shared.take(other, backend)
    assert events[2:4] == ["stopped processes of 3", started]


def test_a_doubtful_cluster_is_stopped_at_once(events: list[str]) -> None:
    with pool() as shared:
        shared.take(CALM, "processes")
        shared.give_back(CALM, healthy=False)
        assert events[-1] == "stopped processes of 3"


def test_a_kept_cluster_is_described_and_not_cleared(events: list[str]) -> None:
    said = Lines()
    with pool(said, keep=True) as shared:
        shared.take(CALM, "processes")
        shared.give_back(CALM, healthy=True)
    assert said == ["reach it at h:1"]
    assert events == ["started processes of 3", "closed processes of 3"]


def _stuck(self: FakeCluster) -> None:
    raise HarnessFailure("broker 2 does not end")


def test_a_cluster_that_cannot_be_stopped_is_not_used_again(events: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pool() as shared:
        shared.take(CALM, "processes")
        with monkeypatch.context() as patched:
            patched.setattr(FakeCluster, "stop", _stuck)
            with pytest.raises(HarnessFailure):
                shared.retire()
        shared.take(CALM, "processes")
    assert events.count("started processes of 3") == 2


def test_a_last_cluster_that_cannot_be_stopped_is_reported_and_the_evidence_is_still_judged(
    events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeCluster, "close", _stuck)
    said = Lines()
    with pool(said) as shared:
        shared.take(CALM, "processes")
    assert said == ["the last cluster could not be stopped: broker 2 does not end; remove it by: durability clean"]


def test_a_signal_while_a_cluster_stops_leaves_it_to_the_way_out(
    events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: FakeCluster) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeCluster, "stop", interrupted)
    shared = pool()
    shared.take(CALM, "processes")
    with pytest.raises(KeyboardInterrupt), shared:
        shared.retire()
    assert events[-1] == "closed processes of 3"
