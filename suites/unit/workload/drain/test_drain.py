"""Which reads of the drain are repeated, and what happens to the observations of earlier attempts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pytest

from harness.evidence.writer import BundleWriter, TableWriter
from harness.model.documents.reads import OffsetGap, Read
from harness.model.wait_budget import WaitBudget
from harness.workload.drain import drain as draining
from harness.workload.drain.drain import DrainPlan, drain
from harness.workload.drain.replica_reads import Copy, CopyReader
from harness.workload.producers.recording_producer import Target
from harness.workload.producers.streams import Numbers

PLAN = DrainPlan(
    bootstrap="",
    targets={"t": Target(topic="t", topic_id="id", partitions=2)},
    copies=[Copy(topic="t", partition=p, leader=1, logs={1: (0, 9), 2: (0, 9)}) for p in (0, 1)],
    run=1,
    seed=1,
    transactional=frozenset(),
)
LEADER, AGAIN = "leader-committed", "leader-committed-again1"


class Cluster:
    """Serves every read to its end, except the reads that are to fail, each a given number of times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gains: int = 1, **failures: int) -> None:
        self.failures = {name.replace("_", "-"): times for name, times in failures.items()}
        self.gains = gains  # how many offsets further each failing attempt gets
        self.tries: list[tuple[str, list[int]]] = []
        monkeypatch.setattr(draining, "write_sentinels", lambda *_: {})
        cluster = self

        def run(reader: CopyReader, observations: TableWriter) -> None:
            cluster.serve(reader, observations)

        monkeypatch.setattr(CopyReader, "run", run)

    def tried(self, whose: str) -> int:
        return sum(name.startswith(whose) for name, _ in self.tries)

    def serve(self, reader: CopyReader, observations: TableWriter) -> None:
        self.tries.append((reader.name, [partition for _, partition in reader.reads]))
        whose = reader.name.split("-again")[0]
        for (topic, partition), read in reader.reads.items():
            fails = partition == 0 and self.failures.get(whose, 0) > 0
            read.position = min(8, 4 + self.gains * (self.tried(whose) - 1)) if fails else 9
            read.served_by = {1 if reader.broker is None else reader.broker}
            observations.append(
                {
                    "reader": reader.name,
                    "kind": read.kind,
                    "isolation": reader.isolation,
                    "replica": read.replica,
                    "session": 0,
                    "poll": 1,
                    "topic": topic,
                    "topic_id": "id",
                    "partition": partition,
                    "offset": np.arange(read.position),
                    "stream": 1,
                    "seq": np.arange(read.position),
                    "intact": True,
                    "timestamp_ms": 0,
                }
            )
        self.failures[whose] = self.failures.get(whose, 0) - 1
        observations.close()


def drained(bundle: BundleWriter) -> dict[tuple[int | None, str, int], Read]:
    rows = drain(PLAN, bundle, Numbers(), lambda _: None)
    return {(row.replica, row.isolation.removeprefix("read_"), row.partition): row for row in rows}


def test_a_failed_read_is_repeated_until_it_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, replica_2_committed=2)
    rows = drained(BundleWriter(tmp_path))
    assert sorted(cluster.tries[:3]) == [
        ("leader-committed", [0, 1]),
        ("leader-uncommitted", [0, 1]),
        ("replica-2-committed", [0, 1]),
    ]
    assert cluster.tries[3:] == [("replica-2-committed-again1", [0]), ("replica-2-committed-again2", [0])]
    assert len(rows) == 6
    assert all(row.reached for row in rows.values())
    assert rows[2, "committed", 0].reader == "replica-2-committed-again2"
    assert rows[2, "committed", 1].reader == "replica-2-committed"


def test_a_read_that_never_succeeds_ends_with_its_fifth_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, leader_uncommitted=100)
    row = drained(BundleWriter(tmp_path))[1, "uncommitted", 0]
    assert [name for name, _ in cluster.tries[3:]] == [f"leader-uncommitted-again{n}" for n in (1, 2, 3, 4, 5)]
    assert (row.reader, row.reached) == ("leader-uncommitted-again5", False)


