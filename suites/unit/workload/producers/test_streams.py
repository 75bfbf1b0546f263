"""Streams: sequences without gaps, reserved on disk before they are sent, with a limit of unreported sends."""

from __future__ import annotations

import json
from pathlib import Path

from harness.evidence.writer import BundleWriter
from harness.workload.producers.streams import NO_TXN, RESERVE, WINDOW, Identity, Numbers, Reservations, Stream

WHO = Identity(producer="p", acks="all", idempotent=True, transactional=False, client="librdkafka 2.16.1")


def a_stream() -> Stream:
    return Stream(number=1, topic="t", topic_id="id", partition=0)


def sent(stream: Stream, count: int) -> None:
    stream.opened(stream.next_seq, count, called_ns=1, txn_id=NO_TXN, hashes=None)
    stream.next_seq += count


def reported(stream: Stream, *sequences: int) -> None:
    for seq in sequences:
        stream.pending[seq % WINDOW] = False


def test_a_range_is_on_disk_before_cover_returns(tmp_path: Path) -> None:
    table = BundleWriter(tmp_path).table("reservations", "p")
    reservations = Reservations(table, WHO)
    stream = a_stream()
    for end in (1, RESERVE, RESERVE + 1, 5 * RESERVE):
        reservations.cover(stream, end)
        rows = [json.loads(line) for line in (tmp_path / "reservations" / "p.jsonl").read_text().splitlines()]
        assert rows[-1]["end_seq"] >= end
    table.close()
    assert [row["first_seq"] for row in rows] == [0, *(row["end_seq"] for row in rows[:-1])]
    assert len(rows) == 3
    assert rows[0]["idempotent"] is True


def test_a_stream_accepts_at_most_one_window() -> None:
    stream = a_stream()
    assert stream.room(10 * WINDOW) == WINDOW
    sent(stream, WINDOW)
    assert stream.room(1) == 0


def test_room_ends_at_the_oldest_unreported_sequence() -> None:
    stream = a_stream()
    sent(stream, WINDOW)
    reported(stream, *range(10), *range(11, 20))
    assert stream.room(100) == 10


def test_unreported_sequences_are_found_across_the_end_of_the_ring() -> None:
    stream = a_stream()
    sent(stream, WINDOW)
    reported(stream, *range(WINDOW - 2))
    sent(stream, 3)
    reported(stream, WINDOW + 1)
    assert stream.unreported().tolist() == [WINDOW - 2, WINDOW - 1, WINDOW, WINDOW + 2]


def test_numbers_are_unique() -> None:
    numbers = Numbers()
    assert len({numbers.stream() for _ in range(5)} | {numbers.stream()}) == 6
    assert numbers.transaction() == 1
