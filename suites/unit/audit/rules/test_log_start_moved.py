"""A log start offset that moves: what explains it, what disproves the explanation, and what broker logs add."""

from __future__ import annotations

import pytest

from harness.audit.look import LogStartReason, PartitionLook
from harness.audit.rules.log_start_moved import LogStartMoved
from harness.audit.store.partitions import Offsets
from harness.model.severity import Severity
from suites.unit.audit.rules.scene import DEFAULTS, START_NS, S, Scene, at, offsets, ranges
from suites.unit.model.history.logs import TOPIC, change, config, partition, snapshot, topic

KEEPS = {"retention.ms": "-1"}
MOVED = offsets(40, 100)


def scene_with(settings: dict[str, str], *, logs: bool = False) -> Scene:
    """A topic of long ago with these settings, looked at once."""
    scene = Scene(LogStartMoved(), made=False, without=() if logs else ("logs",))
    scene.records(topic(), *(config(key, value) for key, value in settings.items()), partition())
    scene.wait(30 * 86_400)
    scene.look(offsets(0, 100))
    return scene


def logged(scene: Scene, reason: str, breach: str = "", start: int = 40) -> None:
    line = LogStartReason(
        topic=TOPIC,
        partition=0,
        broker=1,
        at_ns=START_NS,
        log_start=start,
        reason=reason,
        breach=breach,
    )
    assert scene.rule.on_log_start(line, scene.view) == ()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (KEEPS, "retention.ms=-1, retention.bytes=-1"),
        ({"cleanup.policy": "compact"}, "cleanup.policy does not delete"),
    ],
)
def test_a_topic_without_limits_deletes_nothing_by_itself(settings: dict[str, str], why: str) -> None:
    scene = scene_with(settings)
    (alarm,) = scene.confirm(scene.look(MOVED), MOVED)
    assert ranges([alarm]) == [(TOPIC, 0, 0, 40)]
    # Without broker logs it may have been DeleteRecords.
    assert alarm.severity is Severity.DANGER
    assert f"moved from 0 to 40, and retention does not explain it ({why}): 40 records, offsets 0 to 39" in alarm.what
    assert alarm.what.endswith("It may have been DeleteRecords, which only broker logs show.")
    assert alarm.cause == TOPIC


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"retention.ms": "3600000"},
        {"retention.ms": "0"},
        {"retention.ms": "-1", "retention.bytes": "1000"},
        {"retention.ms": "-1", "retention.bytes": "0"},
    ],
)
def test_a_limit_that_may_have_been_reached_explains_it(settings: dict[str, str]) -> None:
    assert scene_with(settings).look(MOVED) == []


@pytest.mark.parametrize(
    "after", [at(offsets(0, 100)), at(Offsets(leader_epoch=0)), at(Offsets(), error="NOT_LEADER_OR_FOLLOWER")]
)
def test_a_log_start_that_did_not_move(after: PartitionLook) -> None:
    assert scene_with(KEEPS).look(after) == []


def test_a_second_look_with_the_records_dismisses_it() -> None:
    scene = scene_with(KEEPS)
    assert scene.confirm(scene.look(MOVED), offsets(0, 100, epoch=1)) == []


# Reasons in the logs of brokers


def test_delete_records_is_no_alarm_where_the_broker_logged_it() -> None:
    scene = scene_with(KEEPS, logs=True)
    found = scene.look(MOVED)
    logged(scene, "client delete records request")
    assert scene.confirm(found, MOVED) == []


def test_the_reason_may_be_in_the_log_of_a_follower_too() -> None:
    """Followers follow the leader, which says nothing about the reason."""
    scene = scene_with(KEEPS, logs=True)
    logged(scene, "leader offset increment")
    (alarm,) = scene.confirm(scene.look(MOVED), MOVED)
    assert alarm.severity is None


def test_a_deletion_of_segments_that_no_limit_permits_is_a_loss_with_kafkas_reason() -> None:
    scene = scene_with(KEEPS, logs=True)
    logged(scene, "segment deletion", "retention time 1000ms breach")
    (alarm,) = scene.confirm(scene.look(MOVED), MOVED)
    assert (alarm.severity, scene.rule.severity) == (None, Severity.LOSS)
    assert alarm.what.endswith("Broker 1 logged: segment deletion retention time 1000ms breach.")


def test_the_reason_may_come_after_the_look() -> None:
    scene = scene_with(KEEPS, logs=True)
    (suspicion,) = scene.look(MOVED)
    answer = scene.rule.confirmed(suspicion, scene.timed(MOVED), scene.view)
    assert answer is not None
    assert answer.again
    logged(scene, "client delete records request")
    assert scene.confirm([suspicion], MOVED) == []


