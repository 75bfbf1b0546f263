"""Topics that were deleted, and created again under the same name."""

from __future__ import annotations

from harness.audit.rules.topic_deleted import TopicDeleted
from harness.audit.rules.topic_recreated import TopicRecreated
from harness.model.severity import Severity
from suites.unit.audit.rules.scene import S, Scene, at, offsets, ranges
from suites.unit.model.history.logs import TOPIC, TOPIC_ID, config, partition, removed, snapshot, time_ns, topic


def test_a_deleted_topic_names_its_records_and_the_time_left() -> None:
    scene = Scene(TopicDeleted())
    scene.records(partition(number=1))
    scene.look(at(offsets(5, 100)))
    found = scene.records(removed())
    assert ranges(found) == [(TOPIC, 0, 5, 100), (TOPIC, 1, None, None)]
    alarm = found[0]
    assert (alarm.topic_id, alarm.metadata_offset, scene.rule.severity) == (TOPIC_ID, 3, Severity.DANGER)
    assert alarm.deleted_at_ns == time_ns(3) + 60 * S
    assert alarm.what == (
        "Topic orders with id orders-id and 2 partitions was deleted. Brokers remove its files after 1 min."
    )
    assert len({of.cause for of in found}) == 1


def test_the_brokers_delay_counts() -> None:
    scene = Scene(TopicDeleted())
    scene.records(config("log.segment.delete.delay.ms", "5000", name="", kind=4))
    (alarm,) = scene.records(removed())
    assert alarm.deleted_at_ns == time_ns(3) + 5 * S


def test_a_topic_that_was_created_is_not_deleted() -> None:
    assert Scene(TopicDeleted()).records(topic("other", "other-id")) == []


def test_a_snapshot_without_the_topic_shows_its_deletion() -> None:
    scene = Scene(TopicDeleted())
    (alarm,) = scene.load(snapshot(9, topic("other", "other-id")))
    assert (alarm.topic, alarm.deleted_at_ns) == (TOPIC, None)
    assert scene.load(snapshot(12, topic("other", "other-id"))) == []


def test_a_topic_of_the_same_name_has_another_id() -> None:
    scene = Scene(TopicRecreated())
    assert scene.records(removed()) == []
    (alarm,) = scene.records(topic(TOPIC, "new-id"))
    assert (alarm.topic_id, alarm.metadata_offset, scene.rule.severity) == ("new-id", 3, Severity.NOTICE)
    assert alarm.what == "Topic orders was created again with id new-id; the deleted one had id orders-id."
    assert not scene.over(alarm)
    scene.records(removed("new-id"))
    assert scene.over(alarm)


def test_new_names_and_known_topics_are_no_recreation() -> None:
    scene = Scene(TopicRecreated())
    scene.records(removed())
    assert scene.records(topic("other", "other-id")) == []
    scene = Scene(TopicRecreated())
    assert scene.load(snapshot(9, topic(), partition())) == []


def test_a_snapshot_with_another_id_shows_a_recreation() -> None:
    scene = Scene(TopicRecreated())
    (alarm,) = scene.load(snapshot(9, topic(TOPIC, "new-id")))
    assert (alarm.topic_id, alarm.topic) == ("new-id", TOPIC)
    assert "the deleted one had id orders-id" in alarm.what


def test_many_partitions_are_counted_and_not_named() -> None:
    scene = Scene(TopicDeleted())
    scene.records(*(partition(number=number) for number in range(1, 250)))
    found = scene.records(removed())
    assert len(found) == 100
    assert [alarm.others for alarm in found[:2]] == [150, 0]


def test_alarms_about_topics_end_after_a_time() -> None:
    scene = Scene(TopicDeleted({"keep_s": 60}))
    scene.view.clock_ns = 2 * S
    (alarm,) = scene.records(removed())
    assert not scene.over(alarm)
    scene.wait(60)
    assert scene.over(alarm)
    scene.rule = TopicRecreated({"keep_s": 120})
    scene.records(topic(TOPIC, "other-id"), removed("other-id"))
    (alarm,) = scene.records(topic(TOPIC, "new-id"))
    assert not scene.over(alarm)
    scene.wait(60)
    assert scene.over(alarm)
