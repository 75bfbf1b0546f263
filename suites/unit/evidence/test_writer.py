"""Appended rows are on disk, complete and typed. Rows that do not fit their table are refused by the writer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.evidence import BundleWriter
from harness.evidence import writer as writer_module
from harness.evidence.columns import arrow_schema
from harness.model.contract.contract import contract_of
from harness.model.documents.manifest import Origin
from harness.model.documents.run import Run
from harness.model.errors import HarnessFailure
from harness.model.scenario.scenario import Scenario
from harness.model.schemas import COUNTED, FORMAT_VERSION, TABLES, WORDS
from harness.model.waiting import wait_for

ROW = {
    "stream": 1,
    "topic": "t",
    "topic_id": "A",
    "partition": 2,
    "outcome": "acked",
    "called_ns": 1_795_265_533_567_153_459,
    "returned_ns": 1_795_265_533_567_153_460,
}
RESERVATION = {
    "producer": "p",
    "topic": "t",
    "topic_id": "A",
    "partition": 0,
    "first_seq": 0,
    "end_seq": 10,
    "acks": "all",
    "idempotent": True,
    "transactional": False,
    "client": "c",
    "reserved_ns": 1,
}


def rows_of(folder: Path) -> list[dict[str, Any]]:
    parts = sorted(folder.glob("*.parquet"))
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


def test_scalars_arrays_lists_and_masks_come_back_as_they_were(tmp_path: Path) -> None:
    table = BundleWriter(tmp_path).table("ledger", "p")
    masked = np.ma.MaskedArray(np.array([7, -1], dtype=np.int64), mask=[False, True])
    table.append({**ROW, "seq": np.array([0, 1]), "offset": masked, "error": [None, "_TIMED_OUT"]})
    table.append({**ROW, "seq": pa.array([2]), "offset": [9], "outcome": np.array(["unknown"])})
    table.append({**ROW, "seq": 3, "key_hash": np.int64(5)})
    table.close()
    rows = rows_of(tmp_path / "ledger")
    assert [row["seq"] for row in rows] == [0, 1, 2, 3]
    assert [row["offset"] for row in rows] == [7, None, 9, None]
    assert [row["error"] for row in rows] == [None, "_TIMED_OUT", None, None]
    assert [row["outcome"] for row in rows] == ["acked", "acked", "unknown", "acked"]
    assert [row["key_hash"] for row in rows] == [None, None, None, 5]
    assert {row["called_ns"] for row in rows} == {ROW["called_ns"]}


@pytest.mark.parametrize("name", [name for name in TABLES if name != "reservations"])
def test_every_table_has_exactly_the_declared_columns(tmp_path: Path, name: str) -> None:
    samples: dict[str, Any] = {"int32": 1, "int64": 1 << 40, "string": "x", "bool": True}
    table = BundleWriter(tmp_path).table(name, "w")
    table.append({column: samples[kind] for column, kind in TABLES[name].items() if not kind.endswith("?")})
    table.close()
    read = pq.read_table(tmp_path / name / "w-0.parquet")
    assert read.schema.names == list(TABLES[name])
    assert read.schema.types == arrow_schema(name).types


def test_parts_rotate_by_rows_and_arrays_may_be_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "ROTATE_ROWS", 10_000)
    table = BundleWriter(tmp_path).table("ledger", "p")
    seq = np.arange(3_000)
    for _ in range(10):
        table.append({**ROW, "seq": seq, "offset": seq})
        seq += 3_000
    table.close()
    parts = sorted((tmp_path / "ledger").glob("*.parquet"))
    assert [pq.read_metadata(part).num_rows for part in parts] == [12_000, 12_000, 6_000]
    assert [row["seq"] for row in rows_of(tmp_path / "ledger")] == list(range(30_000))


def test_nulls_of_an_earlier_part_do_not_leak_into_the_next(tmp_path: Path) -> None:
    table = BundleWriter(tmp_path).table("ledger", "p")
    table.append({**ROW, "seq": np.arange(3), "offset": [None, None, None]})
    table.flush()
    table.append({**ROW, "seq": np.arange(3, 6), "offset": np.arange(3, 6)})
    table.close()
    assert [row["offset"] for row in rows_of(tmp_path / "ledger")] == [None, None, None, 3, 4, 5]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({**ROW, "seq": [0, 1], "offset": [1]}, "different lengths"),
        ({**ROW, "seq": 0, "sequence": 1}, "no columns ['sequence']"),
        ({**ROW}, "column seq must be given"),
        ({**ROW, "seq": [0, None]}, "column seq has nulls"),
        ({**ROW, "seq": 0, "topic": [None]}, "column topic has nulls"),
        ({**ROW, "seq": np.array([0.5])}, "column seq"),
        ({**ROW, "seq": 0, "partition": 1 << 40}, "column partition"),
    ],
)
def test_rows_that_do_not_fit_are_refused(tmp_path: Path, columns: dict[str, Any], said: str) -> None:
    table = BundleWriter(tmp_path).table("ledger", "p")
    with pytest.raises(HarnessFailure) as refusal:
        table.append(columns)
    assert "ledger/p" in str(refusal.value)
    assert said in str(refusal.value)


def test_a_refused_row_leaves_nothing_behind(tmp_path: Path) -> None:
    table = BundleWriter(tmp_path).table("ledger", "p")
    table.append({**ROW, "seq": 0})
    with pytest.raises(HarnessFailure):
        table.append({**ROW, "seq": [1], "offset": "x"})
    table.append({**ROW, "seq": 2})
    table.close()
    assert [row["seq"] for row in rows_of(tmp_path / "ledger")] == [0, 2]


def test_two_writers_of_one_name_and_rows_after_the_seal_are_refused(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path)
    table = bundle.table("ledger", "p")
    with pytest.raises(HarnessFailure, match="name of its own"):
        bundle.table("ledger", "p")
    bundle.seal(Origin())
    with pytest.raises(HarnessFailure, match="closed"):
        table.append({**ROW, "seq": 0})
    with pytest.raises(HarnessFailure, match="holds files already"):
        BundleWriter(tmp_path)


def test_a_reservation_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    table = BundleWriter(tmp_path).table("reservations", "p")
    table.append({**RESERVATION, "stream": [1, 2]})
    lines = (tmp_path / "reservations" / "p.jsonl").read_text().splitlines()
    assert [json.loads(line)["stream"] for line in lines] == [1, 2]
    with pytest.raises(HarnessFailure, match="stream must be given"):
        table.append(RESERVATION)
    table.close()


CRASHING = """
import sys, time
from pathlib import Path
from harness.evidence import BundleWriter
from suites.unit.evidence.test_writer import ROW
import numpy as np
table = BundleWriter(Path(sys.argv[1])).table("ledger", "p")
for at in range(0, 1 << 40, 1000):
    table.append({**ROW, "seq": np.arange(at, at + 1000)})
    if at == 1_000_000:
        print("on", flush=True)
