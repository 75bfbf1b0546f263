"""The memory of the probe, also after a crash."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from harness.workload.probe.ledger import FILE, Acked, ProbeLedger


def test_no_sequence_number_is_used_twice_after_a_crash(tmp_path: Path) -> None:
    ledger = ProbeLedger(tmp_path)
    assert [ledger.next_seq(0) for _ in range(3)] == [0, 1, 2]
    crashed = ProbeLedger(tmp_path)  # the first one never saved anything by itself
    assert crashed.next_seq(0) == 100
    assert crashed.next_seq(1) == 0
    assert [crashed.next_seq(0) for _ in range(100)][-1] == 200
    for one in (ledger, crashed):
        one.close()


def test_acknowledged_records_are_expected_until_they_are_old(tmp_path: Path) -> None:
    ledger = ProbeLedger(tmp_path)
    for offset in range(5):
        ledger.add(0, offset, 10 + offset, at_ms=1000 * offset)
    ledger.save()
    ledger.close()
    ledger = ProbeLedger(tmp_path)
    assert ledger.expected(0, 1, 3) == [Acked(1, 11), Acked(2, 12)]
    assert (ledger.span(0), ledger.span(1)) == ((0, 4), None)
    ledger.forget(2000)
    assert ledger.span(0) == (2, 4)
    ledger.move(0, 4, 9)
    assert ledger.expected(0, 4, 10) == [Acked(9, 14)]
    ledger.close()


def test_another_topic_begins_with_nothing(tmp_path: Path) -> None:
    ledger = ProbeLedger(tmp_path)
    ledger.begin(topic="a", topic_id="A", run="1")
    ledger.add(0, 0, ledger.next_seq(0), at_ms=1)
    ledger.begin(topic="b", topic_id="B", run="2")
    assert (ledger.fact("topic_id"), ledger.span(0), ledger.next_seq(0)) == ("B", None, 0)
    ledger.close()
    with sqlite3.connect(tmp_path / FILE) as kept:
        assert kept.execute("SELECT count(*) FROM acked").fetchone() == (0,)
    kept.close()
