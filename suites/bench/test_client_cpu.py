"""CPU time of the load generator and of the drain, compared with bare librdkafka: the median of five rounds.

Both sides build the same payloads and use the same settings. CPU time, not elapsed time: the brokers share the machine.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Consumer, TopicPartition

from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.kafka.admin.client import AdminView
from harness.model.scenario.scenario import Producer, Topic
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.drain.replica_reads import Copy, CopyReader, ReadTimeouts
from harness.workload.meters import Meters
from harness.workload.producers.recording_producer import CHUNK, ProducerContext, RecordingProducer, Target
from harness.workload.producers.streams import WINDOW, Numbers
from harness.workload.records.payload import Payloads
from harness.workload.settings import consumer_settings, producer_settings

pytestmark = pytest.mark.kafka

RECORDS = int(os.environ.get("BENCH_RECORDS", "400000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
PARTITIONS = 6
VALUE_BYTES = 200
SEND_RATIO_MAX, DRAIN_RATIO_MAX = 2.0, 3.0
names = (f"bench{number}" for number in itertools.count())


class Bench:
    """The four measurements: send and read, by librdkafka alone and by the harness. Each in CPU seconds per million."""

    def __init__(self, cluster: Cluster, admin: AdminView, path: Path) -> None:
        self.bootstrap = cluster.bootstrap_direct()
        self.admin = admin
        self.path = path

    def topic(self) -> str:
        name = next(names)
        self.admin.create_topics([Topic(name=name, partitions=PARTITIONS)])
        return name

    def spec(self, topic: str) -> Producer:
        return Producer(name=topic, topics=(topic,), value_bytes=VALUE_BYTES)

    def target(self, topic: str) -> dict[str, Target]:
        return {topic: Target(topic=topic, topic_id="id", partitions=PARTITIONS)}

    def bare_send(self, topic: str) -> float:
        client = confluent_kafka.Producer(producer_settings(self.spec(topic), self.bootstrap, topic))
        payloads, sent = Payloads(1, VALUE_BYTES, seed=1), [0] * PARTITIONS

        def send() -> None:
            for turn in range(RECORDS // CHUNK):
                partition = turn % PARTITIONS
                while len(client) > PARTITIONS * WINDOW - CHUNK:
                    client.poll(0.01)
                values = payloads.build(partition, sent[partition], CHUNK, topic, partition)
                sent[partition] += CHUNK
                messages = [{"value": value} for value in values]
                assert client.produce_batch(topic, messages, partition=partition) == CHUNK
                client.poll(0)
            assert client.flush(60) == 0

        return measured(send)

    def our_send(self, topic: str) -> float:
        bundle = BundleWriter(self.path / topic / "load")
        context = ProducerContext(
            bootstrap=self.bootstrap,
            targets=self.target(topic),
            numbers=Numbers(),
            meters=Meters(),
            ledger=bundle.table("ledger", topic),
            reservations=bundle.table("reservations", topic),
            run=1,
            seed=1,
        )
        producer = RecordingProducer(self.spec(topic), context)

        def send() -> None:
            sent = 0
            for turn in itertools.count():
                taken = producer.queue((topic, turn % PARTITIONS), min(CHUNK, RECORDS - sent))
                sent += taken
                if sent == RECORDS:
                    break
                producer.poll(0.0 if taken else 0.01)
            producer.close(60)
            bundle.close()

        seconds = measured(send)
        assert context.meters.total_acked() == RECORDS
        return seconds

    def bare_read(self, topic: str) -> float:
        consumer = Consumer(consumer_settings(self.bootstrap, "bare", "bare", "read_uncommitted"))
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

        def read() -> None:
            seen = 0
            while seen < RECORDS:
                seen += len(consumer.consume(5000, 0.1))

        seconds = measured(read)
        consumer.close()
        return seconds

    def our_read(self, topic: str) -> float:
        bundle = BundleWriter(self.path / topic / "drain")
        copies = [
            Copy(topic=topic, partition=partition, leader=leader, logs={leader: (0, end)})
            for (topic, partition, leader), (_, end) in self.admin.replica_offsets([topic]).items()
            if leader == self.leaders(topic)[partition]
        ]
        context = ReadContext(bootstrap=self.bootstrap, targets=self.target(topic), run=1)
        reader = CopyReader(context, copies, {}, isolation="read_uncommitted", broker=None, timeouts=ReadTimeouts())
        seconds = measured(lambda: reader.run(bundle.table("observations", reader.name)))
        assert all(read.reached for read in reader.reads.values())
        return seconds

    def leaders(self, topic: str) -> dict[int, int]:
        return {state.partition: state.leader for state in self.admin.partitions([topic])}


def measured(work: Callable[[], None]) -> float:
    """CPU seconds of all threads of this process, scaled to a million records."""
    before = time.process_time()
    work()
    return (time.process_time() - before) * 1e6 / RECORDS


def test_client_cpu_is_a_bounded_multiple_of_bare_librdkafka(
    cluster: Cluster, admin: AdminView, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(cluster, admin, tmp_path)
    rounds = []
    for _ in range(ROUNDS):
        bare, ours = bench.topic(), bench.topic()
        rounds.append((bench.bare_send(bare), bench.our_send(ours), bench.bare_read(ours), bench.our_read(ours)))
    bare_send, our_send, bare_read, our_read = (statistics.median(column) for column in zip(*rounds, strict=True))
    with capsys.disabled():
        print(
            f"\nCPU s per million of {RECORDS} x {ROUNDS}: send {our_send:.2f} / bare {bare_send:.2f} "
            f"= {our_send / bare_send:.2f}; drain {our_read:.2f} / bare {bare_read:.2f} = {our_read / bare_read:.2f}"
        )
    assert our_send / bare_send <= SEND_RATIO_MAX
    assert our_read / bare_read <= DRAIN_RATIO_MAX
