"""The scan of replicas that are assembled from real batches: its rows, and the damage that it reports."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.evidence import BundleWriter
from harness.kafka.storage import segment_scan as scrubbing
from harness.kafka.storage.segment_scan import Scrubbed, empty_segments_of, lineages_of, scrub
from harness.model.documents.cluster import EmptySegment, Lineage
from harness.model.schemas import BATCHES
from suites.unit.kafka.storage.test_record_batch import batch_bytes, marker

TOPIC_ID = "1sMGKL_jQ6yPWNg4RFZdww"


class Table:
    """Keeps what is appended."""

    def __init__(self) -> None:
        self.appended: list[Mapping[str, Any]] = []

    def append(self, columns: Mapping[str, Any]) -> None:
        self.appended.append(columns)

    def column(self, name: str) -> list[Any]:
        return [value for columns in self.appended for value in np.asarray(columns[name]).tolist()]


def replica(directory: Path, name: str, files: dict[int, bytes], epochs: str = "0\n1\n0 0\n") -> Path:
    path = directory / name
    path.mkdir(parents=True)
    for base, data in files.items():
        (path / f"{base:020}.log").write_bytes(data)
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    (path / "leader-epoch-checkpoint").write_text(epochs)
    return path


def scrubbed(directory: Path) -> tuple[Scrubbed, Table]:
    table = Table()
    return scrub({1: [directory]}, ["orders"], table), table


def whats(seen: Scrubbed) -> list[str]:
    return [damage.what for damage in seen.damage]


FIRST = batch_bytes(0, [b"a"] * 3, producer=(4, 0, 0), transactional=True)
COMMIT = marker(3, 1)
THIRD = batch_bytes(4, [b"c" * 500] * 2, codec=1)


def test_rows_have_the_columns_of_the_evidence(tmp_path: Path) -> None:
    replica(tmp_path / "logs", "orders-0", {0: FIRST + COMMIT, 4: THIRD})
    replica(tmp_path / "logs", "other-0", {0: FIRST})
    bundle = BundleWriter(tmp_path / "bundle")
    table = bundle.table("batches", "disks")
    seen = scrub({2: [tmp_path / "logs"]}, ["orders"], table)
    table.close()
    assert (seen.replicas, seen.batches, seen.damage) == (1, 3, [])
    assert seen.size_bytes == len(FIRST + COMMIT + THIRD)
    # On a loaded machine the writer begins a new part after two seconds.
    parts = sorted((tmp_path / "bundle" / "batches").glob("*.parquet"))
    rows = [row for part in parts for row in pq.read_table(part).to_pylist()]
    assert rows[0].keys() == BATCHES.keys()
    assert [(r["segment"], r["base_offset"], r["last_offset"], r["count"]) for r in rows] == [
        (0, 0, 2, 3),
        (0, 3, 3, 1),
        (4, 4, 5, 2),
    ]
    assert [r["control"] for r in rows] == [None, "commit", None]
    assert [r["codec"] for r in rows] == ["none", "none", "gzip"]
    assert {(r["broker"], r["topic"], r["topic_id"], r["partition"]) for r in rows} == {(2, "orders", TOPIC_ID, 0)}
    assert (rows[0]["producer_id"], rows[0]["producer_epoch"], rows[0]["base_sequence"]) == (4, 0, 0)


def test_a_flipped_byte_is_reported_as_damage(tmp_path: Path) -> None:
    data = bytearray(FIRST + COMMIT)
    data[len(FIRST) - 2] ^= 1
    replica(tmp_path, "orders-0", {0: bytes(data)})
    seen, table = scrubbed(tmp_path)
    assert whats(seen) == ["the checksum is wrong"]
    assert str(seen.damage[0]) == "broker 1, orders-0, segment 0, byte 0: the checksum is wrong"
    assert table.column("crc_ok") == [False, True]


def test_a_torn_tail_is_reported_as_damage(tmp_path: Path) -> None:
    replica(tmp_path, "orders-0", {0: FIRST + COMMIT[:-3]})
    seen, table = scrubbed(tmp_path)
    assert table.column("base_offset") == [0]
    size = len(COMMIT)
    assert whats(seen) == [
        f"{size - 3} bytes after the last batch: a batch of {size} bytes, of which {size - 3} are there"
    ]
    assert seen.damage[0].position == len(FIRST)


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({0: FIRST + FIRST}, "offset 0 after 2"),
        ({0: FIRST, 2: THIRD, 4: batch_bytes(5, [b"x"])}, "offset 5 after 5"),
        ({3: FIRST}, "offset 0 in segment 3"),
        (
            {0: batch_bytes(0, [b"x"], leader_epoch=3), 1: batch_bytes(1, [b"y"], leader_epoch=2)},
            "leader epoch 2 after 3",
        ),
    ],
)
def test_wrong_order_across_batches_and_segments_is_reported(
    tmp_path: Path, files: dict[int, bytes], what: str
) -> None:
    replica(tmp_path, "orders-0", files)
    assert whats(scrubbed(tmp_path)[0]) == [what]


def test_gaps_left_by_compaction_are_not_damage(tmp_path: Path) -> None:
    replica(tmp_path, "orders-0", {0: FIRST + batch_bytes(50, [b"x"])})
    assert whats(scrubbed(tmp_path)[0]) == []


def test_a_damaged_topic_id_is_reported_and_does_not_end_the_scan(tmp_path: Path) -> None:
    path = replica(tmp_path, "orders-0", {0: FIRST})
    (path / "partition.metadata").write_text("")
    seen, table = scrubbed(tmp_path)
    assert seen.batches == 1
    assert "names no topic id" in whats(seen)[0]
    assert table.appended[0]["topic_id"] == ""


def test_a_replica_deleted_during_the_scan_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = replica(tmp_path, "orders-0", {0: FIRST})
    replica(tmp_path, "orders-1", {0: FIRST})

    def deleting(path: Path) -> str | None:
        if path == gone and path.exists():
            shutil.rmtree(path)
        return TOPIC_ID

    monkeypatch.setattr(scrubbing, "topic_id", deleting)
    seen, table = scrubbed(tmp_path)
    assert (whats(seen), seen.batches) == ([], 1)
    assert [columns["partition"] for columns in table.appended] == [1]


def test_lineages_hold_the_leader_epochs_of_each_replica(tmp_path: Path) -> None:
    replica(tmp_path / "1", "orders-0", {}, epochs="0\n2\n0 0\n4 17\n")
    replica(tmp_path / "2", "orders-0", {}, epochs="0\n7\n0 0\n")
    sound, damaged = lineages_of({1: [tmp_path / "1"], 2: [tmp_path / "2"]}, ["orders"])
    assert sound == Lineage(broker=1, topic="orders", partition=0, epochs=((0, 0), (4, 17)))
    assert damaged.epochs == ()
    assert "has 1 entries, but its count is 7" in (damaged.error or "")


def test_segments_without_a_byte_are_found_except_for_the_last_one(tmp_path: Path) -> None:
    folder = replica(tmp_path / "1", "orders-0", {0: FIRST, 7: b"", 12: FIRST})
    replica(tmp_path / "2", "orders-0", {0: FIRST, 12: b""})
    os.utime(folder / f"{7:020}.log", ns=(0, 5_999_999))
    found = empty_segments_of({1: [tmp_path / "1"], 2: [tmp_path / "2"]}, ["orders"])
    assert found == (EmptySegment(broker=1, topic="orders", partition=0, base_offset=7, modified_ms=5),)
