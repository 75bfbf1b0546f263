"""The timelines of replicas from real brokers, of which one is frozen, one is killed, and one goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.evidence.writer import TableWriter
from harness.kafka.admin.client import AdminView
from harness.kafka.admin.positions import SampledTopic
from harness.model.clock import now_ns
from harness.model.scenario.scenario import ClusterShape, Producer, Topic
from harness.model.waiting import wait_for
from harness.run.position_sampler import SAMPLE_S, PositionSampler
from suites.gate.playing import Play

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SHAPE = ClusterShape()
# Broker 1 leads and appends all the time, whatever its followers do: so each of its samples is a row.
TOPICS = (Topic(name="near", partitions=1, assignment=((1, 2, 3),), config={"min.insync.replicas": "1"}),)
PRODUCERS = (Producer(name="steady", topics=("near",), acks="1", idempotent=False, rate_per_s=100),)
DOWN_S = 6.0
S = 10**9
Row = dict[str, Any]


class Samples(BundleWriter):
    """A bundle with rows that can be looked at while they are being written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._tables: list[TableWriter] = []

    def table(self, name: str, writer: str) -> TableWriter:
        opened = super().table(name, writer)
        self._tables.append(opened)
        return opened

    def of(self, broker: int) -> list[Row]:
        """The rows of a broker so far, in the order of time."""
        for table in self._tables:
            table.flush()
        files = (self.path / "positions").glob(f"broker-{broker}-*.parquet")
        return sorted((row for file in files for row in pq.read_table(file).to_pylist()), key=lambda row: row["at_ns"])

    def wait(self, until: Callable[[list[Row]], object], what: str, brokers: Sequence[int] = (1, 2, 3)) -> None:
        """Waits until the rows of each of these brokers are as wanted."""
        wait_for(
            lambda: [broker for broker in brokers if not until(self.of(broker))],
            until=lambda lacking: not lacking,
            deadline_s=30,
            what=what,
            interval_s=SAMPLE_S / 5,
        )


@pytest.fixture
def samples(tmp_path: Path) -> Samples:
    return Samples(tmp_path / "sampled")


@pytest.fixture
def sampler(play: Play, cluster: Cluster, samples: Samples) -> PositionSampler:
    """A sampler of the topic, not started yet."""
    ((name, topic_id),) = [(s.topic, s.topic_id) for s in play.stage.admin.partitions(["near"])]
    addresses = {broker: cluster.direct_address(broker) for broker in cluster.brokers}
    topics = [SampledTopic(name, topic_id, 1, tiered=False)]
    return PositionSampler(addresses, lambda: topics, samples)


def down(stop: Callable[[], None], start: Callable[[], None]) -> tuple[int, int]:
    """Stops a broker and starts it again. Returns since when and until when it was down, in epoch nanoseconds."""
    stop()
    since_ns = now_ns()
    time.sleep(DOWN_S)
    until_ns = now_ns()
    start()
    return since_ns, until_ns


def test_a_frozen_and_a_dead_broker_have_no_rows_and_the_others_go_on(
    play: Play, admin: AdminView, sampler: PositionSampler, samples: Samples
) -> None:
    cluster = play.cluster
    with sampler:
        samples.wait(lambda rows: len(rows) >= 2, "rows of every broker")
        frozen_ns, resumed_ns = down(lambda: cluster.pause(3), lambda: cluster.resume(3))
        killed_ns, started_ns = down(lambda: cluster.kill(2), lambda: cluster.start(2))
        play()
        play.load.stop_producers()
        ends = wait_for(
            lambda: _ends(admin),
            until=lambda ends: len(ends) == 3 and len(set(ends.values())) == 1,
            deadline_s=60,
            what="every replica to have every record",
        )
        samples.wait(lambda rows: _knows(rows[-1], ends[1]), "every broker to know that all have every record")
        snapshot = admin.snapshot("drained", ["near"], [])
    assert sampler.died == []

    going, killed, frozen = (samples.of(broker) for broker in (1, 2, 3))
    for rows, since_ns, until_ns in ((frozen, frozen_ns, resumed_ns), (killed, killed_ns, started_ns)):
        # An answer that arrived just before may be read just after.
        assert [row for row in rows if since_ns + 0.3 * S < row["at_ns"] < until_ns] == []
        assert [row for row in rows if since_ns - 2 * S < row["at_ns"] < since_ns + 0.3 * S]
        assert next(row for row in rows if row["at_ns"] >= until_ns)["after_silence"]
        meanwhile = [row["at_ns"] / S for row in going if since_ns <= row["at_ns"] < until_ns]
        gaps = [later - earlier for earlier, later in pairwise(meanwhile)]
        assert len(meanwhile) >= 0.7 * DOWN_S / SAMPLE_S, gaps
        assert median(gaps) == pytest.approx(SAMPLE_S, abs=0.15)
    resumed = next(row for row in frozen if row["at_ns"] >= resumed_ns)
    assert resumed["asked_ns"] < resumed_ns, "it answers the question that was open"
    assert not any(row["after_silence"] for row in going[1:])

    (partition,) = snapshot.partitions
    last = {rows[-1]["broker"]: rows[-1] for rows in (going, killed, frozen)}
    assert {b: (row["log_start"], row["log_end"]) for b, row in last.items()} == {
        log.broker: (log.log_start, log.log_end) for log in partition.logs
    }
    marks = {(row["high_watermark"], row["last_stable_offset"]) for row in last.values()}
    assert marks == {(partition.high_watermark, partition.last_stable_offset)}
    assert {row["leader_epoch"] for row in last.values()} == {partition.leader_epoch}
    assert {row["topic_id"] for row in (*going, *killed, *frozen)} == {partition.topic_id}


def _ends(admin: AdminView) -> dict[int, int]:
    return {broker: end for (_, _, broker), (_, end) in admin.replica_offsets(["near"]).items()}


def _knows(row: Row, end: int) -> bool:
    return {row[name] for name in ("log_end", "high_watermark", "last_stable_offset")} == {end}


def test_a_frozen_broker_does_not_hold_the_end(play: Play, sampler: PositionSampler, samples: Samples) -> None:
    with sampler:
        samples.wait(bool, "rows of every broker")
        play.cluster.pause(3)
        # Every broker is asked at the same intervals, so by then the frozen one has a question that it does not answer.
        asked_ns = now_ns() + 2 * SAMPLE_S * S
        samples.wait(lambda rows: rows[-1]["asked_ns"] >= asked_ns, "another question to broker 1", brokers=[1])
        stopping = time.monotonic()
    try:
        assert time.monotonic() - stopping < 1.0
        assert sampler.died == []
    finally:
        play.cluster.resume(3)
