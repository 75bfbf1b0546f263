"""Headers of requests and errors of answers, as they are on the wire."""

from __future__ import annotations

import pytest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import HeartbeatRequest, OffsetCommitRequest
from kafka.protocol.producer import EndTxnRequest, EndTxnResponse, TxnOffsetCommitRequest

from harness.kafka.storage.request_frames import (
    APIS,
    Generation,
    Head,
    correlation_of,
    errors_of,
    generation_of,
    head_of,
)


def end_txn(version: int, client: str = "held-1f") -> bytes:
    request = EndTxnRequest(transactional_id="held", producer_id=7, producer_epoch=2, committed=True)
    return encoded(request, version, client)


def encoded(request: ApiMessage, version: int, client: str = "held-1f") -> bytes:
    request.API_VERSION = version
    request.with_header(correlation_id=77, client_id=client)
    return bytes(request.encode(header=True))


def answer(version: int, code: int) -> bytes:
    reported = EndTxnResponse(throttle_time_ms=0, error_code=code, version=version)
    reported.with_header(correlation_id=77)
    return bytes(reported.encode(header=True))


@pytest.mark.parametrize("version", [0, 1, 3, 5])
def test_the_header_of_a_request_names_its_api_and_client(version: int) -> None:
    assert head_of(end_txn(version)) == Head("EndTxn", version, 77, "held-1f")


@pytest.mark.parametrize("version", [0, 3, 5])
def test_the_errors_of_an_answer_are_read(version: int) -> None:
    head = Head("EndTxn", version, 77, "held-1f")
    assert correlation_of(answer(version, 47)) == 77
    assert errors_of(head, answer(version, 47)) == ("INVALID_PRODUCER_EPOCH",)
    assert errors_of(head, answer(version, 0)) == ()


@pytest.mark.parametrize("bytes_", [b"", b"\0\x1a\0\1\0\0", b"GET / HTTP/1.1\r\n", end_txn(1)[:12]])
def test_bytes_that_are_not_a_request_have_no_header(bytes_: bytes) -> None:
    assert head_of(bytes_) is None


def test_an_unreadable_answer_has_no_errors() -> None:
    assert errors_of(Head("EndTxn", 1, 77, ""), b"\0\0\0\x4d\0") is None
    assert errors_of(Head("EndTxn", 99, 77, ""), answer(1, 0)) is None
    assert errors_of(Head("LeaderAndIsr", 1, 77, ""), answer(1, 0)) is None
    assert correlation_of(b"\0\0") is None


def test_a_client_without_an_id_has_an_empty_one() -> None:
    assert head_of(b"\0\x1a\0\1\0\0\0\7\xff\xff") == Head("EndTxn", 1, 7, "")
    assert APIS["EndTxn"] == 26


def test_the_generation_of_a_group_is_read() -> None:
    of = {"group_id": "g", "member_id": "m"}
    commit = OffsetCommitRequest(generation_id_or_member_epoch=3, topics=[], **of)
    transactional = TxnOffsetCommitRequest(
        transactional_id="t", producer_id=1, producer_epoch=0, generation_id=3, topics=[], **of
    )
    cases = [(commit, 2), (commit, 8), (commit, 9), (HeartbeatRequest(generation_id=3, **of), 4), (transactional, 3)]
    for request, version in cases:
        frame = encoded(request, version)
        head = head_of(frame)
        assert head is not None
        assert generation_of(head, frame) == Generation("g", 3), (head.api, version)
        assert generation_of(head, frame[:-9]) is None


def test_a_request_without_a_generation_has_none() -> None:
    outside = OffsetCommitRequest(generation_id_or_member_epoch=-1, member_id="", group_id="g", topics=[])
    for frame in (encoded(outside, 8), end_txn(3)):
        head = head_of(frame)
        assert head is not None
        assert generation_of(head, frame) is None
