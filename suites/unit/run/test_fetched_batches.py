"""Batches that brokers serve: all of a broker's replicas or none, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from harness.evidence.writer import BundleWriter
from harness.kafka.admin.replica_fetch import Fetched, Wanted
from harness.kafka.admin.security import PLAINTEXT, Security
from harness.kafka.admin.wire import Unanswered
from harness.model.documents.cluster import PartitionState, ReplicaLog, Snapshot
from harness.model.place import Place
from harness.run import fetched_batches
from harness.run.fetched_batches import fetch_batches
from suites.unit.kafka.storage.test_record_batch import batch_bytes

LOG = batch_bytes(0, [b"a", b"b"]) + batch_bytes(2, [b"c"], leader_epoch=1)
ADDRESSES = {1: ("h", 1), 2: ("h", 2)}


class FakeLink:
    """Knows only which broker it leads to."""

    def __init__(self, address: tuple[str, int], security: Security) -> None:
        assert security is PLAINTEXT
        self.broker = address[1]

    def close(self) -> None:
        """Nothing is open."""


class Brokers:
    """What each broker has of one partition. An exception is raised instead of an answer, once."""

    def __init__(
        self, logs: Mapping[int, bytes], errors: Mapping[int, list[Fetched | Exception]] | None = None
    ) -> None:
        self._logs = logs
        self._errors = {broker: list(found) for broker, found in (errors or {}).items()}

    def fetch(self, link: FakeLink, wanted: Sequence[Wanted], isolation: str, timeout_s: float) -> dict[Place, Fetched]:
        assert isolation == "read_uncommitted"
        assert timeout_s > 0
        (one,) = wanted
        if errors := self._errors.get(link.broker):
            failed = errors.pop(0)
            if isinstance(failed, Exception):
                raise failed
            return {one.place: failed}
        return {one.place: Fetched(None, self._logs[link.broker] if one.offset < 3 else b"", 0)}


def snapshot(log_start: int = 0, log_end: int = 3) -> Snapshot:
    logs = tuple(ReplicaLog(broker=broker, log_start=log_start, log_end=log_end) for broker in ADDRESSES)
    state = PartitionState(
        topic="t",
        topic_id="A",
        partition=0,
        leader=1,
        isr=(1, 2),
        replicas=(1, 2),
        logs=logs,
        high_watermark=log_end,
        last_stable_offset=log_end,
    )
    return Snapshot(phase="drained", at_ns=1, partitions=(state,), groups=())


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched_batches, "Link", FakeLink)
    monkeypatch.setattr(fetched_batches, "_STALL_S", 0.05)
    monkeypatch.setattr(fetched_batches, "_PAUSE_S", 0.001)


def fetched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, brokers: Brokers, seen: Snapshot | None = None
) -> tuple[fetched_batches.Fetched, list[tuple[int, int, int, int | None]]]:
    monkeypatch.setattr(fetched_batches, "fetch_replicas", brokers.fetch)
    bundle = BundleWriter(folder / "bundle")
    found = fetch_batches(ADDRESSES, PLAINTEXT, seen or snapshot(), bundle)
    bundle.close()
    if not (folder / "bundle" / "batches").exists():
        return found, []
    rows = ds.dataset(folder / "bundle" / "batches", format="parquet").to_table().to_pylist()
    return found, sorted((row["broker"], row["base_offset"], row["last_offset"], row["segment"]) for row in rows)


def test_every_replica_has_its_batches_and_no_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, rows = fetched(tmp_path, monkeypatch, Brokers({1: LOG, 2: LOG}))
    assert (found.not_read, found.damage) == ([], [])
    assert rows == [(broker, *offsets, None) for broker in (1, 2) for offsets in ((0, 1), (2, 2))]


def test_a_broker_that_answers_later_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once: list[Fetched | Exception] = [Unanswered("reset"), Unanswered("late"), Fetched("NOT_LEADER_OR_FOLLOWER", b"")]
    found, rows = fetched(tmp_path, monkeypatch, Brokers({1: LOG, 2: LOG}, {2: once}))
    assert found.not_read == []
    assert len(rows) == 4


def test_a_broker_that_is_not_read_to_the_end_has_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, rows = fetched(tmp_path, monkeypatch, Brokers({1: LOG, 2: batch_bytes(0, [b"a", b"b"])}))
    (said,) = found.not_read
    assert said.startswith("the batches of broker 2 were not all fetched: t/0: no batch at offset 2 of 3")
    assert {row[0] for row in rows} == {1}


def test_a_broker_that_is_gone_is_named_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[Fetched | Exception] = [Unanswered("unknown host")] * 100_000
    found, _ = fetched(tmp_path, monkeypatch, Brokers({1: LOG, 2: LOG}, {2: gone}))
    assert "broker 2 were not all fetched: t/0: no batch at offset 0 of 3 (unknown host)" in found.not_read[0]


def test_a_log_whose_start_has_moved_is_read_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[Fetched | Exception] = [Fetched("OFFSET_OUT_OF_RANGE", b"", 2)]
    late = batch_bytes(2, [b"c"], leader_epoch=1)
    found, rows = fetched(tmp_path, monkeypatch, Brokers({1: LOG, 2: late}, {2: moved}))
    assert found.not_read == []
    assert [row for row in rows if row[0] == 2] == [(2, 2, 2, None)]


def test_a_batch_whose_checksum_is_wrong_is_damage_of_its_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = bytearray(LOG)
    broken[-1] ^= 1
    found, rows = fetched(tmp_path, monkeypatch, Brokers({1: LOG, 2: bytes(broken)}))
    assert found.damage == ["broker 2, t-0, offset 2: the checksum is wrong"]
    assert len(rows) == 4


def test_an_empty_log_needs_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, rows = fetched(tmp_path, monkeypatch, Brokers({}), snapshot(3, 3))
    assert (found.not_read, rows) == ([], [])
