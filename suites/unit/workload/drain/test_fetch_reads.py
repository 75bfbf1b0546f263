"""Reads of a follower by requests to its own broker: what is recorded, and when a read counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from harness.evidence.writer import BundleWriter
from harness.kafka.admin.replica_fetch import Aborted, Fetched, Wanted
from harness.kafka.admin.wire import Unanswered
from harness.model.documents.record import Isolation
from harness.model.place import Place
from harness.model.wait_budget import WaitBudget
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.drain import fetch_reads
from harness.workload.drain.fetch_reads import DirectFetch, FetchReader
from harness.workload.drain.replica_reads import Copy, ReadTimeouts
from harness.workload.producers.recording_producer import Target
from suites.unit.kafka.storage.test_record_batch import batch_bytes, marker

PLACE = ("t", 0)
COPY = Copy(topic="t", partition=0, leader=1, logs={1: (0, 4), 2: (0, 4)})
CONTEXT = ReadContext(bootstrap="", targets={"t": Target(topic="t", topic_id="id", partitions=1)}, run=1)
ABORTED = (
    batch_bytes(0, [b"gone"], producer=(7, 3, 0), transactional=True) + marker(1, 0) + batch_bytes(2, [b"c", b"d"])
)
Answer = Fetched | Exception


class Broker:
    """Answers in turn, and the last answer for ever."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[int] = []

    def fetch(
        self, _: object, wanted: Sequence[Wanted], isolation: Isolation, timeout_s: float
    ) -> dict[Place, Fetched]:
        assert isolation
        assert timeout_s > 0
        (one,) = wanted
        self.asked.append(one.offset)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {PLACE: answer}


class FakeLink:
    def __init__(self, *_: object) -> None: ...

    def close(self) -> None: ...


def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, broker: Broker, isolation: Isolation = "read_committed"
) -> tuple[FetchReader, list[int]]:
    monkeypatch.setattr(fetch_reads, "fetch_replicas", broker.fetch)
    monkeypatch.setattr(fetch_reads, "Link", FakeLink)
    monkeypatch.setattr(fetch_reads, "_PAUSE_S", 0.001)
    timeouts = ReadTimeouts(stall_s=0.1, total_s=5, budget=WaitBudget())
    reader = FetchReader(
        CONTEXT, [COPY], {}, DirectFetch({2: ("h", 2)}), isolation=isolation, broker=2, timeouts=timeouts
    )
    bundle = BundleWriter(folder / "bundle")
    reader.run(bundle.table("observations", reader.name))
    bundle.close()
    table = folder / "bundle" / "observations"
    rows = ds.dataset(table, format="parquet").to_table().to_pylist()
    return reader, [row["offset"] for row in rows]


def test_a_read_counts_when_it_is_at_the_log_end_of_every_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, rows = run(tmp_path, monkeypatch, Broker(Fetched(None, ABORTED, 0, (Aborted(7, 0),))))
    assert reader.name == "replica-2-committed"
    assert reader.failed() == []
    assert reader.reads[PLACE].served_by == {2}
    assert rows == [2, 3]


def test_read_uncommitted_gets_what_was_aborted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, rows = run(tmp_path, monkeypatch, Broker(Fetched(None, ABORTED, 0)), "read_uncommitted")
    assert rows == [0, 2, 3]


def test_a_read_goes_on_after_errors_and_broken_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, rest = batch_bytes(0, [b"a", b"b"]), batch_bytes(2, [b"c", b"d"])
    broker = Broker(
        Unanswered("reset"),
        Fetched("NOT_LEADER_OR_FOLLOWER", b""),
        Fetched(None, first, 0),
        Fetched(None, b"", 0),
        Fetched(None, rest, 0),
    )
    reader, rows = run(tmp_path, monkeypatch, broker)
    assert (rows, reader.failed()) == ([0, 1, 2, 3], [])
    assert broker.asked == [0, 0, 0, 2, 2]


def test_a_read_that_stalls_does_not_count_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(Fetched(None, batch_bytes(0, [b"a", b"b"]), 0), Fetched("OFFSET_NOT_AVAILABLE", b""))
    reader, rows = run(tmp_path, monkeypatch, broker)
    assert rows == [0, 1]
    assert reader.failed() == reader.unsure() == [PLACE]
    said = str(reader.reads[PLACE].stuck_reason)
    assert said.startswith("t[0] is stuck at offset 2 of 4 after")
    assert said.endswith("read as read_committed from broker 2: OFFSET_NOT_AVAILABLE")


def test_records_that_cannot_be_decoded_are_no_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = bytearray(batch_bytes(0, [b"a"] * 4))
    broken[57:61] = (9).to_bytes(4, "big")
    reader, rows = run(tmp_path, monkeypatch, Broker(Fetched(None, bytes(broken), 0)))
    assert rows == []
    assert "ends within a record" in str(reader.reads[PLACE].stuck_reason)


def test_a_start_that_has_moved_begins_a_new_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(Fetched("OFFSET_OUT_OF_RANGE", b"", 2), Fetched(None, batch_bytes(2, [b"c", b"d"]), 2))
    reader, rows = run(tmp_path, monkeypatch, broker)
    assert (rows, reader.failed(), broker.asked) == ([2, 3], [], [0, 2])


def test_the_leaders_own_copies_are_not_read_twice() -> None:
    direct = DirectFetch({1: ("h", 1)})
    reader = FetchReader(CONTEXT, [COPY], {}, direct, isolation="read_committed", broker=1, timeouts=ReadTimeouts())
    assert reader.reads == {}
