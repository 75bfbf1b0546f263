"""Further sources: what a source gives before it fails is not lost."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.audit.engine.auditor import Auditor, Sources
from harness.audit.engine.failure import Failed
from harness.audit.engine.source import Row, Rows, SourceThread
from harness.audit.feeds.tier_metadata import TierRow
from harness.audit.rules.own_coverage import Blind, Overdue
from harness.audit.store.database import Database
from harness.kafka.storage.remote_log_metadata import SEGMENT, TierRecord
from harness.kafka.storage.uuids import new_uuid
from harness.model.errors import HarnessFailure
from harness.model.waiting import wait_for

ROW: Final = TierRow(
    TierRecord(
        kind=SEGMENT,
        topic="orders",
        topic_id="orders-id",
        partition=0,
        segment_id=new_uuid(),
        state="COPY_SEGMENT_FINISHED",
        base_offset=0,
        end_offset=9,
        size_bytes=100,
    ),
    past=False,
)


class BreaksOff:
    """Gives one row and then no answer, and at later polls only an end."""

    covers = "tier"
    every_s = 0.2

    def __init__(self, failures: int = 1) -> None:
        self.failures = failures
        self.polls = 0

    def poll(self) -> Iterator[Row]:
        self.polls += 1
        if self.polls == 1:
            yield ROW
        if self.polls <= self.failures:
            raise HarnessFailure("broker 1 does not answer")

    def close(self) -> None: ...


def test_rows_before_a_refusal_are_delivered_with_it() -> None:
    rows: queue.Queue[Rows | Failed] = queue.Queue()
    thread = SourceThread([BreaksOff()], rows.put)
    try:
        assert rows.get(timeout=10) == Rows("tier", (ROW,), "broker 1 does not answer")
        assert rows.get(timeout=10) == Rows("tier", ())
    finally:
        thread.close()


def test_they_count_and_the_source_covers_once_it_is_whole(tmp_path: Path) -> None:
    source = BreaksOff(failures=10)
    rules = {"blind": Blind({"silent_s": 3600}), "overdue": Overdue()}
    auditor = Auditor(Sources(others=[source]), Database(tmp_path), rules)
    stop = threading.Event()
    thread = threading.Thread(target=auditor.run, args=(stop,))
    thread.start()
    try:
        segments = auditor.state.segments
        wait_for(lambda: segments.bytes_of("orders-id", 0), until=bool, deadline_s=10, what="the row")
        assert auditor.state.tier_bytes("orders-id", 0) is None or source.polls > 10
        wait_for(lambda: auditor.state.tier_bytes("orders-id", 0), until=bool, deadline_s=10, what="a whole answer")
        assert source.polls > 10
    finally:
        stop.set()
        thread.join(20)
        auditor.close()
