"""Segments of the remote tier, folded from records of __remote_log_metadata."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from harness.audit.store.segments import DELETED, DELETING, FINISHED, STARTED, RemoteSegments
from harness.kafka.storage.remote_log_metadata import PARTITION_DELETE, SEGMENT, SEGMENT_UPDATE, TierRecord
from harness.kafka.storage.uuids import kafka_uuid

NAMES = [kafka_uuid(uuid.UUID(int=number << 64 | number)) for number in range(3)]
BEGUN = TierRecord(
    kind=SEGMENT,
    topic="orders",
    topic_id="orders-id",
    partition=3,
    segment_id=NAMES[1],
    state=STARTED,
    broker=2,
    event_ms=7,
    base_offset=10,
    end_offset=19,
    size_bytes=500,
)


def update(state: str, name: str = NAMES[1]) -> TierRecord:
    return replace(
        BEGUN, kind=SEGMENT_UPDATE, state=state, segment_id=name, base_offset=None, end_offset=None, size_bytes=None
    )


def test_an_update_keeps_what_the_first_record_said() -> None:
    segments = RemoteSegments()
    assert segments.apply(BEGUN) is not None
    changed = segments.apply(update(FINISHED))
    assert changed is not None
    after, before = changed
    assert before is not None
    assert (before.state, after.state) == (STARTED, FINISHED)
    assert (after.first_offset, after.last_offset, after.size_bytes, after.broker) == (10, 19, 500, 2)
    assert after.at_ns == 7_000_000


def test_only_finished_segments_have_bytes_and_deleted_ones_are_dropped() -> None:
    segments = RemoteSegments()
    seen = []
    for record in (BEGUN, update(FINISHED), replace(BEGUN, segment_id=NAMES[2]), update(DELETING), update(DELETED)):
        segments.apply(record)
        seen.append((segments.bytes_of("orders-id", 3), [s.segment_id for s in segments.of("orders", "orders-id", 3)]))
    assert seen == [
        (0, [NAMES[1]]),
        (500, [NAMES[1]]),
        (500, [NAMES[1], NAMES[2]]),
        (0, [NAMES[1], NAMES[2]]),
        (0, [NAMES[2]]),
    ]
    segments.remove_topic("orders-id")
    assert list(segments.of("orders", "orders-id", 3)) == []


def test_bytes_that_look_like_an_id_are_none() -> None:
    """The ids of this test are in each other's rows, shifted by 8 bytes."""
    segments = RemoteSegments()
    for name in NAMES:
        segments.apply(replace(BEGUN, segment_id=name, base_offset=2, end_offset=2 << 32))
    assert [s.segment_id for s in segments.of("orders", "orders-id", 3)] == NAMES
    changed = segments.apply(update(FINISHED, NAMES[2]))
    assert changed is not None
    assert changed[1] is not None


@pytest.mark.parametrize(
    "record",
    [
        TierRecord(kind="unreadable", why="frame 9"),
        TierRecord(kind=PARTITION_DELETE, topic="orders", topic_id="orders-id", partition=3, state="x"),
    ],
)
def test_records_about_no_segment(record: TierRecord) -> None:
    assert RemoteSegments().apply(record) is None


def test_the_end_of_a_segment_that_is_not_known() -> None:
    segments = RemoteSegments()
    changed = segments.apply(update(DELETED))
    assert changed is not None
    assert changed[1] is None
    assert list(segments.of("orders", "orders-id", 3)) == []


def test_a_segment_takes_less_than_40_bytes() -> None:
    segments = RemoteSegments()
    for number in range(1000):
        segments.apply(replace(BEGUN, segment_id=kafka_uuid(uuid.UUID(int=number))))
    assert len(segments._rows["orders-id", 3]) == 37 * 1000