def test_a_read_that_stops_twice_at_the_same_offset_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(monkeypatch, gains=0, leader_committed=100, replica_2_committed=1)
    row = drained(BundleWriter(tmp_path))[1, "committed", 0]
    assert sorted(cluster.tries[3:]) == [("leader-committed-again1", [0]), ("replica-2-committed-again1", [0])]
    assert (row.reader, row.position, row.reached) == ("leader-committed-again1", 4, False)


def test_a_retry_at_a_follower_starts_after_the_gap_of_its_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(monkeypatch, replica_2_committed=1)
    serve = cluster.serve

    def holed(reader: CopyReader, observations: TableWriter) -> None:
        serve(reader, observations)
        if reader.broker is None:
            reader.reads["t", 0].holes = [(4, 6)]

    monkeypatch.setattr(cluster, "serve", holed)
    rows = drain(PLAN, BundleWriter(tmp_path / "bundle"), Numbers(), lambda _: None)
    starts = {(row.reader, row.partition): row.start for row in rows}
    assert starts["replica-2-committed-again1", 0] == 6
    assert starts["replica-2-committed", 1] == 0
    assert starts[AGAIN, 0] == 0


@pytest.mark.parametrize(
    ("met", "tries"), [([[(4, 6)], []], 1), ([[(4, 6)], [(4, 6)]], 1), ([[(2, 3)], [(4, 6)], []], 2)]
)
def test_a_read_with_a_gap_is_repeated_until_the_gap_is_the_same_or_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, met: list[list[tuple[int, int]]], tries: int
) -> None:
    cluster = Cluster(monkeypatch)
    serve, left = cluster.serve, list(met)

    def holed(reader: CopyReader, observations: TableWriter) -> None:
        serve(reader, observations)
        if reader.broker is None and reader.isolation == "read_committed":
            reader.reads["t", 0].holes = left.pop(0)

    monkeypatch.setattr(cluster, "serve", holed)
    row = drained(BundleWriter(tmp_path))[1, "committed", 0]
    assert [name for name, _ in cluster.tries[3:]] == [f"{LEADER}-again{n + 1}" for n in range(tries)]
    assert row.reached
    assert row.holes == tuple(OffsetGap(from_offset=low, to_offset=high) for low, high in met[-1])


def test_no_retry_begins_after_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "_RETRIES_DEADLINE_S", -1.0)
    cluster = Cluster(monkeypatch, leader_committed=1)
    assert not drained(BundleWriter(tmp_path))[1, "committed", 0].reached
    assert len(cluster.tries) == 3


def test_only_the_last_read_of_a_leader_is_the_drain_and_earlier_ones_become_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(monkeypatch, leader_committed=1)
    bundle = BundleWriter(tmp_path)
    drained(bundle)
    bundle.close()
    rows = ds.dataset(tmp_path / "observations", format="parquet").to_table().to_pylist()
    seen = {(r["reader"], r["partition"], r["kind"], r["replica"]) for r in rows if r["isolation"] == "read_committed"}
    assert {row for row in seen if row[0].startswith("leader")} == {
        (LEADER, 0, "live", None),
        (LEADER, 1, "drain", 1),
        (AGAIN, 0, "drain", 1),
    }
    assert len([r for r in rows if r["reader"] == LEADER]) == 4 + 9


@pytest.mark.parametrize(("gap", "tries"), [(False, 1), (True, 2)])
def test_with_a_spent_budget_only_a_read_that_met_a_gap_is_repeated_and_has_its_own_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: bool, tries: int
) -> None:
    cluster = Cluster(monkeypatch, leader_committed=1)
    budgets, serve = [], cluster.serve
    spent = WaitBudget(0.0)
    spent.begin("a step failed")

    def holed(reader: CopyReader, observations: TableWriter) -> None:
        budgets.append(reader._timeouts.budget)
        serve(reader, observations)
        if reader.broker is None and gap:
            reader.reads["t", 0].holes = [(2, 4)]

    monkeypatch.setattr(cluster, "serve", holed)
    plan = replace(PLAN, timeouts=replace(PLAN.timeouts, budget=spent))
    drain(plan, BundleWriter(tmp_path / "bundle"), Numbers(), lambda _: None)
    assert cluster.tried(LEADER) == tries
    assert [budget.spent for budget in budgets] == [True] * 3 + [False] * (2 * gap)
