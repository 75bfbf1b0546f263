"""Topics with settings that cannot keep the promise of better ones."""

from __future__ import annotations

import pytest

from harness.audit.rules.weak_settings import WeakSettings
from harness.model.history.log import Record
from harness.model.severity import Severity
from suites.unit.audit.rules.scene import Scene, feature
from suites.unit.model.history.logs import TOPIC, change, config, partition, removed, snapshot, topic


def made(*records: Record) -> Scene:
    scene = Scene(WeakSettings(), made=False)
    scene.records(*records)
    return scene


@pytest.mark.parametrize(
    ("records", "fix"),
    [
        (
            [partition(Replicas=(1,), isr=(1,))],
            "without a replication factor of 3, min.insync.replicas=2",
        ),
        (
            [partition(isr=(1,), AddingReplicas=(2, 3))],  # a reassignment is under way
            "without a replication factor of 3, min.insync.replicas=2",
        ),
        (
            [partition()],
            "without eligible.leader.replicas.version=1 (from 4.0), min.insync.replicas=2",
        ),
        (
            [config("min.insync.replicas", "2"), partition(), config("unclean.leader.election.enable", "true")],
            "without eligible.leader.replicas.version=1 (from 4.0), unclean.leader.election.enable=false",
        ),
    ],
)
def test_settings_that_lose_what_others_keep(records: list[Record], fix: str) -> None:
    scene = made(topic(), *records)
    (alarm,) = scene.tick()
    assert (alarm.topic, alarm.severity, alarm.cause) == (TOPIC, None, fix)
    assert scene.rule.severity is Severity.NOTICE
    assert alarm.what.startswith(f"Topic {TOPIC} (")
    assert scene.tick() == []
    assert not scene.over(alarm)
    scene.records(removed())
    scene.tick()
    assert scene.over(alarm)


@pytest.mark.parametrize(
    "records",
    [
        [config("min.insync.replicas", "2"), partition()],
        [config("min.insync.replicas", "2", name="", kind=4), partition()],
        [config("min.insync.replicas", "3"), partition()],  # unavailable sooner, and nothing is lost
        [config("min.insync.replicas", "2"), config("retention.ms", "1000"), partition()],  # deleted as configured
    ],
)
def test_settings_that_keep_the_promise(records: list[Record]) -> None:
    assert made(topic(), *records).tick() == []


def test_a_change_of_settings_is_judged_again() -> None:
    scene = made(topic(), config("min.insync.replicas", "2"), partition())
    assert scene.tick() == []
    scene.records(config("min.insync.replicas", "1"))
    (alarm,) = scene.tick()
    scene.records(config("min.insync.replicas", "2", name="", kind=4), config("min.insync.replicas", None))
    assert scene.tick() == []
    assert scene.over(alarm)
    scene.records(config("min.insync.replicas", "1", name="", kind=4))
    assert len(scene.tick()) == 1


def test_a_feature_and_replicas_count_too() -> None:
    scene = made(topic(), partition())
    (alarm,) = scene.tick()
    scene.records(feature("eligible.leader.replicas.version", 1))
    (other,) = scene.tick()
    assert scene.over(alarm)
    assert other.cause == "without min.insync.replicas=2"
    scene.records(config("min.insync.replicas", "2"))
    assert scene.tick() == []
    scene.records(change(Replicas=(1,), Isr=(1,)))
    assert [found.cause for found in scene.tick()] == ["without a replication factor of 3"]


def test_nothing_is_judged_before_the_defaults_of_the_brokers_are_known() -> None:
    scene = made(topic(), partition())
    scene.view.static = {}
    assert scene.tick() == []
    scene.view.static = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    assert scene.tick() == []


def test_partitions_of_the_database_and_of_a_snapshot_are_judged() -> None:
    scene = made()
    scene.load(snapshot(5, topic(), partition()))
    assert len(scene.tick()) == 1
    scene.rule = WeakSettings()
    for state in scene.view.partitions():
        scene.rule.on_known(state, scene.view)
    assert len(scene.tick()) == 1
