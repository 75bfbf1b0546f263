"""Light load for the soak: idempotent and transactional producers, groups that commit, and what was acknowledged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from harness.model.scenario.scenario import Topic
from suites.gate.cluster_probes import quiet

TICK_S: Final = 0.25
VALUE: Final = b"v" * 200
LARGE: Final = b"v" * 8_000
KEYS: Final = 40
WEEK, SEGMENT_MS = "604800000", "20000"
PLAIN, OWNED, KEPT, COMPACTED, BOTH, SHORT, SIZED, MOVED, OUT, TIERED = (
    *("plain", "owned", "kept", "compacted", "compacted-short", "short", "sized", "moved", "processed", "tiered"),
)
READERS, PROCESSOR, RESET = "readers", "processor", "reset"
GROUPS: Final = (READERS, PROCESSOR, RESET)
_SEGMENTS: Final = {"segment.ms": SEGMENT_MS}
_COMPACTED: Final = {**_SEGMENTS, "min.cleanable.dirty.ratio": "0.01"}
TOPICS: Final = (
    Topic(name=PLAIN, partitions=6),
    Topic(name=OWNED, config=_SEGMENTS),
    Topic(name=KEPT, config={**_SEGMENTS, "retention.ms": WEEK}),
    Topic(name=COMPACTED, config={**_COMPACTED, "cleanup.policy": "compact", "delete.retention.ms": "30000"}),
    Topic(name=BOTH, config={**_COMPACTED, "cleanup.policy": "compact,delete", "retention.ms": "90000"}),
    Topic(name=SHORT, config={**_SEGMENTS, "retention.ms": "60000"}),
    Topic(name=SIZED, partitions=1, config={"segment.bytes": "1048576", "retention.bytes": "1048576"}),
    Topic(name=MOVED, assignment=((1, 2, 3), (2, 3, 1), (3, 1, 2))),
    Topic(name=OUT, partitions=3),
    Topic(
        name=TIERED,
        partitions=2,
        config={
            **_SEGMENTS,
            "remote.storage.enable": "true",
            "local.retention.ms": "40000",
            "retention.ms": "300000",
        },
    ),
)
_SMALL: Final = (PLAIN, OWNED, KEPT, COMPACTED, BOTH, SHORT, MOVED, TIERED)  # that get small records
NAMES: Final = tuple(topic.name for topic in TOPICS)


class Load:
    """Threads that write, read and commit until `close`. Counts and acknowledged offsets may be read at any time.

    without: topics that are not there.
    """

    def __init__(self, bootstrap: str, without: Collection[str] = ()) -> None:
        self.acked = 0
        self.failed = 0
        self.committed = 0
        self.aborted = 0
        self.last_acked: dict[tuple[str, int], int] = {}
        self._bootstrap = bootstrap
        self._topics = [name for name in _SMALL if name not in without]
        self._stop = threading.Event()
        self.failures: list[str] = []
        work = (self._produce, self._read, self._process)
        self._threads = [threading.Thread(target=self._guarded, args=(of,), name=of.__name__) for of in work]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=60)

    def _guarded(self, work: Callable[[], None]) -> None:
        """A client that fails for good is made again, as an application would do."""
        while not self._stop.is_set():
            try:
                work()
            except KafkaException as failed:
                self.failures.append(f"{work.__name__}: {failed}")
                self._stop.wait(1.0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            return
        self.acked += 1
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is not None and partition is not None and offset is not None:
            self.last_acked[topic, partition] = max(self.last_acked.get((topic, partition), -1), offset)

    def _produce(self) -> None:
        producer = Producer(quiet({"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 5}))
        turn = 0
        while not self._stop.wait(TICK_S):
            turn += 1
            for topic in self._topics:
                value = None if topic in (COMPACTED, BOTH) and turn % 10 == 0 else VALUE
                producer.produce(topic, value, key=b"%d" % (turn % KEYS), on_delivery=self._delivered)
            if turn % 2 == 0:
                producer.produce(SIZED, LARGE, on_delivery=self._delivered)
            producer.poll(0)
        producer.flush(30)

    def _read(self) -> None:
        """A group with read_committed that commits every two seconds."""
        consumer = self._consumer(READERS)
        consumer.subscribe([PLAIN, OUT])
        committed_s = time.monotonic()
        with suppress_close(consumer):
            while not self._stop.is_set():
                consumer.consume(100, 1.0)
                if time.monotonic() - committed_s > 2:
                    committed_s = time.monotonic()
                    with suppress(KafkaException):  # nothing to commit yet, or a coordinator that moves
                        consumer.commit(asynchronous=False)

    def _consumer(self, group: str) -> Consumer:
        settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        return Consumer(quiet({"bootstrap.servers": self._bootstrap, "isolation.level": "read_committed", **settings}))

    def _process(self) -> None:
        """Reads, and writes in transactions with the offsets; every fifth transaction aborts, some producers vanish."""
        consumer = self._consumer(PROCESSOR)
        consumer.subscribe([PLAIN])
        settings = {"transactional.id": "processor", "transaction.timeout.ms": 15_000}
        producer = Producer(quiet({"bootstrap.servers": self._bootstrap, **settings}))
        with suppress_close(consumer):
            producer.init_transactions(60)
            for turn in range(1, 200):  # then a new producer fences this one, which leaves a transaction open
                if self._stop.is_set():
                    return
                self._transaction(producer, consumer, turn)
            producer.begin_transaction()
            producer.produce(OUT, VALUE)
            producer.flush(10)

    def _transaction(self, producer: Producer, consumer: Consumer, turn: int) -> None:
        messages = consumer.consume(50, 1.0)
        producer.begin_transaction()
        for message in messages:
            if message.error() is None:
                producer.produce(OUT, message.value(), key=message.key(), on_delivery=self._delivered)
        if turn % 5 == 0:
            producer.abort_transaction(60)
            self.aborted += 1
            self._rewind(consumer)
            return
        positions: list[TopicPartition] = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(
            [at for at in positions if at.offset >= 0], consumer.consumer_group_metadata(), 60
        )
        producer.commit_transaction(60)
        self.committed += 1

    @staticmethod
    def _rewind(consumer: Consumer) -> None:
        """To the committed offsets, as an application does after an abort."""
        for at in consumer.committed(consumer.assignment(), 30):
            if at.offset >= 0:
                consumer.seek(at)


class suppress_close:  # noqa: N801 - used as a statement
    """Closes a consumer at the end; its last commit may fail while a broker is down."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        with suppress(KafkaException):
            self._consumer.close()
