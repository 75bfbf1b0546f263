"""The questions that a history answers."""

from __future__ import annotations

import pytest

from harness.model.history.changes import NO_LEADER, Problem, ProblemKind, ResourceKind, UnknownChange
from harness.model.history.fold import fold
from harness.model.history.history import History
from harness.model.history.log import LogBatch, Record
from suites.unit.model.history.logs import (
    TOPIC,
    TOPIC_ID,
    batches,
    broker,
    change,
    config,
    node,
    noop,
    partition,
    record,
    registration,
    removed,
    time_ns,
    topic,
)

EVER = 1 << 62
RETENTION = "log.retention.ms"
OF_CLUSTER = config(RETENTION, "4", name="", kind=4)
OF_BROKER = config(RETENTION, "3", name="1", kind=4)


def told(*records: Record) -> History:
    return fold([node(1, batches(*records))], [1])


def at_times(*timed: tuple[int, Record]) -> History:
    """The history of records with these times in milliseconds."""
    kept = []
    for offset, (time_ms, given) in enumerate(timed):
        placed = Record(offset, 1, time_ms, given.kind, 0, given.fields)
        kept.append(LogBatch(offset, offset, 1, 0, (placed,)))
    return fold([node(1, kept)], [1])


def test_the_state_of_a_partition_at_a_time() -> None:
    history = told(topic(), partition(), change(Isr=(1, 2)), noop(), removed())
    seen = [history.partition_at(TOPIC_ID, 0, time_ns(offset)) for offset in range(5)]
    assert [state and state.isr for state in seen] == [None, (1, 2, 3), (1, 2), (1, 2), None]
    assert history.partition_at(TOPIC_ID, 7, EVER) is None
    assert history.partition_at("other", 0, EVER) is None


def test_the_order_of_the_log_counts_where_times_go_back() -> None:
    """The second controller's clock is 50 ms behind. At 1,060 ms its change has happened, as it is last in the log."""
    history = at_times((1000, topic()), (1000, partition()), (1100, change(Isr=(1, 2))), (1050, change(Isr=(1,))))
    for time_ms, isr in ((1000, (1, 2, 3)), (1049, (1, 2, 3)), (1050, (1,)), (1060, (1,)), (1200, (1,))):
        state = history.partition_at(TOPIC_ID, 0, time_ms * 1_000_000)
        assert state is not None
        assert state.isr == isr


def test_leaders_by_epoch() -> None:
    history = told(topic(), partition(), change(Leader=NO_LEADER), change(Isr=(2,), Leader=2), change(Isr=(1, 2)))
    assert [history.leader_of(TOPIC_ID, 0, epoch) for epoch in range(4)] == [1, NO_LEADER, 2, None]
    assert [state.isr for state in history.partition_in_epoch(TOPIC_ID, 0, 2)] == [(2,), (1, 2)]


def test_elections_of_one_partition_and_of_all_are_in_the_order_of_the_log() -> None:
    history = told(topic(), partition(), partition(number=1), change(1, Leader=2), change(0, Leader=3))
    assert [(e.after.partition, e.after.leader) for e in history.elections()] == [(1, 2), (0, 3)]
    assert [e.after.leader for e in history.elections(TOPIC_ID, 0)] == [3]
    assert not any(election.unclean for election in history.elections())
    assert history.elections("other") == ()


def test_a_topic_that_is_created_again_is_another_one() -> None:
    history = told(topic(), config("retention.ms", "7"), removed(), noop(), topic(topic_id="second"))
    lives = [history.topic_at(TOPIC, time_ns(offset)) for offset in range(5)]
    assert [life and life.topic_id for life in lives] == [TOPIC_ID, TOPIC_ID, None, None, "second"]
    assert [life.topic_id for life in history.topics] == [TOPIC_ID, "second"]
    assert history.config_at(ResourceKind.TOPIC, TOPIC, EVER) == {}


def test_the_registration_of_a_broker_at_a_time() -> None:
    history = told(broker(1, 10), registration(1, 10, Fenced=-1), broker(1, 12))
    seen = [history.broker_at(1, time_ns(offset)) for offset in range(-1, 3)]
    assert [state and (state.broker_epoch, state.fenced) for state in seen] == [
        None,
        (10, True),
        (10, False),
        (12, True),
    ]
    assert history.broker_at(2, EVER) is None


def test_feature_levels_at_a_time() -> None:
    levels = [record("FeatureLevel", Name="group.version", FeatureLevel=level) for level in (1, 0)]
    history = told(*levels)
    assert [history.features_at(time_ns(offset)) for offset in range(-1, 2)] == [{}, {"group.version": 1}, {}]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((), "5"),
        ((OF_CLUSTER,), "4"),
        ((OF_CLUSTER, OF_BROKER), "3"),
        ((OF_BROKER, config("retention.ms", "2")), "2"),
        ((config("retention.ms", "2"), config("retention.ms", None)), "5"),
        ((config(RETENTION, "3", name="2", kind=4),), "5"),
    ],
)
def test_the_nearest_setting_counts(records: tuple[Record, ...], expected: str) -> None:
    history = told(topic(), *records)
    static = {RETENTION: "5"}
    assert history.topic_setting(TOPIC, "retention.ms", EVER, broker=1, static=static) == expected


def test_a_setting_that_nothing_sets_has_kafkas_default() -> None:
    assert told(topic()).topic_setting(TOPIC, "retention.ms", EVER, broker=1) is None


@pytest.mark.parametrize(
    ("key", "of_broker"),
    [
        ("min.insync.replicas", "min.insync.replicas"),
        ("max.message.bytes", "message.max.bytes"),
        ("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
        ("cleanup.policy", "log.cleanup.policy"),
    ],
)
def test_brokers_have_other_names_for_some_settings(key: str, of_broker: str) -> None:
    assert told(topic()).topic_setting(TOPIC, key, EVER, broker=1, static={of_broker: "x"}) == "x"


@pytest.mark.parametrize(
    ("kind", "high_watermark", "whole"),
    [
        (ProblemKind.TORN_END, 9, True),
        (ProblemKind.BAD_SNAPSHOT, 9, True),
        (ProblemKind.MISSING_VOTER, 8, True),
        (ProblemKind.TORN_END, None, False),
        (ProblemKind.TORN_END, 10, False),
        (ProblemKind.MISSING_RECORDS, 9, False),
        (ProblemKind.CONFLICT, 9, False),
        (ProblemKind.IMPOSSIBLE, 9, False),
    ],
)
def test_a_damaged_file_of_one_node_hides_nothing_below_the_high_watermark(
    kind: ProblemKind, high_watermark: int | None, whole: bool
) -> None:
    problem = Problem(kind=kind, node=1, offset=3, detail="")
    history = History(nodes=[1], voters=[1], start=0, end=9, high_watermark=high_watermark, problems=[problem])
    assert (history.gaps, history.whole) == ((() if whole else (problem,)), whole)


def test_a_history_with_an_unknown_record_is_not_whole() -> None:
    lost = UnknownChange(time_ns=1, offset=0, controller_epoch=1, frame=1, key=99, version=0, why="no such message")
    assert not History(nodes=[1], voters=[1], start=0, end=1, high_watermark=1, changes=[lost]).whole
    assert History(nodes=[1], voters=[1], start=0, end=1, high_watermark=1).whole
