"""Which answers of a coordinator are stored as evidence. The consumer is a fake; this does not test Kafka."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition

from harness.model.scenario.scenario import Reader
from harness.workload.consumers import consumer_group
from harness.workload.consumers.consumer_group import GroupReader
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.producers.recording_producer import Target
from suites.unit.model.scenario.test_toml import SMALL, refused

PLACE = ("t", 0)
CONTEXT = ReadContext(bootstrap="", targets={"t": Target(topic="t", topic_id="id", partitions=1)}, run=1)


class Table:
    """A table that discards its rows."""

    def append(self, columns: Any) -> None:
        return


class Coordinator:
    """Returns one fixed committed offset, and counts the requests."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.asked = 0

    def committed(self, wanted: list[TopicPartition], timeout_s: float) -> list[TopicPartition]:
        self.asked += 1
        return [TopicPartition(w.topic, w.partition, self.offset) for w in wanted]

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        return offsets

    def incremental_assign(self, starts: list[TopicPartition]) -> None:
        self.starts = [start.offset for start in starts]

    def assign(self, starts: list[TopicPartition]) -> None:
        self.all_anew = [start.offset for start in starts]


def reader_of(**spec: Any) -> GroupReader:
    table = cast(Any, Table())
    return GroupReader(Reader(name="r", topics=("t",), group="g", **spec), CONTEXT, table, table)


def joined(reader: GroupReader, coordinator: Coordinator) -> None:
    """Assigns the partition; the reader reads to offset 5, commits, reads to offset 9 and commits again."""
    consumer = cast(Any, coordinator)
    reader._assigned(consumer, [TopicPartition(*PLACE)])
    for position in (5, 9):
        reader._observer.next_offset[PLACE] = position
        reader._commit(consumer)


def test_stable_answers_that_differ_from_the_acknowledged_commit_are_stored() -> None:
    reader, coordinator = reader_of(), Coordinator(3)
    joined(reader, coordinator)
    assert coordinator.starts == [3]
    assert [(a.group, a.offset) for a in reader.answers] == [("g", 3), ("g", 3)]


@pytest.mark.parametrize(
    "spec", [{"isolation": "read_uncommitted"}, {"config": {"isolation.level": "read_uncommitted"}}]
)
def test_answers_that_may_legally_lag_are_not_stored(spec: dict[str, Any]) -> None:
    reader, coordinator = reader_of(**spec), Coordinator(3)
    joined(reader, coordinator)
    assert (reader.answers, coordinator.starts) == ([], [3])  # where to begin is asked all the same
    assert coordinator.asked == 1


def test_a_client_that_does_not_return_from_a_commit_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, first, second = reader_of(), Coordinator(9), Coordinator(9)
    joined(reader, first)
    over = threading.Event()
    monkeypatch.setattr(consumer_group, "_COMMIT_S", 0.05)
    monkeypatch.setattr(first, "commit", lambda **_: over.wait(60))
    monkeypatch.setattr(reader, "_consumer", lambda: second)
    monkeypatch.setattr(reader, "_begin", lambda consumer: None)
    reader._observer.next_offset[PLACE] = 12
    assert reader._current(cast(Any, first)) is cast(Any, first)
    reader._commit(cast(Any, first))
    assert reader._committed[PLACE] == 9
    assert reader._current(cast(Any, first)) is cast(Any, second)
    assert reader.stuck == 1
    over.set()


def test_with_the_range_assignor_all_partitions_are_assigned_anew() -> None:
    """librdkafka refuses incremental assignments then."""
    reader, coordinator = reader_of(assignor="range"), Coordinator(3)
    assert reader._settings()["partition.assignment.strategy"] == "range"
    joined(reader, coordinator)
    assert coordinator.all_anew == [3]
    reader._begin_at(cast(Any, coordinator), PLACE, 7)
    assert coordinator.all_anew == [7]
    reader._begin_at(cast(Any, coordinator), ("another", 0), 1)
    assert coordinator.all_anew == [7]


@pytest.mark.parametrize("reader", ["", 'group = "g", protocol = "consumer", ', 'group = "g", client = "java", '])
def test_an_assignor_is_refused_where_it_has_no_effect(reader: str) -> None:
    readers = f'\n[readers]\nodd = {{ topics = ["plain"], {reader}assignor = "range" }}\n'
    assert "assignor needs a group with protocol" in refused(SMALL + readers)
