"""The partitions of a live reader when topics grow and are recreated. The consumer is a fake."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from harness.model.scenario.scenario import Reader
from harness.workload.consumers import live_readers, stuck_client
from harness.workload.consumers.live_readers import LiveReader, ReadContext
from harness.workload.producers.recording_producer import Target


class Consumer:
    """Keeps the assigned partitions and their start offsets."""

    def __init__(self) -> None:
        self.reads: set[tuple[str, int]] = set()
        self.starts: dict[tuple[str, int], int] = {}
        self.closed = False

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.reads |= {(p.topic, p.partition) for p in partitions}
        self.starts |= {(p.topic, p.partition): p.offset for p in partitions}

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self.reads -= {(p.topic, p.partition) for p in partitions}

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(*place) for place in self.reads]

    def close(self) -> None:
        self.closed = True

    def consume(self, count: int, timeout_s: float) -> list[Any]:
        return []


def target(topic: str, partitions: int, topic_id: str = "id") -> Target:
    return Target(topic=topic, topic_id=topic_id, partitions=partitions)


class Read:
    """A reader of two topics, driven one poll at a time."""

    def __init__(self) -> None:
        self.targets = {"t": target("t", 2), "other": target("other", 1)}
        context = ReadContext(bootstrap="", targets=self.targets, run=1)
        self.reader = LiveReader(Reader(name="r", topics=("t", "other")), context, cast(Any, None))
        self.consumer = Consumer()

    def turn(self) -> set[tuple[str, int]]:
        self.consumer = cast(Any, self.reader._current(cast(Any, self.consumer)))
        self.reader._turn(cast(Any, self.consumer))
        return self.consumer.reads


def test_added_partitions_are_read() -> None:
    read = Read()
    assert read.turn() == {("t", 0), ("t", 1), ("other", 0)}
    read.targets["t"] = target("t", 3)
    assert read.turn() == {("t", 0), ("t", 1), ("t", 2), ("other", 0)}


def test_a_topic_is_released_and_read_from_its_start_under_its_new_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_readers, "Consumer", lambda settings: Consumer())
    read = Read()
    read.turn()
    assert read.reader.reads("t")
    read.reader._observer.next_offset["t", 0] = 70
    read.reader._observer.next_offset["other", 0] = 30
    session = read.reader._observer._sessions["t", 0]
    read.targets["t"] = target("t", 0)
    assert read.turn() == {("other", 0)}
    assert not read.reader.reads("t")
    read.targets["t"] = target("t", 2, "another")
    first = read.consumer
    assert read.turn() == {("t", 0), ("t", 1), ("other", 0)}
    assert read.consumer is not first
    assert first.closed
    assert read.consumer.starts == {("t", 0): OFFSET_BEGINNING, ("t", 1): OFFSET_BEGINNING, ("other", 0): 30}
    assert read.reader._observer._topic_ids == {"t": "another", "other": "id"}
    assert ("t", 0) not in read.reader.positions
    assert read.reader._observer._sessions["t", 0] > session


def test_a_stuck_client_is_replaced_and_never_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_readers, "Consumer", lambda settings: Consumer())
    monkeypatch.setattr(stuck_client, "STUCK_S", 0.0)
    read = Read()
    first = read.consumer
    for _ in range(stuck_client.STUCK_POLLS):
        read.turn()
    read.reader._observer.next_offset["t", 0] = 70
    session = read.reader._observer._sessions["t", 0]
    assert read.turn() == {("t", 0), ("t", 1), ("other", 0)}
    assert read.consumer is not first
    assert not first.closed
    assert read.consumer.starts["t", 0] == 70
    assert read.reader._observer._sessions["t", 0] > session
    assert read.reader.stuck == 1


def test_a_client_that_reports_statistics_or_is_not_polled_is_not_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck_client, "STUCK_S", 0.0)
    read = Read()
    read.turn()
    assert not read.reader._pulse.stuck
    for _ in range(stuck_client.STUCK_POLLS):
        read.turn()
        read.reader._pulse.take("{}")
    assert not read.reader._pulse.stuck
    assert read.reader.stuck == 0


def test_before_a_gap_it_tries_the_log_start_less_and_less_often() -> None:
    read = Read()
    read.turn()
    reader, consumer = read.reader, read.consumer
    starts, sessions = [], []
    for position in (0, 0, 0, 40, 40, 40, 40, 40, 41):
        reader._observer.next_offset["t", 0] = position
        reader._restart_at_log_start(cast(Any, consumer), ("t", 0), "gone")
        starts.append(consumer.starts["t", 0])
        sessions.append(reader._observer._sessions["t", 0])
    begin = OFFSET_BEGINNING
    assert starts == [begin, begin, begin, begin, begin, 40, begin, 40, begin]
    assert sessions == [1, 2, 3, 4, 5, 5, 6, 6, 7]
    assert len(reader.jumps) == 7
