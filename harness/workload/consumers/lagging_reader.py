"""A lagging consumer: it reads partitions from their first record again and again, and stores nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from harness.model.place import Place
from harness.workload.access import Access
from harness.workload.consumers.live_readers import POLL_S, split
from harness.workload.load_thread import LoadThread
from harness.workload.settings import consumer_settings

_POLL_RECORDS: Final = 2000


class Replay(LoadThread):
    """Reads each partition up to the offset `until`, then starts again at its first record.

    `read` counts the records below `until`, `passes` the complete passes; both by partition.
    """

    def __init__(self, bootstrap: str, until: Mapping[Place, int], access: Access | None = None) -> None:
        super().__init__("replay", ", ".join(sorted(f"{topic}/{p}" for topic, p in until)))
        self._bootstrap = bootstrap
        self._until = dict(until)
        self._access = access or Access()
        self.read: Counter[Place] = Counter()
        self.passes: Counter[Place] = Counter()

    def _live(self) -> None:
        settings = consumer_settings(self._bootstrap, "replay", f"{self._access.prefix}replay", "read_uncommitted")
        consumer = Consumer(settings | _FROM_START | self._access.of("replay"))
        try:
            _begin(consumer, self._until)
            while not self._stopping.is_set():
                records, _ = split(consumer.consume(_POLL_RECORDS, POLL_S))  # errors: the client retries by itself
                self._count(consumer, records)
        finally:
            consumer.close()

    def _count(self, consumer: Consumer, records: list[Message]) -> None:
        done: set[Place] = set()
        for record in records:
            place = str(record.topic()), int(record.partition() or 0)
            if place in done:
                continue
            if int(record.offset() or 0) < self._until[place]:
                self.read[place] += 1
            else:
                done.add(place)
        for place in done:
            self.passes[place] += 1
        _begin(consumer, done)


_FROM_START: Final = {"auto.offset.reset": "earliest"}


def _begin(consumer: Consumer, places: Collection[Place]) -> None:
    """Starts partitions at their first record."""
    taken = {(mine.topic, mine.partition) for mine in consumer.assignment()}
    if again := [TopicPartition(*place) for place in places if place in taken]:
        consumer.incremental_unassign(again)
    if places:
        consumer.incremental_assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
