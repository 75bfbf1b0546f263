"""The shapes of values (null, empty, sizes), and the certificates of records without a value."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Any

import numpy as np
import pytest

from harness.model.scenario.scenario import Producer
from harness.workload.producers.recording_producer import records_of
from harness.workload.records.payload import (
    EMPTY,
    INTACT,
    NULL,
    SELF,
    UNDECODABLE,
    VALUE_BYTES_MIN,
    WHOLE,
    Payloads,
    decode,
)
from harness.workload.records.value_shapes import Forms

RUN = 0xDEADBEEF12345678
SEQUENCES = np.arange(100, 104)
FORMS = np.array([WHOLE, EMPTY, NULL, NULL], np.int8)
KEYS = [b"key-%d" % n for n in range(4)]
HASHES = np.array([zlib.crc32(key) for key in KEYS], np.int64)
BUILT = Payloads(RUN, 120, seed=1).build(7, 100, 4, "orders", 3, HASHES, FORMS)
SENT = records_of(BUILT, KEYS, headed=False, forms=FORMS)


def spec(**fields: Any) -> Producer:
    return Producer(name="p", topics=("t",), **fields)


def read(sent: list[dict[str, Any]]) -> tuple[list[bool], list[int]]:
    """The columns `intact` and `seq` of these records, as a reader decodes them."""
    found = decode([m["value"] for m in sent], [m.get("key") for m in sent], RUN, [m.get("headers") for m in sent])
    return found.intact.tolist(), found.seq.tolist()


def changed(at: int, **fields: Any) -> list[dict[str, Any]]:
    return [message | (fields if n == at else {}) for n, message in enumerate(SENT)]


def test_records_without_a_value_are_intact_by_their_certificate() -> None:
    assert [m["value"] and len(m["value"]) for m in SENT] == [120, b"", None, None]
    assert [[name for name, _ in m.get("headers", ())] for m in SENT] == [[], [SELF], [SELF], [SELF]]
    assert {zlib.crc32(value) for value in BUILT} == {INTACT}
    assert read(SENT) == ([True] * 4, [100, 101, 102, 103])


@pytest.mark.parametrize(
    ("sent", "at"),
    [
        (changed(2, value=b""), 2),
        (changed(1, value=None), 1),
        (changed(2, key=KEYS[0]), 2),
        (changed(2, key=None), 2),
        (changed(1, value=BUILT[1]), 1),
        (changed(1, value=BUILT[1], headers=None), 1),
        (changed(2, value=BUILT[0]), 2),
    ],
    ids=["null to empty", "empty to null", "another key", "no key", "both", "in place", "a value beside a certificate"],
)
def test_a_record_that_became_another_kind_of_record_is_not_intact(sent: list[dict[str, Any]], at: int) -> None:
    assert read(sent)[0] == [n != at for n in range(4)]


@pytest.mark.parametrize(
    "headers",
    [None, [], [("other", BUILT[2])], [(SELF, None)], [(SELF, "text")], [(SELF, BUILT[2]), ("more", b"")]],
    ids=["none", "empty", "another name", "null", "text", "one more"],
)
def test_a_null_value_without_its_certificate_is_undecodable(headers: Any) -> None:
    intact, sequences = read(changed(2, headers=headers))
    assert intact == [True, True, False, True]
    assert sequences == [100, 101, UNDECODABLE, 103]


def test_headers_of_whole_records_are_checked_in_a_poll_with_certificates() -> None:
    built = Payloads(RUN, 120, seed=1, headed=True).build(7, 100, 4, "orders", 3, HASHES, FORMS)
    sent = records_of(built, KEYS, headed=True, forms=FORMS)
    assert read(sent)[0] == [True] * 4
    assert read([message | ({"headers": None} if n == 0 else {}) for n, message in enumerate(sent)])[0] == [
        False,
        True,
        True,
        True,
    ]


def test_the_share_of_null_and_empty_values_is_exact_and_repeatable() -> None:
    forms, sequences = Forms(spec(keyed=True, tombstones=0.1, empty=0.2)), np.arange(10_000)
    first = forms.of(3, sequences)
    assert first is not None
    counts = Counter(first.tolist())
    assert 990 <= counts[NULL] <= 1010
    assert 1990 <= counts[EMPTY] <= 2010
    again = forms.of(3, sequences[500:600])
    assert again is not None
    assert again.tolist() == first[500:600].tolist()
    words = forms.words(3, sequences)
    assert words is not None
    assert Counter(words) == {"null": counts[NULL], "empty": counts[EMPTY], None: counts[WHOLE]}


def test_every_key_has_tombstones_and_values() -> None:
    forms = Forms(spec(keyed=True, tombstones=0.1)).of(1, np.arange(6400))
    assert forms is not None
    of_each = (forms.reshape(100, 64) == NULL).sum(axis=0)  # 64 keys in turn
    assert of_each.min() >= 5
    assert of_each.max() <= 15


def test_whole_values_of_one_size_need_no_arrays() -> None:
    forms = Forms(spec())
    assert (forms.of(1, SEQUENCES), forms.words(1, SEQUENCES), forms.sizes(1, SEQUENCES)) == (None, None, None)


def test_each_size_is_equally_frequent() -> None:
    wanted = (VALUE_BYTES_MIN, 200, 5000)
    forms = Forms(spec(sizes=wanted, empty=0.25))
    sequences = np.arange(3000)
    sizes, of = forms.sizes(1, sequences), forms.of(1, sequences)
    assert sizes is not None
    assert of is not None
    values = Payloads(RUN, 5000, seed=1).build(1, 0, 3000, "t", 0, None, of, sizes)
    counts = Counter(len(value) for value, form in zip(values, of.tolist(), strict=True) if form == WHOLE)
    assert counts.keys() == set(wanted)
    assert all(735 <= count <= 765 for count in counts.values())
    assert read(records_of(values, None, headed=False, forms=of))[0] == [True] * 3000
