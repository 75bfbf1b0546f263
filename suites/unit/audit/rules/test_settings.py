"""Changes of settings by which records are deleted earlier or protected less."""

from __future__ import annotations

import pytest

from harness.audit.rules.setting_weakened import WATCHED, SettingWeakened
from harness.model.history.log import Record
from harness.model.severity import Severity
from suites.unit.audit.rules.scene import S, Scene, offsets, ranges
from suites.unit.model.history.logs import TOPIC, config, partition, removed, snapshot, time_ns, topic

ALL = ""
BROKER = 4


def default(key: str, value: str | None, broker: str = ALL) -> Record:
    return config(key, value, name=broker, kind=BROKER)


def scene_of(*records: Record) -> Scene:
    scene = Scene(SettingWeakened())
    scene.view.clock_ns = 2 * S
    scene.records(partition(number=1), *records)
    scene.look(offsets(5, 100))
    return scene


def test_a_lower_retention_names_the_old_value_and_the_records() -> None:
    scene = scene_of()
    found = scene.records(config("retention.ms", "1000"))
    assert ranges(found) == [(TOPIC, 0, 5, 100), (TOPIC, 1, None, None)]
    assert {alarm.cause for alarm in found} == {"retention.ms of orders, metadata offset 3"}
    alarm = found[0]
    assert (alarm.severity, alarm.metadata_offset) == (Severity.DANGER, 3)
    assert alarm.at_ns == alarm.deleted_at_ns == time_ns(3)
    assert not alarm.needs_look
    assert alarm.what == (
        "retention.ms of orders changed from 604800000 (7 days) to 1000 (1 s). Records older than that may be deleted "
        "from now on, at the next check of the brokers. They check every 5 min. Kafka does not record the user."
    )


@pytest.mark.parametrize(
    ("before", "after", "severity"),
    [
        (config("retention.bytes", "9"), config("retention.bytes", "8"), Severity.DANGER),
        (config("retention.ms", "-1"), config("retention.ms", "99999999999"), Severity.DANGER),
        (config("retention.ms", "-1"), config("retention.ms", None), Severity.DANGER),  # back to 7 days
        (config("cleanup.policy", "compact"), config("cleanup.policy", "compact,delete"), Severity.DANGER),
        (config("cleanup.policy", "delete"), config("cleanup.policy", "compact"), Severity.DANGER),
        (config("cleanup.policy", "compact"), config("cleanup.policy", None), Severity.DANGER),
        (config("min.insync.replicas", "2"), config("min.insync.replicas", "1"), Severity.DANGER),
        (config("min.insync.replicas", "2"), config("min.insync.replicas", None), Severity.DANGER),
        (config("a", "b"), config("unclean.leader.election.enable", "true"), Severity.DANGER),
        (config("remote.storage.enable", "true"), config("remote.storage.enable", "false"), Severity.DANGER),
        (config("a", "b"), config("local.retention.ms", "1000"), Severity.NOTICE),
        (config("a", "b"), config("local.retention.bytes", "1"), Severity.NOTICE),
        (config("a", "b"), config("segment.bytes", "1048576"), Severity.NOTICE),
        (config("a", "b"), config("segment.ms", "60000"), Severity.NOTICE),
        (config("min.compaction.lag.ms", "60000"), config("min.compaction.lag.ms", None), Severity.NOTICE),
    ],
)
def test_weaker_settings_of_a_topic(before: Record, after: Record, severity: Severity) -> None:
    scene = scene_of(before)
    found = scene.records(after)
    assert [(alarm.partition, alarm.severity) for alarm in found] == [(0, severity), (1, severity)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (config("retention.ms", "1000"), config("retention.ms", "2000")),
        (config("retention.ms", "1000"), config("retention.ms", "-1")),
        (config("retention.ms", "1000"), config("retention.ms", None)),
        (config("a", "b"), config("retention.ms", "604800000")),  # that of the brokers
        (config("a", "b"), config("retention.ms", "604800001")),
        (config("cleanup.policy", "compact,delete"), config("cleanup.policy", "compact")),
        (config("cleanup.policy", "compact,delete"), config("cleanup.policy", "delete,compact")),
        (config("a", "b"), config("min.insync.replicas", "2")),
        (config("unclean.leader.election.enable", "true"), config("unclean.leader.election.enable", None)),
        (config("a", "b"), config("unclean.leader.election.enable", "false")),
        (config("segment.bytes", "1048576"), config("segment.bytes", "2097152")),
        (config("a", "b"), config("max.message.bytes", "1")),
        (config("a", "b"), config("retention.ms", "1000", name="other")),
        (config("a", "b"), config("retention.ms", "1000", kind=32)),  # of a group
    ],
)
def test_settings_that_are_as_strict_as_before(before: Record, after: Record) -> None:
    scene = scene_of(before)
    assert scene.records(after) == []