"""


def test_after_sigkill_every_part_is_whole(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CRASHING, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"on\n"
        os.kill(child.pid, signal.SIGKILL)
    seqs = sorted(row["seq"] for row in rows_of(tmp_path / "ledger"))
    assert len(seqs) >= 800_000
    assert seqs == list(range(len(seqs)))


def test_time_rotates_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = BundleWriter(tmp_path).table("ledger", "p")
    table.append({**ROW, "seq": 0})
    assert rows_of(tmp_path / "ledger") == []
    later = time.monotonic() + writer_module.ROTATE_AFTER_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    table.append({**ROW, "seq": 1})
    assert [row["seq"] for row in rows_of(tmp_path / "ledger")] == [0, 1]


def test_the_seal_merges_small_parts_and_no_others(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path)
    table = bundle.table("ledger", "p")
    other = bundle.table("ledger", "p-2")
    for start, count in [(0, 10), (10, 150_000), (150_010, 10), (150_020, 70_000), (220_020, 60_000), (280_020, 5)]:
        table.append({**ROW, "seq": np.arange(start, start + count), "error": f"part {start}"})
        table.flush()
    other.append({**ROW, "seq": 1_000_000})
    bundle.seal(Origin())
    parts = sorted(path.name for path in (tmp_path / "ledger").iterdir())
    assert parts == ["p-0.parquet", "p-1.parquet", "p-2-0.parquet"]
    sizes = [pq.read_metadata(tmp_path / "ledger" / name).num_rows for name in parts]
    assert sizes == [130_025, 150_000, 1]
    rows = rows_of(tmp_path / "ledger")
    assert sorted(row["seq"] for row in rows) == [*range(280_025), 1_000_000]
    assert {row["error"] for row in rows if 150_020 <= row["seq"] < 220_020} == {"part 150020"}
    assert set(json.loads((tmp_path / "manifest.json").read_text())["files"]) == {f"ledger/{name}" for name in parts}


def test_every_table_declares_its_words_and_counts() -> None:
    assert set(WORDS) == set(COUNTED) == set(TABLES)
    assert all(set(WORDS[table]) | set(COUNTED[table]) <= set(TABLES[table]) for table in TABLES)


def _until(held: Callable[[], bool]) -> None:
    wait_for(held, until=bool, deadline_s=30, what="the other thread to get on", interval_s=0.001)


@pytest.mark.parametrize("table", ["ledger", "reservations"])
def test_a_thread_that_appends_while_the_bundle_closes_leaves_whole_rows_or_is_refused(
    tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hung worker is a daemon thread that goes on. Each append is 50 rows of one `seq`, by which a torn one shows."""
    monkeypatch.setattr(writer_module, "ROTATE_ROWS", 500)
    bundle = BundleWriter(tmp_path)
    writers = [bundle.table(table, f"w{n}") for n in range(3)]
    accepted: list[list[int]] = [[] for _ in writers]
    refused: list[str] = []

    def work(n: int) -> None:
        number = {"seq": 0} if table == "ledger" else {"stream": 0}
        row = ROW if table == "ledger" else RESERVATION
        for at in range(1 << 20):
            try:
                writers[n].append({**row, **dict.fromkeys(number, np.full(50, at))})
            except HarnessFailure as late:
                refused.append(str(late))
                return
            accepted[n].append(at)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(len(writers))]
    for thread in threads:
        thread.start()
    _until(lambda: all(len(done) >= 20 for done in accepted))
    bundle.close()
    for thread in threads:
        thread.join(30)
    assert len(refused) == len(writers)
    assert all("the bundle is closed" in sentence for sentence in refused)
    for n, done in enumerate(accepted):
        assert _numbers_of(tmp_path / table, f"w{n}") == [at for at in done for _ in range(50)]


