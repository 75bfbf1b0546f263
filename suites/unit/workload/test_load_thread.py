"""A thread of the load reports how it ended; one that hangs loses its tables, so that no later row is torn."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import pyarrow.dataset as ds
import pytest

from harness.evidence.writer import BundleWriter, TableWriter
from harness.model.waiting import wait_for
from harness.workload.load_thread import LoadThread

ROW: Final = {"processor": "p", "topic": "t", "topic_id": "T", "partition": 0, "stream": 1}
RESERVATION: Final = {
    "stream": 1,
    "producer": "p",
    "topic": "t",
    "topic_id": "T",
    "partition": 0,
    "first_seq": 0,
    "end_seq": 10,
    "acks": "all",
    "idempotent": True,
    "transactional": False,
    "client": "c",
    "reserved_ns": 1,
}


class Sleeper(LoadThread):
    """Writes a row, waits until it is released, and writes another row into the same table."""

    def __init__(self, table: TableWriter, first: dict[str, object], second: dict[str, object]) -> None:
        super().__init__("producer", "sleeper")
        self.tables = [table]
        self.release = threading.Event()
        self.has_written = threading.Event()
        self._rows = first, second

    def _live(self) -> None:
        (table,) = self.tables
        first, second = self._rows
        table.append(first)
        self.has_written.set()
        self.release.wait()
        table.append(second)


@pytest.mark.parametrize("table", ["processed", "reservations"])
def test_a_thread_that_hangs_is_a_doubt_and_writes_no_row_after_its_deadline(tmp_path: Path, table: str) -> None:
    bundle = BundleWriter(tmp_path)
    rows = {"processed": (ROW | {"offset": 5, "seq": 0}, ROW | {"offset": 6, "seq": 1})}
    first, second = rows.get(table, (RESERVATION, RESERVATION | {"first_seq": 10, "end_seq": 20}))
    thread = Sleeper(bundle.table(table, "p"), first, second)
    thread.start()
    assert thread.has_written.wait(10)
    doubt = thread.join(0.01)
    assert doubt == ("producer sleeper hangs: it did not end within 0 s; its tables were closed without its last rows")
    thread.release.set()
    wait_for(lambda: thread.failure, until=bool, deadline_s=10, what="the second row to be rejected")
    bundle.close()
    if table == "processed":
        found = ds.dataset(tmp_path / table, format="parquet").to_table()["offset"].to_pylist()
        assert found == [5]
    else:
        assert len((tmp_path / table / "p.jsonl").read_text().splitlines()) == 1


class Failing(LoadThread):
    """Ends with an exception, or without one."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__("reader", "r")
        self._error = error

    def _live(self) -> None:
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize(("error", "doubt"), [(None, None), (KeyError("x"), "reader r died: KeyError: 'x'")])
def test_an_exception_that_ends_a_thread_is_a_doubt(error: Exception | None, doubt: str | None) -> None:
    thread = Failing(error)
    thread.start()
    assert thread.join(10) == doubt