def test_without_a_reason_in_any_log_it_is_a_loss() -> None:
    scene = scene_with(KEEPS, logs=True)
    logged(scene, "client delete records request", start=20)  # an earlier move does not explain all of it
    scene.look(offsets(20, 100))
    (alarm,) = scene.confirm(scene.look(MOVED), MOVED)
    assert alarm.severity is None
    assert alarm.what.endswith("No broker logged a reason for that.")


def test_delete_records_may_explain_a_part() -> None:
    """Between two looks a client deleted records below 20, and then the broker those below 40."""
    scene = scene_with(KEEPS, logs=True)
    found = scene.look(MOVED)
    logged(scene, "client delete records request", start=20)
    assert ranges(scene.confirm(found, MOVED)) == [(TOPIC, 0, 20, 40)]


def test_kafka_found_old_timestamps_in_a_young_topic() -> None:
    scene = young()
    scene.view.covered.add("logs")
    found = scene.look(MOVED)
    logged(scene, "segment deletion", "retention time 604800000ms breach")
    assert scene.confirm(found, MOVED) == []
    scene = young(message_timestamp_type="LogAppendTime")
    scene.view.covered.add("logs")
    found = scene.look(MOVED)
    logged(scene, "segment deletion", "retention time 604800000ms breach")
    assert len(scene.confirm(found, MOVED)) == 1


# Evidence against a limit


def test_records_that_were_too_young_to_be_deleted() -> None:
    scene = scene_with({"retention.ms": "3600000"})
    found = scene.look(at(MOVED, young_from=30, young_ms=3_600_000))
    assert ranges(found) == [(TOPIC, 0, 30, 40)]
    assert "records from offset 30 on are younger than 1 hour" in found[0].what
    scene = scene_with({"retention.ms": "3600000"})
    assert scene.look(at(MOVED, young_from=40, young_ms=3_600_000)) == []
    scene = scene_with({"retention.ms": "3600000"})
    found = scene.look(at(MOVED, young_from=0, young_ms=3_600_000))
    assert ranges(scene.confirm(found, MOVED)) == [(TOPIC, 0, 0, 40)]


def test_records_that_were_too_young_for_a_longer_retention_say_nothing_about_a_shorter_one() -> None:
    """The leader was asked for them before the auditor read that the retention was lowered."""
    scene = scene_with({"retention.ms": "604800000"})
    scene.records(config("retention.ms", "3600000"))
    assert scene.look(at(MOVED, young_from=0, young_ms=604_800_000)) == []


def test_a_log_that_is_smaller_than_the_limit_by_size() -> None:
    """KAFKA-17062 counts copies that failed, and deletes too much."""
    by_size = {"retention.ms": "-1", "retention.bytes": "1000"}
    scene = scene_with(by_size)
    (alarm,) = scene.look(at(MOVED, size_bytes=900))
    assert "the log has less than retention.bytes=1000" in alarm.what
    assert scene_with(by_size).look(at(MOVED, size_bytes=1000)) == []
    both = by_size | {"cleanup.policy": "compact,delete"}  # compaction makes a log smaller, too
    assert scene_with(both).look(at(MOVED, size_bytes=900)) == []


def test_a_tiered_log_has_its_bytes_in_the_tier_too() -> None:
    tiered = {"retention.ms": "-1", "retention.bytes": "1000", "remote.storage.enable": "true"}
    scene = scene_with(tiered)
    scene.segment("COPY_SEGMENT_STARTED", first=40, last=80, size=600)
    scene.segment("COPY_SEGMENT_FINISHED")
    assert scene.look(at(MOVED, size_bytes=400)) == []
    scene = scene_with(tiered)
    scene.segment("COPY_SEGMENT_STARTED", first=40, last=80, size=600)  # it failed
    assert len(scene.look(at(MOVED, size_bytes=400))) == 1
    scene = scene_with(tiered)
    scene.view.covered.discard("tier")
    assert scene.look(at(MOVED, size_bytes=400)) == []


def young(**settings: str) -> Scene:
    scene = Scene(LogStartMoved(), made=False)
    scene.view.clock_ns = 2 * S  # the records of the metadata log are of this time
    scene.records(topic(), *(config(key.replace("_", "."), value) for key, value in settings.items()), partition())
    scene.look(offsets(0, 100))
    return scene


def test_a_topic_that_is_younger_than_its_retention() -> None:
    scene = young(message_timestamp_type="LogAppendTime")
    (alarm,) = scene.look(MOVED)
    assert alarm.severity is None
    assert "the topic is younger than retention.ms=604800000" in alarm.what
    # Producers may have set old timestamps, with which brokers delete records at once.
    (alarm,) = young().look(MOVED)
    assert alarm.severity is Severity.NOTICE
    assert young(retention_ms="1000").look(MOVED) == []
    assert young().look(at(MOVED, young_from=40)) == []  # an earlier look saw their timestamps


