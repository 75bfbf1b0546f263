"""The existing cluster: whole before a scenario, and clean after it, whichever way it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness import scenarios
from harness.clusters import Cluster
from harness.model.errors import BadInput, HarnessFailure, HarnessTimeout
from harness.model.scenario.scenario import Scenario
from harness.run import attached_pool, broker_state
from harness.run.attached_pool import AttachedPool
from harness.run.progress import Progress

CALM = scenarios.load("calm")
OTHER = replace(CALM, name="other")
PREFIXES = {"calm": "own-1-", "other": "own-2-"}
THEIRS = ["orders", "own-", "own-1", "__consumer_offsets"]


class Kafka:
    """What is in the cluster, and what was done to it."""

    def __init__(self) -> None:
        self.topics = list(THEIRS)
        self.groups = ["theirs"]
        self.whole = SimpleNamespace(ok=True, last_seen="")
        self.events: list[str] = []
        self.stop_fails: BaseException | None = None

    def connect(self, scenario: Scenario) -> Cluster:
        assert scenario.name in PREFIXES
        self.events.append("connected")
        return cast(Cluster, SimpleNamespace(stop=self.stop, brokers=(1, 2, 3)))

    def stop(self) -> None:
        if failure := self.stop_fails:
            self.stop_fails = None
            raise failure
        self.events.append("hooks undone")

    # --- as an admin view ---

    def topic_names(self) -> list[str]:
        return self.topics

    def group_names(self) -> list[str]:
        return self.groups

    def brokers_up(self) -> tuple[int, ...]:
        return (1, 2, 3)

    def delete_topics(self, names: Sequence[str], deadline_s: float) -> None:
        assert deadline_s > 0
        self.events.append(f"deleted {' '.join(names)}")
        self.topics = [name for name in self.topics if name not in names]

    def delete_group(self, name: str, deadline_s: float) -> None:
        assert deadline_s > 0
        self.events.append(f"deleted group {name}")
        self.groups.remove(name)


class Lines(list[str]):
    def __call__(self, text: str) -> None: ...

    def line(self, text: str) -> None:
        self.append(text)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    found = Kafka()

    @contextmanager
    def observer(_: Cluster) -> Iterator[Any]:
        yield found

    monkeypatch.setattr(broker_state, "observer", observer)
    monkeypatch.setattr(attached_pool, "isr_full", lambda *_, **__: found.whole)
    monkeypatch.setattr(attached_pool, "_end_clients", lambda: None)
    return found


def pool(kafka: Kafka, said: Lines | None = None) -> AttachedPool:
    return AttachedPool(kafka.connect, PREFIXES, cast(Progress, Lines() if said is None else said))


def test_names_of_the_run_are_deleted_and_no_others(kafka: Kafka) -> None:
    with pool(kafka) as one:
        one.take(CALM, "attached")
        kafka.topics += ["own-1-plain", "own-2-plain"]
        kafka.groups += ["own-1-readers"]
        one.give_back(CALM, healthy=True)
    assert kafka.events == ["connected", "hooks undone", "deleted own-1-plain", "deleted group own-1-readers"]
    assert kafka.topics == [*THEIRS, "own-2-plain"]
    assert kafka.groups == ["theirs"]


@pytest.mark.parametrize("kind", ["topics", "groups"])
def test_a_run_whose_names_exist_is_refused_and_deletes_nothing(kafka: Kafka, kind: str) -> None:
    getattr(kafka, kind).append("own-1-readers")
    with pool(kafka) as one, pytest.raises(BadInput, match=r"the cluster has own-1-readers already.*another --seed"):
        one.take(CALM, "attached")
    assert not [event for event in kafka.events if event.startswith("deleted")]


def test_names_of_another_scenario_are_no_hindrance(kafka: Kafka) -> None:
    kafka.topics.append("own-2-plain")
    with pool(kafka) as one:
        one.take(CALM, "attached")
    assert "own-2-plain" in kafka.topics


def test_a_cluster_that_is_not_whole_is_not_used(kafka: Kafka) -> None:
    kafka.whole = SimpleNamespace(ok=False, last_seen="the ISR of orders/0 is [1]")
    with pool(kafka) as one, pytest.raises(HarnessTimeout, match="not healthy before the run: the ISR of orders/0"):
        one.take(CALM, "attached")


def test_a_scenario_that_is_left_by_an_exception_is_cleaned_up(kafka: Kafka) -> None:
    one = pool(kafka)
    one.take(CALM, "attached")
    kafka.topics.append("own-1-plain")
    with pytest.raises(KeyboardInterrupt), one:
        raise KeyboardInterrupt
    assert kafka.events[-2:] == ["hooks undone", "deleted own-1-plain"]


def test_the_next_scenario_finds_a_clean_cluster(kafka: Kafka) -> None:
    with pool(kafka) as one:
        one.take(CALM, "attached")
        kafka.topics.append("own-1-plain")
        one.take(OTHER, "attached")
        assert "own-1-plain" not in kafka.topics


def test_hooks_that_are_not_undone_stop_the_next_scenario_and_topics_are_deleted_all_the_same(kafka: Kafka) -> None:
    with pool(kafka) as one:
        one.take(CALM, "attached")
        kafka.topics.append("own-1-plain")
        kafka.stop_fails = HarnessFailure("hooks are NOT undone: node 2")
        with pytest.raises(HarnessFailure, match="hooks are NOT undone: node 2"):
            one.give_back(CALM, healthy=True)
    assert kafka.events[-1] == "deleted own-1-plain"


def test_on_the_way_out_what_is_not_undone_is_said_and_evidence_is_still_judged(kafka: Kafka) -> None:
    said = Lines()
    with pool(kafka, said) as one:
        one.take(CALM, "attached")
        kafka.stop_fails = HarnessFailure("hooks are NOT undone: node 2")
    assert said == ["NOT clean: hooks are NOT undone: node 2"]


def test_a_signal_while_hooks_are_undone_leaves_the_rest_to_the_way_out(kafka: Kafka) -> None:
    one = pool(kafka)
    one.take(CALM, "attached")
    kafka.topics.append("own-1-plain")
    kafka.stop_fails = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), one:
        one.give_back(CALM, healthy=True)
    assert kafka.events[-2:] == ["hooks undone", "deleted own-1-plain"]
