"""The waits for a remote tier, and the tables about it. Brokers are scripted, their files are real."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from harness.evidence import BundleWriter
from harness.kafka.admin.offsets import TieredReplica
from harness.kafka.release.release import Release
from harness.kafka.storage.local_tier import ROOT
from harness.kafka.storage.segment_scan import REMOTE_TIER
from harness.model.documents.run import TierAtRest
from harness.model.scenario.scenario import Producer, Scenario, Topic
from harness.run import recovery, stalls, tier_probe
from harness.run.stalls import Stalls
from harness.run.tier_lag import Lag, Lags
from harness.run.tier_probe import TierProbe
from harness.workload.drain.internal_topic_reads import RawRecord
from suites.unit.kafka.storage.test_local_tier import SEGMENT, TOPIC_ID, put
from suites.unit.kafka.storage.test_record_batch import batch_bytes
from suites.unit.kafka.storage.test_remote_log_metadata import segment_record

CONFIG = {"remote.storage.enable": "true", "segment.bytes": "1048576", "local.retention.bytes": "1"}
LARGE = {"local.retention.bytes": "5000000"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_INTERVAL_S", 0.001)
    for name in ("REST_DEADLINE_S", "FILLED_DEADLINE_S"):
        monkeypatch.setattr(tier_probe, name, 0.05)


class Brokers:
    """Two brokers with a replica each of `far`. Segments begin at `bases`, or those of broker 1 at `others`."""

    brokers = (1, 2)
    release = Release(version="4.3.1", commit="c", source="s", classpath=())

    def bootstrap_direct(self) -> str:
        return ""

    def __init__(self, root: Path, bases: tuple[int, ...], others: tuple[int, ...] = ()) -> None:
        self.root = root
        self.tier_store = root / "tier"
        for broker in self.brokers:
            folder = root / f"b{broker}" / "far-0"
            folder.mkdir(parents=True)
            for base in others if others and broker == 1 else bases:
                (folder / f"{base:020}.log").write_bytes(b"")
            (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 1500\n")

    def log_directories(self, broker: int) -> list[Path]:
        return [self.root / f"b{broker}"]


def store(brokers: Brokers, content: bytes, **of: Any) -> None:
    put(brokers.tier_store, content, topic="far", partition=0, **of)


def reported(highest: int | None, local: int = 0) -> dict[tuple[str, int, int], TieredReplica]:
    return {("far", 0, broker): TieredReplica(0, local, 50, highest) for broker in (1, 2)}


def rest(probe: TierProbe) -> TierAtRest:
    waited = probe.at_rest()
    assert waited is not None
    return waited


def looks(
    brokers: Brokers,
    answers: dict[tuple[str, int, int], TieredReplica],
    config: dict[str, str] | None = None,
    fed: bool = True,
    stable: int = 50,
) -> TierProbe:
    admin = SimpleNamespace(
        topic_configs=lambda topics: {"far": CONFIG | (config or {})},
        tiered_replicas=lambda topics: answers,
        partitions=lambda topics: (
            [SimpleNamespace(topic="far", partition=0, topic_id=TOPIC_ID, leader=2)] if topics else []
        ),
        watermarks=lambda topics: {("far", 0): (50, stable)},
    )
    declared = CONFIG | (config or {}) | {"remote.storage.enable": "true"}  # a step may have disabled it
    topic = Topic(name="far", partitions=1, config=declared)
    producers = (Producer(name="p", topics=("far",), when="always" if fed else "steps"),)
    scenario = Scenario(name="s", title="", property="", topics=(topic, Topic(name="near")), producers=producers)
    return TierProbe(cast(Any, brokers), cast(Any, admin), scenario, BundleWriter(brokers.root / "bundle"))


def test_a_replica_with_only_the_active_segment_is_at_rest(tmp_path: Path) -> None:
    assert rest(looks(Brokers(tmp_path, (40,)), reported(39, 40))).ok


def test_segments_that_a_replica_has_deleted_need_not_be_copied(tmp_path: Path) -> None:
    """For example where the metadata of the copies is lost."""
    assert rest(looks(Brokers(tmp_path, (40,)), reported(9, 40))).ok


def test_joints_are_where_a_copy_or_a_local_log_begins(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, (40,))
    store(brokers, b"", base=20)
    store(brokers, b"", base=0)
    assert looks(brokers, reported(9, 40)).segment_starts() == {("far", 0): [0, 20, 40]}


@pytest.mark.parametrize(
    ("answers", "copied"), [(reported(39), True), (reported(29), False), (reported(None), False), ({}, False)]
)
def test_only_leaders_that_have_copied_all_show_that_the_load_closed_too_few_segments(
    tmp_path: Path, answers: dict[tuple[str, int, int], TieredReplica], copied: bool
) -> None:
    assert looks(Brokers(tmp_path, (30, 40)), answers).copied_all() is copied


@pytest.mark.parametrize("highest", [39, None])
def test_local_segments_are_at_rest_only_where_their_retention_keeps_them(tmp_path: Path, highest: int | None) -> None:
    brokers = Brokers(tmp_path, (30, 40))
    settled = rest(looks(brokers, reported(highest)))
    assert not settled.ok
    assert "far-0 of broker 1: segments [30, 40] are still there" in settled.last_seen
    assert "far-0 of broker 2: segments [30, 40] are still there" in settled.last_seen
    assert rest(looks(brokers, reported(highest), LARGE)).ok


@pytest.mark.parametrize(("kept_ms", "ok"), [("1000", False), ("600000", True), ("-2", True)])
def test_a_short_retention_by_time_deletes_local_segments_soon(tmp_path: Path, kept_ms: str, ok: bool) -> None:
    by_time = {**LARGE, "local.retention.ms": kept_ms}
    assert rest(looks(Brokers(tmp_path, (30, 40)), reported(39), by_time)).ok is ok


def test_a_local_retention_that_a_step_has_changed_counts(tmp_path: Path) -> None:
    declared = looks(Brokers(tmp_path, (30, 40)), reported(39), LARGE)
    declared._admin.topic_configs = lambda topics: {"far": CONFIG | LARGE | {"local.retention.ms": "1000"}}  # type: ignore[method-assign]
    assert "segments [30, 40] are still there" in rest(declared).last_seen


def test_a_segment_that_is_not_copied_is_not_at_rest(tmp_path: Path) -> None:
    settled = rest(looks(Brokers(tmp_path, (30, 40)), reported(29), LARGE))
    assert "far-0 of broker 2: in the tier up to 29, rolled up to 39" in settled.last_seen


def test_a_leader_that_copies_nothing_is_behind(tmp_path: Path) -> None:
    (lag,) = rest(looks(Brokers(tmp_path, (30, 40)), reported(29), LARGE)).behind
    assert (lag.topic, lag.topic_id, lag.partition, lag.leader) == ("far", TOPIC_ID, 0, 2)
    assert (lag.tiered_end, lag.closed_end) == (30, 40)


@pytest.mark.parametrize(
    ("highest", "stable", "config"),
    [
        (29, 39, {}),  # a transaction is open in the closed segment
        (39, 50, {}),  # only the local segments are still to be deleted
        (None, 50, {}),  # the release does not report it
        (29, 50, {"remote.log.copy.disable": "true"}),
    ],
)
def test_a_leader_that_need_not_copy_is_not_behind(
    tmp_path: Path, highest: int | None, stable: int, config: dict[str, str]
) -> None:
    waited = looks(Brokers(tmp_path, (30, 40)), reported(highest), config, stable=stable).at_rest()
    assert waited is not None
    assert (waited.ok, waited.behind) == (False, ())


def test_a_leader_that_makes_progress_is_not_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = iter([0.0, 40.0, 60.0])
    lags: Lags = Stalls()
    monkeypatch.setattr(stalls, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    for tiered_end in (30, 35):
        lags.look({("far", 0): Lag(TOPIC_ID, 2, tiered_end, 40)})
    assert not [*lags.stalled(60.0)]


def test_a_truncated_follower_is_at_rest_with_a_segment_that_is_partly_in_the_tier(tmp_path: Path) -> None:
    assert rest(looks(Brokers(tmp_path, (40,), others=(30, 45)), reported(39, 40))).ok


@pytest.mark.parametrize(
    ("others", "highest", "seen"),
    [
        ((30, 40, 45), 39, "far-0 of broker 1: segments [30, 40, 45] are still there"),
        ((30, 45), 29, "far-0 of broker 1: in the tier up to 29, and the leader says 39"),
    ],
)
def test_a_follower_is_not_at_rest_with_a_copied_segment_or_an_old_highest_offset(
    tmp_path: Path, others: tuple[int, ...], highest: int, seen: str
) -> None:
    heard = reported(39, 40) | {("far", 0, 1): TieredReplica(0, 30, 50, highest)}
    settled = rest(looks(Brokers(tmp_path, (40,), others), heard))
    assert seen in settled.last_seen


def test_a_topic_whose_remote_storage_is_disabled_is_not_waited_for(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, (0, 100, 200))
    gone = looks(brokers, reported(None), {"remote.storage.enable": "false"})
    assert rest(gone).ok
    assert gone.lacking(5) == ""


def test_a_broker_that_does_not_report_is_not_at_rest(tmp_path: Path) -> None:
    settled = rest(looks(Brokers(tmp_path, (40,)), {}))
    assert "broker 1 does not report far-0" in settled.last_seen


def test_a_partition_with_few_segments_is_named(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, (0,))
    one = looks(brokers, reported(-1))
    assert "far-0 has 0 of 1 segments in the tier" in one.filled(1).last_seen
    assert looks(brokers, reported(-1), fed=False).filled(1).ok
    store(brokers, b"")
    store(brokers, b"", base=50)
    store(brokers, b"", kind="index", base=60)
    another = brokers.tier_store / ROOT / f"far-0-{TOPIC_ID[::-1]}"
    another.mkdir()
    (another / f"{70:020}-{SEGMENT}.log").touch()
    assert one.lacking(3) == "far-0 has 2 of 3 segments in the tier"
    assert one.filled(2).ok


@pytest.mark.parametrize("limit", [{"retention.bytes": "4194304"}, {"retention.ms": "8000"}])
def test_a_segment_that_retention_has_deleted_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: dict[str, str]
) -> None:
    monkeypatch.setattr(tier_probe, "read_all", lambda *_: [])
    monkeypatch.setattr(tier_probe, "_finished", lambda _: [(TOPIC_ID, "far", 0, 40)])
    long = looks(
        Brokers(tmp_path / "long", (43,)), reported(42, 43), {"retention.bytes": "-1", "retention.ms": "604800000"}
    )
    assert long.lacking(1) == "far-0 has 0 of 1 segments in the tier"
    short = looks(Brokers(tmp_path / "short", (43,)), reported(42, 43), limit)
    assert short.lacking(1) == ""
    assert short.lacking(2) == "far-0 has 1 of 2 segments in the tier"


def test_the_tables_are_those_of_the_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, finished = (segment_record("far", state) for state in (0, 1))
    reads = [[RawRecord(2, 5, 100, started)], [RawRecord(2, 5, 100, started), RawRecord(2, 6, 200, finished)]]
    other = RawRecord(0, 0, 1, segment_record("another", 0))
    monkeypatch.setattr(tier_probe, "read_all", lambda *_: [other, *reads.pop(0)])
    brokers = Brokers(tmp_path, (43,))
    store(brokers, batch_bytes(40, [b"a"] * 3) + b"torn")
    store(brokers, b"1234", kind="index")
    looks(brokers, reported(42, 43)).look("end")
    rows = {
        table: pq.read_table(tmp_path / "bundle" / table)
        for table in ("tier_metadata", "tier_objects", "tier_replicas", "batches")
    }
    index, log = rows["tier_objects"].to_pylist()
    assert (log["records"], log["first_offset"], log["last_offset"], log["segment_id"]) == (3, 40, 42, SEGMENT)
    assert log["faulty"] == "4 bytes after the last batch: 4 bytes, less than a header"
    assert (index["kind"], index["records"], index["faulty"], index["size_bytes"]) == ("index", None, None, 4)
    assert [row["epochs"] for row in rows["tier_replicas"].to_pylist()] == ["0:0,3:1500"] * 2
    first, second = rows["tier_metadata"].to_pylist()
    assert (first["read"], first["offset"], first["state"]) == (1, 5, "COPY_SEGMENT_STARTED")
    assert (second["read"], second["offset"], second["state"]) == (2, 6, "COPY_SEGMENT_FINISHED")
    assert {row["epochs"] for row in (first, second)} == {"0:40,3:41"}
    assert {(row["base_offset"], row["end_offset"], row["size_bytes"]) for row in (first, second)} == {(40, 42, 300)}
    assert rows["batches"]["broker"].to_pylist() == [REMOTE_TIER]


def test_without_a_tier_nothing_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    none = TierProbe(
        cast(Any, None),
        cast(Any, None),
        Scenario(name="s", title="", property="", topics=(Topic(name="near"),)),
        BundleWriter(tmp_path / "bundle"),
    )
    none.look("end")
    assert none.at_rest() is None
    assert none.filled(20).ok
    assert not list((tmp_path / "bundle").glob("tier_*"))
