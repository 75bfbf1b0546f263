"""When a read of a copy counts: far enough, and from the broker that was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.workload.copies import Copy, CopyReader, Patience, Read
from harness.workload.producer import Target
from harness.workload.readers import ReadingDesk, serving_brokers

COPY = Copy(topic="t", partition=0, leader=1, logs={1: (5, 40), 2: (5, 42), 3: (7, 40)})
PLACE = ("t", 0)
DESK = ReadingDesk(bootstrap="", targets={"t": Target(topic="t", topic_id="id", partitions=1)}, run=1)


def reader(broker: int | None, sentinels: dict[tuple[str, int], int] | None = None) -> CopyReader:
    return CopyReader(DESK, [COPY], sentinels or {}, isolation="read_committed", broker=broker, patience=Patience())


def statistics(broker: int, received: int) -> str:
    partitions = {"0": {"broker": broker, "rxmsgs": received}, "-1": {"broker": -1, "rxmsgs": 0}}
    return json.dumps({"topics": {"t": {"partitions": partitions}}})


def read(**changes: Any) -> Read:
    row = reader(2).reads[PLACE]
    for name, value in changes.items():
        setattr(row, name, value)
    return row


def test_the_target_is_the_highest_log_end_of_any_replica() -> None:
    assert reader(None).reads[PLACE].target == 42


def test_a_sentinel_beyond_every_log_end_is_read_as_well() -> None:
    assert reader(None, {PLACE: 43}).reads[PLACE].target == 44


@pytest.mark.parametrize(("broker", "replica", "start"), [(None, 1, 5), (2, 2, 5), (3, 3, 7)])
def test_a_copy_is_read_from_its_own_log_s_start(broker: int | None, replica: int, start: int) -> None:
    row = reader(broker).reads[PLACE]
    assert (row.replica, row.start) == (replica, start)


def test_the_leader_s_copy_is_not_read_twice() -> None:
    assert reader(1).reads == {}


def test_a_replica_that_told_nothing_is_not_read() -> None:
    assert reader(4).reads == {}


@pytest.mark.parametrize(
    ("changes", "reached"),
    [
        ({"position": 42}, True),
        ({"position": 41}, False),
        ({"position": 42, "stuck_reason": "broker 1 served it instead of broker 2"}, False),
        ({}, False),
    ],
)
def test_a_read_counts_when_it_came_to_its_target(changes: dict[str, Any], reached: bool) -> None:
    assert read(**changes).as_row()["reached"] is reached


def test_statistics_name_who_served() -> None:
    assert serving_brokers(statistics(2, 10)) == {PLACE: (2, 10)}


@pytest.mark.parametrize(
    ("seen", "misserved"),
    [
        ([(2, 10), (2, 30)], []),
        ([(2, 10), (1, 30)], [PLACE]),
        ([(1, 0), (2, 30)], [PLACE]),  # between two looks it may have been either
        ([(2, 10), (1, 10), (2, 10), (2, 30)], []),
    ],
)
def test_records_between_two_looks_came_from_the_broker_of_either(
    seen: list[tuple[int, int]], misserved: list[tuple[str, int]]
) -> None:
    copy = reader(2)
    for look in seen:
        copy._on_statistics(statistics(*look))
    assert copy.misserved() == misserved
