"""Records in answers to fetches, compared with kafka-python's parser, and what a read_committed reader is not given."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from harness.kafka.storage.fetched_records import Given, given
from suites.unit.kafka.storage.test_record_batch import batch_bytes, marker, rechecked

FIRST_MS = 1_700_000_000_000
PRODUCER = 7
Fields = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class Aborted(NamedTuple):
    producer_id: int
    first_offset: int


def transaction(base_offset: int, *values: bytes, producer: int = PRODUCER) -> bytes:
    return batch_bytes(base_offset, values, producer=(producer, 3, 0), transactional=True)


def values(found: Given) -> list[tuple[int, bytes | None]]:
    return [(record.offset(), record.value()) for record in found.records]


optional = st.one_of(st.none(), st.binary(max_size=300))
header = st.tuples(st.text(min_size=1, max_size=5), optional)


@for_all(
    rows=st.lists(st.tuples(optional, optional, st.lists(header, max_size=3)), min_size=1, max_size=8),
    codec=st.sampled_from([0, 1]),
)
def test_records_are_those_of_another_parser(rows: list[Fields], codec: int) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for offset, (key, value, headers) in enumerate(rows):
        assert builder.append(offset, FIRST_MS + offset, key, value, headers) is not None
    data = bytes(builder.build())
    expected = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in MemoryRecords(data).next_batch()]
    found = given("t", 3, data, 0)
    mine = [(r.offset(), r.timestamp()[1], r.key(), r.value(), r.headers() or []) for r in found.records]
    assert mine == expected
    assert {(r.topic(), r.partition()) for r in found.records} == {("t", 3)}
    assert (found.next_offset, len(found.batches)) == (len(rows), 1)


def test_records_below_the_offset_and_a_batch_that_is_cut_off_are_left_out() -> None:
    data = batch_bytes(0, [b"a", b"b", b"c"]) + batch_bytes(3, [b"d"])
    found = given("t", 0, data[:-1], 1)
    assert values(found) == [(1, b"b"), (2, b"c")]
    assert found.next_offset == 3


def test_the_leader_epoch_and_the_time_of_the_append_are_those_of_the_batch() -> None:
    appended = rechecked(batch_bytes(0, [b"a", b"b"], leader_epoch=4), attributes=0x08)
    found = given("t", 0, appended, 0)
    (newest,) = {batch.max_timestamp_ms for batch in found.batches}
    assert {(r.leader_epoch(), r.timestamp()) for r in found.records} == {(4, (2, newest))}


def test_markers_are_not_given_and_are_passed() -> None:
    data = transaction(0, b"a") + marker(1, 1)
    every: tuple[list[Aborted] | None, ...] = (None, [])
    for aborted in every:
        found = given("t", 0, data, 0, aborted)
        assert (values(found), found.next_offset, len(found.batches)) == ([(0, b"a")], 2, 2)


def test_an_aborted_transaction_is_given_to_read_uncommitted_alone() -> None:
    data = transaction(0, b"gone") + transaction(1, b"kept", producer=8) + marker(2, 0) + transaction(3, b"next")
    aborted = [Aborted(PRODUCER, 0)]
    assert values(given("t", 0, data, 0)) == [(0, b"gone"), (1, b"kept"), (3, b"next")]
    found = given("t", 0, data, 0, aborted)
    assert (values(found), found.next_offset) == ([(1, b"kept"), (3, b"next")], 4)


def test_a_transaction_that_is_aborted_later_is_given_until_then() -> None:
    data = transaction(0, b"committed") + marker(1, 1) + transaction(2, b"gone") + marker(3, 0)
    assert values(given("t", 0, data, 0, [Aborted(PRODUCER, 2)])) == [(0, b"committed")]


def test_records_without_a_transaction_are_given_whatever_their_producer_aborted() -> None:
    data = batch_bytes(0, [b"plain"], producer=(PRODUCER, 3, 0))
    assert values(given("t", 0, data, 0, [Aborted(PRODUCER, 0)])) == [(0, b"plain")]


def test_a_batch_that_claims_more_records_than_it_has_is_an_error() -> None:
    data = bytearray(batch_bytes(0, [b"a"]))
    data[57:61] = (2).to_bytes(4, "big")
    with pytest.raises(ValueError, match="ends within a record"):
        given("t", 0, rechecked(data), 0)


def test_a_batch_of_another_format_is_an_error() -> None:
    data = bytearray(batch_bytes(0, [b"a"]))
    data[16] = 1
    with pytest.raises(ValueError, match="has the format 1"):
        given("t", 0, bytes(data), 0)