def test_the_default_of_the_brokers_concerns_topics_without_a_value_of_their_own() -> None:
    scene = scene_of()
    scene.records(topic("kept", "kept-id"), config("retention.ms", "-1", name="kept"))
    scene.records(partition(TopicId="kept-id"))
    found = scene.records(default("log.retention.ms", "3600000"))
    assert [(alarm.topic, alarm.partition) for alarm in found] == [(TOPIC, 0), (TOPIC, 1)]
    assert {alarm.cause for alarm in found} == {"log.retention.ms of all brokers, metadata offset 6"}
    assert "log.retention.ms of all brokers changed from 604800000 (7 days) to 3600000 (1 hour)" in found[0].what
    assert scene.records(default("log.retention.ms", "7200000")) == []
    assert [alarm.cause for alarm in scene.records(default("min.insync.replicas", "1"))] == []


def test_the_setting_of_one_broker_concerns_its_replicas() -> None:
    scene = scene_of()
    scene.records(partition(number=2, Replicas=(2, 3), isr=(2, 3), leader=2))
    found = scene.records(default("log.retention.bytes", "1000", broker="1"))
    assert [(alarm.partition, alarm.cause) for alarm in found] == [
        (0, "log.retention.bytes of broker 1, metadata offset 4"),
        (1, "log.retention.bytes of broker 1, metadata offset 4"),
    ]


def test_the_settings_of_a_new_topic_are_no_change() -> None:
    scene = Scene(SettingWeakened(), made=False)
    assert scene.records(topic(), config("retention.ms", "1000"), partition()) == []


def test_the_settings_of_a_deleted_topic_are_no_change() -> None:
    scene = scene_of(config("retention.ms", "-1"))
    assert scene.records(removed()) == []
    assert scene.records(topic(TOPIC, "new-id"), config("retention.ms", "1000")) == []


def test_the_first_snapshot_is_no_change_and_a_later_one_is() -> None:
    base = (topic(), partition())
    scene = Scene(SettingWeakened(), made=False)
    assert scene.load(snapshot(5, *base, config("retention.ms", "1000"))) == []
    assert scene.load(snapshot(9, *base, config("retention.ms", "1000"))) == []
    (alarm,) = scene.load(snapshot(12, *base, config("retention.ms", "500")))
    assert "from 1000 (1 s) to 500" in alarm.what
    assert "It changed while the auditor did not follow the metadata log." in alarm.what


def test_a_snapshot_without_the_setting_shows_its_removal() -> None:
    scene = Scene(SettingWeakened(), made=False)
    scene.load(snapshot(5, topic(), partition(), config("retention.ms", "-1")))
    (alarm,) = scene.load(snapshot(9, topic(), partition()))
    assert "retention.ms of orders was removed, so it changed from -1 to 604800000 (7 days)" in alarm.what


def test_it_ends_when_the_setting_is_as_strict_as_it_was() -> None:
    scene = scene_of()
    (alarm, _) = scene.records(config("retention.ms", "1000"))
    scene.records(config("retention.ms", "2000"))
    assert not scene.over(alarm)
    scene.records(config("retention.ms", "-1"))
    assert scene.over(alarm)
    (alarm, _) = scene.records(default("min.insync.replicas", "2"), default("min.insync.replicas", None))
    assert not scene.over(alarm)
    scene.records(default("min.insync.replicas", "3"))
    assert scene.over(alarm)


def test_many_partitions_are_counted_and_not_named() -> None:
    scene = scene_of(*(partition(number=number) for number in range(2, 250)))
    found = scene.records(config("retention.ms", "1000"))
    assert len(found) == 100
    assert [alarm.others for alarm in found[:2]] == [150, 0]


def test_each_setting_has_a_remedy_of_its_own() -> None:
    """The interval of retention checks says nothing about min.insync.replicas."""
    scene = scene_of(config("min.insync.replicas", "2"))
    retention = scene.records(config("retention.ms", "1000"))[0].remedy
    in_sync = scene.records(config("min.insync.replicas", "1"))[0].remedy
    assert retention.startswith("If it was a mistake, set retention.ms=604800000 again. Do it before the brokers check")
    assert in_sync.startswith("If it was a mistake, set min.insync.replicas=2 again. Until then stop producers")
    assert "log.retention.check.interval.ms" not in in_sync
    deleting = {key for key, of in WATCHED.items() if of.deletes}
    assert {key for key, of in WATCHED.items() if "check retention" in of.remedy} == deleting
    assert all(of.remedy.endswith(".") for of in WATCHED.values())
