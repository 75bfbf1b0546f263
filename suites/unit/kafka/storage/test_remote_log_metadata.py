"""Records of the remote tier's metadata: copied from real topics, and written by hand where those had none."""

from __future__ import annotations

import base64
import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.kafka.storage.remote_log_metadata import UNREADABLE, TierRecord, decode
from harness.kafka.storage.uuids import kafka_uuid

TOPIC_ID, SEGMENT_ID = uuid.UUID(int=7 << 90), uuid.UUID(int=9 << 80)
# By release: the start of a copy, and its end.
REAL = {
    "4.3.1": (
        "AQAABnBsYWluTaIOBLZ5Q1G5FOmHV+PYGwAAAAAAiu7GMOo2SJuutR39i1CtwwAAAAAAAAAAAAAAAAAAAAIHAAAAAwAAAaIFs5ad"
        "AAABogWzmlUCAAAAAAAAAAAAAAAAAAAP8v4AAAEAAQE=",
        "AQEABnBsYWluTaIOBLZ5Q1G5FOmHV+PYGwAAAAAAiu7GMOo2SJuutR39i1CtwwAAAAADAAABogWzmxgAAQA=",
    ),
    "3.9.1": (
        "AQAABnBsYWludENq9hBhTum550nMLkrABgAAAAEA29WQLtA1R9SPvrqsTy00gQAAAAAAAAAAAAAAAAAAAAIHAAAAAgAAAaIFtIEB"
        "AAABogW0gwECAAAAAAAAAAAAAAAAAAAP8xsAAAA=",
        "AQEABnBsYWludENq9hBhTum550nMLkrABgAAAAEA29WQLtA1R9SPvrqsTy00gQAAAAACAAABogW0hBIAAQA=",
    ),
}


def _place(topic: str) -> bytes:
    name = topic.encode()
    return bytes([len(name) + 1]) + name + TOPIC_ID.bytes + struct.pack(">i", 4) + b"\0"


def segment_record(topic: str, state: int, *, tags: bytes = b"\0", custom: bytes = b"\0", frame: int = 1) -> bytes:
    """A record of a segment with offsets 40 to 42, leader epochs 0 and 3, and 300 bytes."""
    epochs = b"\3" + struct.pack(">iq", 0, 40) + b"\0" + struct.pack(">iq", 3, 41) + b"\0"
    numbers = struct.pack(">qqiqq", 40, 42, 2, 1111, 2222)
    head = bytes([frame, 0, 0]) + _place(topic) + SEGMENT_ID.bytes + b"\0"
    return head + numbers + epochs + struct.pack(">i", 300) + custom + bytes([state]) + tags


@pytest.mark.parametrize("release", REAL)
def test_records_that_brokers_wrote_are_read(release: str) -> None:
    began, ended = (decode(base64.b64decode(text)) for text in REAL[release])
    assert (began.kind, began.state, began.base_offset, began.end_offset) == (
        "segment",
        "COPY_SEGMENT_STARTED",
        0,
        519,
    )
    assert (began.epochs, began.topic) == (((0, 0),), "plain")
    assert (ended.kind, ended.state, ended.base_offset) == ("segment_update", "COPY_SEGMENT_FINISHED", None)
    assert (ended.segment_id, ended.topic_id) == (began.segment_id, began.topic_id)
    assert 0 <= (ended.event_ms or 0) - (began.event_ms or 0) < 10_000


@pytest.mark.parametrize("tags", [b"\0", b"\1\0\1\1", b"\2\0\1\1\5\3abc"])
@pytest.mark.parametrize(("custom", "size"), [(b"\0", None), (b"\1", 0), (b"\4abc", 3)])
@pytest.mark.parametrize("frame", [0, 1])
def test_every_field_of_a_segment_is_read(tags: bytes, custom: bytes, size: int | None, frame: int) -> None:
    assert decode(segment_record("far", 3, tags=tags, custom=custom, frame=frame)) == TierRecord(
        kind="segment",
        topic="far",
        topic_id=kafka_uuid(TOPIC_ID),
        partition=4,
        segment_id=kafka_uuid(SEGMENT_ID),
        broker=2,
        event_ms=2222,
        state="DELETE_SEGMENT_FINISHED",
        base_offset=40,
        end_offset=42,
        max_timestamp_ms=1111,
        size_bytes=300,
        epochs=((0, 40), (3, 41)),
        custom_bytes=size,
        txn_index_empty=None if tags == b"\0" else True,
    )


def test_the_deletion_of_a_partition_is_read() -> None:
    value = b"\1\2\0" + _place("far") + struct.pack(">iqb", 3, 2222, 1) + b"\0"
    record = decode(value)
    assert (record.kind, record.state, record.partition, record.broker, record.segment_id) == (
        "partition_delete",
        "DELETE_PARTITION_STARTED",
        4,
        3,
        None,
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (segment_record("far", 4), "state 4"),
        (segment_record("far", 0) + b"x", "1 bytes after the message"),
        (segment_record("far", 0, frame=2), "frame 2, message 0 of version 0"),
        (b"\1\3\0", "frame 1, message 3 of version 0"),
        (b"\1\0\1", "frame 1, message 0 of version 1"),
        (b"", "index out of range"),
    ],
)
def test_a_record_that_no_broker_writes_is_unreadable_with_a_reason(value: bytes, why: str) -> None:
    record = decode(value)
    assert (record.kind, record.topic) == (UNREADABLE, None)
    assert why in (record.why or "")


@given(cut=st.integers(min_value=0, max_value=len(segment_record("far", 0)) - 1))
def test_a_truncated_record_is_unreadable(cut: int) -> None:
    assert decode(segment_record("far", 0)[:cut]).kind == UNREADABLE


@given(st.binary(max_size=200))
def test_no_bytes_raise_an_error(tail: bytes) -> None:
    for head in (b"", b"\1\0\0", b"\1\1\0", b"\1\2\0"):
        assert decode(head + tail).kind
