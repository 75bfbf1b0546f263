"""Load and drain on real brokers: acked records are read back from every copy, and the ledger has no gaps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from harness import clusters
from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.kafka.admin.client import AdminView
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import resolve
from harness.model.clock import now_ns
from harness.model.documents.reads import Read
from harness.model.scenario.scenario import ClusterShape, Producer, Reader, Scenario, Topic, Transactions
from harness.model.waiting import wait_for
from harness.run.broker_state import copies_of
from harness.workload.drain.drain import DrainPlan, drain
from harness.workload.load import Load
from suites.gate.cluster_probes import RELEASE

pytestmark = pytest.mark.kafka

RUN, SEED = 0x5EED, 11
SMALL_SEGMENTS = {"segment.bytes": "1048576"}
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    release = resolve(RELEASE, maven_repo=None, cache=default_cache(), progress=print)
    running = clusters.start(release, ClusterShape(), progress=print)
    yield running
    running.stop()


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminView]:
    """An admin client of a healthy cluster, which is healed after the test."""
    with AdminView({node: cluster.direct_address(node) for node in cluster.brokers}) as view:
        yield view
        cluster.heal()
        wait_for(view.brokers_up, until=lambda up: up == list(cluster.brokers), deadline_s=60, what="every broker")


class Play:
    """One scenario without steps: its load, then its drain, then its tables."""

    def __init__(self, cluster: Cluster, admin: AdminView, path: Path) -> None:
        self.cluster, self.admin = cluster, admin
        self.bundle = BundleWriter(path)
        self.reads: list[Read] = []

    def start(self, topics: list[Topic], producers: list[Producer], readers: list[Reader]) -> Load:
        self.topics = [topic.name for topic in topics]
        scenario = Scenario(
            name="play", title="", property="", topics=tuple(topics), producers=tuple(producers), readers=tuple(readers)
        )
        ids = self.admin.create_topics(topics)
        self.load = Load(
            scenario, bootstrap=self.cluster.bootstrap(), topic_ids=ids, bundle=self.bundle, run=RUN, seed=SEED
        )
        self.load.start()
        self.load.wait_flowing(60)
        return self.load

    def drain(self) -> None:
        self.load.stop_producers()
        self.load.stop_readers()
        wait_for(self._unsettled, until=lambda places: not places, deadline_s=90, what="full ISRs, no open transaction")
        plan = DrainPlan(
            bootstrap=self.cluster.bootstrap_direct(),
            targets=self.load.targets,
            copies=copies_of(self.admin.snapshot("healed", self.topics, [])),
            run=RUN,
            seed=SEED,
        )
        self.reads = drain(plan, self.bundle, self.load.numbers, print)
        self.bundle.close()

    def table(self, name: str) -> pa.Table:
        return ds.dataset(self.bundle.path / name, format="parquet").to_table()

    def _unsettled(self) -> list[object]:
        states = self.admin.partitions(self.topics)
        marks = self.admin.watermarks(self.topics)
        lacking = [s.partition for s in states if set(s.isr) != set(s.replicas)]
        return [*lacking, *(place for place, (high, stable) in marks.items() if stable < high)]


@pytest.fixture
def play(cluster: Cluster, admin: AdminView, tmp_path: Path) -> Play:
    return Play(cluster, admin, tmp_path)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> Callable[..., Topic]:
    def named(**more: Any) -> Topic:
        return Topic(name=f"w{next(numbers)}", **more)

    return named


def keys(table: pa.Table) -> set[tuple[int, int]]:
    return set(zip(table["stream"].to_pylist(), table["seq"].to_pylist(), strict=True))


def acked(ledger: pa.Table) -> pa.Table:
    return ledger.filter(pc.equal(ledger["outcome"], "acked"))


def by_reader(observations: pa.Table, reader: str) -> pa.Table:
    return observations.filter(pc.equal(observations["reader"], reader))


def assert_no_gaps(ledger: pa.Table) -> None:
    """Each attempted sequence has exactly one row."""
    for stream in pc.unique(ledger["stream"]).to_pylist():
        sequences = sorted(ledger.filter(pc.equal(ledger["stream"], stream))["seq"].to_pylist())
        assert sequences == list(range(len(sequences)))


def assert_sessions_only_move_on(observations: pa.Table) -> None:
    columns = ("reader", "session", "topic", "partition", "poll", "offset")
    last: dict[tuple[object, ...], int] = {}
    for row in sorted(zip(*(observations[c].to_pylist() for c in columns), strict=True)):
        *where, _, offset = row
        assert offset > last.get(tuple(where), -1)
        last[tuple(where)] = offset


def assert_every_copy_was_read(play: Play) -> None:
    assert [row for row in play.reads if not row.reached] == []
    copies = {(r.topic, r.partition, r.replica, r.isolation) for r in play.reads}
    partitions = {(r.topic, r.partition) for r in play.reads}
    assert len(copies) == len(play.reads) == len(partitions) * 3 * 2
    assert [row for row in play.reads if row.served_by != (row.replica,)] == []


def test_acked_records_come_back_from_every_copy(play: Play, topic: Callable[..., Topic]) -> None:
    plain, paid = topic(), topic(config=SMALL_SEGMENTS)
    load = play.start(
        [plain, paid],
        [
            Producer(
                name="keyed",
                topics=(plain.name,),
                keyed=True,
                tombstones=0.1,
                empty=0.1,
                compression="zstd",
                rate_per_s=1500,
            ),
            Producer(name="old", topics=(plain.name,), acks="1", idempotent=False, rate_per_s=300),
            Producer(
                name="paying",
                topics=(paid.name,),
                rate_per_s=2500,
                value_bytes=600,
                transactions=Transactions(records=40, abort_share=0.4, spans_rolls=True, offsets_of="carried"),
            ),
            Producer(name="asked", topics=(plain.name,), when="steps"),
        ],
        [
            Reader(name="committed", topics=(plain.name, paid.name)),
            Reader(name="uncommitted", topics=(paid.name,), isolation="read_uncommitted"),
            Reader(name="grouped", topics=(plain.name, paid.name), group="readers"),
        ],
    )
    since_ns = now_ns()
    burst = load.burst("asked", plain.name, 1, 700, deadline_s=20)
    assert (burst.acked, burst.unknown, burst.refused) == (700, 0, 0)
    assert burst.first_offset is not None
    assert burst.last_offset is not None
    assert burst.last_offset - burst.first_offset >= 699
    wait_for(
        lambda: load.stats(),
        until=lambda s: s["spans"]["paying"] > 0 and len(s["transactions"]["paying"]) > 1 and s["acked"] > 20_000,
        deadline_s=60,
        what="a spanning transaction, a commit and an abort",
    )
    assert load.produced_acks(plain.name, 1, since_ns) >= 700
    play.drain()
    assert load.doubts() == []
    assert_every_copy_was_read(play)
    ledger, seen = play.table("ledger"), play.table("observations")
    assert_no_gaps(ledger)
    assert pc.all(seen["intact"]).as_py()
    ends = dict(zip(*(play.table("transactions")[c].to_pylist() for c in ("txn_id", "outcome")), strict=True))
    assert set(ends.values()) == {"committed", "aborted"}
    outcomes = pa.array([ends.get(txn) for txn in ledger["txn_id"].to_pylist()], pa.string())
    aborted = keys(ledger.filter(pc.equal(outcomes, "aborted")))
    promised = keys(acked(ledger)) - aborted
    assert keys(by_reader(seen, "leader-committed")) == promised
    assert keys(by_reader(seen, "leader-uncommitted")) == promised | aborted
    for reader in ("committed", "grouped"):
        assert keys(by_reader(seen, reader)) < promised  # all but the sentinels
    commits = play.table("offset_commits")
    assert {"readers", "carried"} == set(commits["group"].to_pylist())
    assert set(commits.filter(pc.equal(commits["group"], "carried"))["txn_id"].to_pylist()) <= ends.keys()


def test_a_killed_leader_costs_retries_and_no_acked_record(
    play: Play, cluster: Cluster, topic: Callable[..., Topic]
) -> None:
    plain = topic(assignment=((1, 2, 3), (2, 3, 1), (3, 1, 2)), config={"min.insync.replicas": "2"})
    load = play.start(
        [plain],
        [
            Producer(name="steady", topics=(plain.name,), rate_per_s=1000),
            Producer(
                name="paying",
                topics=(plain.name,),
                rate_per_s=500,
                transactions=Transactions(records=30, abort_share=0.3),
            ),
        ],
        [Reader(name="committed", topics=(plain.name,)), Reader(name="grouped", topics=(plain.name,), group="g")],
    )
    cluster.kill(1)
    dead_ns = now_ns()
    wait_for(
        lambda: load.last_ack_ns(plain.name, 0), until=lambda at: at > dead_ns + 10**9, deadline_s=60, what="acks again"
    )
    cluster.start(1)
    cluster.wait_started(1, 60)
    healed_ns = now_ns()
    wait_for(
        lambda: [load.produced_acks(plain.name, p, healed_ns) for p in range(3)],
        until=lambda counts: min(counts) > 500,
        deadline_s=60,
        what="acks after healing",
    )
    play.drain()
    assert load.doubts() == []
    assert_every_copy_was_read(play)
    ledger, seen = play.table("ledger"), play.table("observations")
    assert_no_gaps(ledger)
    everything = keys(by_reader(seen, "leader-uncommitted"))
    assert keys(acked(ledger)) - everything == set()
    assert everything - keys(ledger) == set()
    assert {r.reader for r in play.reads if r.kind == "replica"} >= {"replica-1-uncommitted"}
    assert_sessions_only_move_on(seen)


def test_a_fenced_producer_continues_with_new_streams(
    play: Play, cluster: Cluster, topic: Callable[..., Topic]
) -> None:
    plain = topic()
    spec = Producer(
        name="fenced", topics=(plain.name,), rate_per_s=800, transactions=Transactions(records=40, abort_share=0.3)
    )
    load = play.start([plain], [spec], [])
    intruder = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap(), "transactional.id": "fenced"})
    intruder.init_transactions(30)
    wait_for(load.stats, until=lambda s: s["incarnations"]["fenced"] > 1, deadline_s=60, what="a new incarnation")
    before = load.stats()["transactions"]["fenced"].get("committed", 0)
    wait_for(
        load.stats,
        until=lambda s: s["transactions"]["fenced"].get("committed", 0) > before + 3,
        deadline_s=60,
        what="commits after the fencing",
    )
    play.drain()
    assert load.doubts() == []
    assert_every_copy_was_read(play)
    ledger, read = play.table("ledger"), keys(by_reader(play.table("observations"), "leader-committed"))
    assert_no_gaps(ledger)
    ends = dict(zip(*(play.table("transactions")[c].to_pylist() for c in ("txn_id", "outcome")), strict=True))
    outcomes = pa.array([ends.get(txn) for txn in ledger["txn_id"].to_pylist()], pa.string())
    assert keys(ledger.filter(pc.equal(outcomes, "committed"))) - read == set()
    assert keys(ledger.filter(pc.equal(outcomes, "aborted"))) & read == set()


def test_lost_answers_cause_retries(play: Play, cluster: Cluster, topic: Callable[..., Topic]) -> None:
    plain = topic(partitions=1, assignment=((2, 1, 3),))
    load = play.start([plain], [Producer(name="steady", topics=(plain.name,), rate_per_s=500)], [])
    assert load.retries() == 0
    cluster.links.cut("client", "b2", "silent", "answers")
    last_ns = wait_for(
        lambda: load.last_ack_ns(plain.name, 0),
        until=lambda at: now_ns() - at > 2 * 10**9,
        deadline_s=30,
        what="silence",
    )
    cluster.links.heal("client", "b2")
    wait_for(load.retries, until=lambda n: n > 0, deadline_s=30, what="retries")
    wait_for(lambda: load.last_ack_ns(plain.name, 0), until=lambda at: at > last_ns, deadline_s=30, what="acks")
    play.drain()
    ledger = play.table("ledger")
    assert_no_gaps(ledger)
    assert set(ledger["outcome"].to_pylist()) == {"acked"}
    assert by_reader(play.table("observations"), "leader-committed").num_rows == ledger.num_rows


def test_a_reader_below_the_log_start_begins_a_new_session(
    play: Play, admin: AdminView, topic: Callable[..., Topic]
) -> None:
    plain = topic(partitions=1, assignment=((3, 1, 2),))
    readers = [Reader(name="assigned", topics=(plain.name,)), Reader(name="grouped", topics=(plain.name,), group="g2")]
    load = play.start([plain], [Producer(name="steady", topics=(plain.name,), rate_per_s=200)], readers)
    wait_for(
        lambda: load.stats()["read"], until=lambda seen: min(seen.values()) > 100, deadline_s=30, what="both readers"
    )
    play.cluster.links.cut("client", "b3", "silent")
    past_the_cut = confluent_kafka.Producer({"bootstrap.servers": play.cluster.bootstrap_direct()})
    for number in range(100):
        past_the_cut.produce(plain.name, b"never read live %d" % number, partition=0)
    assert past_the_cut.flush(30) == 0
    end = admin.high_watermark([plain.name])[plain.name, 0]
    admin.delete_records({(plain.name, 0): end})
    play.cluster.links.heal("client", "b3")
    healed_ns = now_ns()
    wait_for(
        lambda: load.produced_acks(plain.name, 0, healed_ns), until=lambda n: n > 500, deadline_s=60, what="acks again"
    )
    play.drain()
    seen = play.table("observations")
    assert load.doubts() == []
    for reader in ("assigned", "grouped"):
        rows = by_reader(seen, reader)
        for session in pc.unique(rows["session"]).to_pylist():
            offsets = rows.filter(pc.equal(rows["session"], session))["offset"].to_pylist()
            assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
        assert rows["offset"].to_pylist()[-1] >= end
        assert len(pc.unique(rows["session"])) == 2
    assert len(load.notes()) == 2
    assert {row.start for row in play.reads} == {end}