def _numbers_of(folder: Path, writer: str) -> list[int]:
    if folder.name == "reservations":
        return [json.loads(line)["stream"] for line in (folder / f"{writer}.jsonl").read_text().splitlines()]
    parts = sorted(folder.glob(f"{writer}-*.parquet"), key=lambda part: int(part.stem.rpartition("-")[2]))
    return [row["seq"] for part in parts for row in pq.read_table(part).to_pylist()]


def test_a_closed_bundle_opens_no_table(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path)
    reservations = bundle.table("reservations", "p")
    bundle.seal(Origin())
    with pytest.raises(HarnessFailure, match="ledger/late: the bundle is closed"):
        bundle.table("ledger", "late")
    with pytest.raises(HarnessFailure, match="reservations/p: the bundle is closed"):
        reservations.append({**RESERVATION, "stream": 1})
    reservations.flush()
    assert not (tmp_path / "ledger").exists()
    assert (tmp_path / "reservations" / "p.jsonl").read_text() == ""


def test_run_json_says_its_format_version_from_the_first_moment(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path)
    bundle.document("run", Run(finished=False, contract=contract_of(Scenario(name="s", title="", property=""))))
    bundle.document("steps", [])
    assert json.loads((tmp_path / "run.json").read_text())["format_version"] == FORMAT_VERSION
    assert json.loads((tmp_path / "steps.json").read_text()) == []
