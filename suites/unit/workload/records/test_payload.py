"""A value shows its stream, sequence, topic and partition, and checks that every byte of it came back."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.workload.records.keys import Keys
from harness.workload.records.payload import (
    INTACT,
    PREFIX_BYTES,
    UNDECODABLE,
    Decoded,
    Payloads,
    decode,
    headers_of,
    heads_of,
    tag_of,
)

RUN = 0xDEADBEEF12345678
VALUES = Payloads(RUN, 120, seed=1).build(7, 100, 20, "orders", 3)


def decoded(*values: bytes | None, keys: list[bytes | None] | None = None, run: int = RUN) -> Decoded:
    return decode(values, keys or [None] * len(values), run)


def test_a_value_contains_what_it_was_built_from() -> None:
    read = decoded(*VALUES)
    assert read.intact.all()
    assert set(read.stream.tolist()) == {7}
    assert read.seq.tolist() == list(range(100, 120))
    heads = heads_of(VALUES)
    assert set(heads["topic_tag"].tolist()) == {tag_of("orders")}
    assert set(heads["partition"].tolist()) == {3}


def test_every_intact_value_has_the_same_checksum() -> None:
    assert {zlib.crc32(value) for value in VALUES} == {INTACT}
    assert {len(value) for value in VALUES} == {120}


def test_bodies_differ() -> None:
    assert len({value[PREFIX_BYTES:-4] for value in VALUES}) == len(VALUES)


HEADED = Payloads(RUN, 120, seed=1, headed=True).build(7, 100, 3, "orders", 3)


@pytest.mark.parametrize(
    ("values", "headers", "intact"),
    [
        (HEADED, list(map(headers_of, HEADED)), [True] * 3),
        (HEADED, None, [False] * 3),
        (HEADED, [headers_of(HEADED[0]), None, headers_of(HEADED[1])], [True, False, False]),
        (HEADED, [headers_of(v)[:-1] for v in HEADED], [False] * 3),
        (HEADED, [headers_of(v)[::-1] for v in HEADED], [False] * 3),
        (HEADED, [[*headers_of(v), ("more", b"")] for v in HEADED], [False] * 3),
        (HEADED, [[*headers_of(v)[:-1], ("nothing", b"")] for v in HEADED], [False] * 3),
        (VALUES[:3], [None, [], None], [True] * 3),
        (VALUES[:3], [None, headers_of(VALUES[1]), None], [True, False, True]),
    ],
    ids=["right", "none", "another record's", "one less", "reversed", "one more", "empty for null", "unsent", "added"],
)
def test_a_record_is_intact_only_with_the_headers_that_were_sent(values: Any, headers: Any, intact: list[bool]) -> None:
    read = decode(values, [None] * 3, RUN, headers)
    assert read.intact.tolist() == intact
    assert read.stream.tolist() == [7] * 3


@given(st.integers(0, 119), st.integers(1, 255))
def test_any_changed_byte_is_detected(at: int, change: int) -> None:
    value = VALUES[0]
    flipped = value[:at] + bytes([value[at] ^ change]) + value[at + 1 :]
    assert not decoded(flipped).intact[0]


@pytest.mark.parametrize(
    "value", [None, b"", b"DUR1", VALUES[0][:39], b"x" * 200], ids=["null", "empty", "head", "cut", "foreign"]
)
def test_a_foreign_value_is_undecodable_and_its_neighbours_are_not(value: bytes | None) -> None:
    read = decoded(VALUES[0], value, VALUES[1])
    assert read.intact.tolist() == [True, False, True]
    assert read.stream.tolist() == [7, UNDECODABLE, 7]
    assert read.seq.tolist() == [100, UNDECODABLE, 101]


def test_a_value_of_another_run_is_undecodable() -> None:
    assert decoded(VALUES[0], run=RUN + 1).stream.tolist() == [UNDECODABLE]


def test_the_smallest_value_is_self_checking() -> None:
    (value,) = Payloads(RUN, 1, seed=1).build(1, 0, 1, "t", 0)
    assert len(value) == PREFIX_BYTES + 4
    assert decoded(value).intact.all()


def test_a_value_is_intact_only_with_its_own_key() -> None:
    keys, hashes = Keys(6).of(4, first_seq=62, count=5)
    assert {zlib.crc32(key) % 6 for key in keys} == {4}
    values = Payloads(RUN, 60, seed=1).build(1, 62, 5, "t", 4, hashes)
    assert decoded(*values, keys=list(keys)).intact.all()
    assert not decoded(*values, keys=list(keys[1:] + keys[:1])).intact.any()
    assert not decoded(*values).intact.any()


def test_a_value_without_key_is_not_intact_with_a_key() -> None:
    assert not decoded(VALUES[0], keys=[b"key"]).intact[0]


def test_a_sequence_always_has_the_same_key() -> None:
    keys = Keys(3)
    whole, _ = keys.of(1, 0, 200)
    later, hashes = keys.of(1, 150, 50)
    assert whole[150:] == later
    assert hashes.tolist() == [zlib.crc32(key) for key in later]
    assert hashes.dtype == np.int64