# Settings that changed


@pytest.mark.parametrize("key", ["retention.ms", "retention.bytes"])
def test_brokers_delete_by_a_setting_before_the_auditor_reads_of_it(key: str) -> None:
    scene = scene_with({"retention.ms": "604800000", "retention.bytes": "-1"})
    found = scene.look(at(MOVED, young_from=0, young_ms=604_800_000, size_bytes=5000))
    assert ranges(found) == [(TOPIC, 0, 0, 40)]
    scene.records(config(key, "1000"))
    assert scene.confirm(found, MOVED) == []


def test_a_setting_that_deletes_no_more_than_before_explains_nothing() -> None:
    scene = scene_with({"retention.ms": "604800000"})
    found = scene.look(at(MOVED, young_from=0, young_ms=604_800_000))
    scene.records(config("retention.ms", "704800000"))
    assert len(scene.confirm(found, MOVED)) == 1


def test_a_setting_that_held_until_lately_explains_it() -> None:
    """Brokers delete by the old setting, and the look comes after the change."""
    scene = scene_with({"retention.ms": "100"})
    scene.view.clock_ns = 2 * S
    scene.records(config("retention.ms", "-1"))
    assert scene.look(MOVED) == []
    scene.wait(901)
    assert len(scene.look(offsets(60, 100))) == 1


def test_a_default_of_the_brokers_that_held_until_lately_explains_it() -> None:
    scene = scene_with({})
    scene.view.static = {**DEFAULTS, "log.retention.ms": "100"}
    scene.view.clock_ns = 2 * S
    scene.records(config("log.retention.ms", "-1", name="", kind=4))
    assert scene.look(MOVED) == []
    scene.wait(901)
    assert len(scene.look(offsets(60, 100))) == 1


def test_settings_of_a_new_topic_replace_none() -> None:
    scene = Scene(LogStartMoved(), made=False)
    scene.view.clock_ns = 2 * S
    scene.records(topic(), config("retention.ms", "-1"), partition())
    scene.look(offsets(0, 100))
    assert len(scene.look(MOVED)) == 1


@pytest.mark.parametrize("name", ["log.retention.minutes", "log.retention.hours"])
def test_brokers_may_keep_records_without_a_limit(name: str) -> None:
    scene = scene_with({})
    scene.view.static = {key: value for key, value in DEFAULTS.items() if key != "log.retention.hours"} | {name: "-1"}
    assert len(scene.look(MOVED)) == 1


def test_settings_that_are_not_known_explain_everything() -> None:
    scene = scene_with({"retention.ms": "-1"})
    scene.view.static = {}
    assert scene.look(MOVED) == []


def test_kafka_streams_purges_its_repartition_topics() -> None:
    name = "app-count-repartition"
    scene = Scene(LogStartMoved(), made=False)
    scene.records(topic(name), config("retention.ms", "-1", name=name), partition())
    look = at(offsets(0, 100))
    named = PartitionLook(topic=name, topic_id=look.topic_id, partition=0, asked_ns=0, answered_ns=0, offsets=MOVED)
    scene.look(look)
    assert scene.look(named) == []


def test_a_snapshot_brings_no_older_settings() -> None:
    """Otherwise the defaults would explain everything for a while."""
    scene = Scene(LogStartMoved(), made=False)
    scene.view.clock_ns = 2 * S
    scene.load(snapshot(5, topic(), partition(), config("retention.ms", "-1")))
    scene.look(offsets(0, 100))
    assert len(scene.look(MOVED)) == 1


def test_the_age_of_a_topic_in_a_snapshot_is_not_known() -> None:
    scene = Scene(LogStartMoved(), made=False)
    scene.view.clock_ns = 2 * S
    scene.load(snapshot(5, topic(), partition()))
    scene.look(offsets(0, 100))
    assert scene.look(MOVED) == []


def test_a_change_that_a_snapshot_shows_is_remembered() -> None:
    scene = Scene(LogStartMoved(), made=False)
    scene.view.clock_ns = 2 * S
    scene.load(snapshot(5, topic(), partition(), config("retention.ms", "100")))
    scene.load(snapshot(7, topic(), partition(), config("retention.ms", "-1")))
    scene.look(offsets(0, 100))
    assert scene.look(MOVED) == []


def test_the_next_leader_may_delete_too() -> None:
    scene = scene_with(KEEPS)
    scene.records(change(Leader=2))
    assert ranges(scene.look(offsets(40, 100, epoch=1))) == [(TOPIC, 0, 0, 40)]
