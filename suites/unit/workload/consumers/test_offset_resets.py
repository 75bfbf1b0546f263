"""Where a member of a group begins that cannot go on: its client decides, and what it did is kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, TopicPartition

from harness.model.scenario.scenario import Reader
from harness.workload.consumers.offset_resets import Resets
from suites.unit.faults.clients.test_restart_reader import Coordinator, member
from suites.unit.model.scenario.test_toml import SMALL, refused
from suites.unit.workload.consumers.test_crashing_consumer import Message

PLACE = ("t", 0)


def resets(reset: Any = "latest") -> Resets:
    return Resets(Reader(name="r", topics=("t",), group="g", reset=reset))


def began(reported: Resets) -> list[tuple[Any, Any]]:
    return [(row["committed"], row["began"]) for row in reported.rows]


def test_who_begins_elsewhere_than_committed_has_a_row() -> None:
    reported = resets()
    reported.assigned({PLACE: 300, ("t", 1): -1001})
    assert not reported.known([PLACE])
    reported.given(cast(Any, [Message(0, 500), Message(0, 501)]))
    assert reported.known([PLACE])
    assert not reported.known([PLACE, ("t", 1)])
    reported.at_end(("t", 1), 7)
    reported.at_end(("t", 1), 9)
    assert began(reported) == [(300, 500), (None, 7)]
    assert {(row["group"], row["reader"], row["topic"]) for row in reported.rows} == {("g", "r", "t")}


def test_who_goes_on_where_it_had_committed_has_none() -> None:
    reported = resets()
    reported.assigned({PLACE: 3})
    reported.at_end(PLACE, 3)
    assert (reported.known([PLACE]), reported.rows) == (True, [])


def test_who_begins_for_the_first_time_has_none() -> None:
    reported = resets()
    reported.assigned({PLACE: -1001}, first=True)
    reported.given(cast(Any, [Message(0, 0)]))
    assert (reported.known([PLACE]), reported.rows) == (True, [])


def test_who_refuses_to_begin_has_a_row_without_an_offset() -> None:
    reported = resets("error")
    reported.assigned({PLACE: -1001})
    reported.stopped(PLACE)
    assert (reported.known([PLACE]), began(reported)) == (True, [(None, None)])


def test_whom_the_harness_sets_anew_is_not_watched() -> None:
    reported = resets("")
    reported.assigned({PLACE: 3})
    reported.given(cast(Any, [Message(0, 500)]))
    assert reported.rows == []


@pytest.mark.parametrize(
    ("reset", "commits", "start"),
    [
        ("", 0, OFFSET_BEGINNING),
        ("", 1, OFFSET_BEGINNING),
        ("latest", 0, OFFSET_BEGINNING),
        ("latest", 1, OFFSET_INVALID),
    ],
)
def test_its_client_decides_where_there_is_no_offset_any_more(reset: str, commits: int, start: int) -> None:
    reader, coordinator = member(reset=reset), Coordinator(committed=-1001)
    reader.acked_commits = commits
    reader._assigned(cast(Any, coordinator), [TopicPartition("t", 0)])
    assert coordinator.starts == [start]
    assert reader._settings()["auto.offset.reset"] == (reset or "error")


def test_a_client_that_refuses_to_begin_lets_go_of_the_partition() -> None:
    reader, gone = member(reset="error"), []
    error = SimpleNamespace(name=lambda: "_AUTO_OFFSET_RESET", fatal=lambda: False, str=lambda: "no")
    message = SimpleNamespace(error=lambda: error, topic=lambda: "t", partition=lambda: 0, offset=lambda: -1001)
    reader.resets.assigned({PLACE: 3})
    reader._on_error(cast(Any, SimpleNamespace(incremental_unassign=gone.extend)), cast(Any, message))
    assert [(one.topic, one.partition) for one in gone] == [PLACE]
    assert began(reader.resets) == [(3, None)]


@pytest.mark.parametrize("reader", ['reset = "latest"', 'group = "g", reset = "latest", client = "java"'])
def test_only_a_member_of_a_group_has_one(reader: str) -> None:
    readers = f'\n[readers]\nodd = {{ topics = ["plain"], {reader} }}\n'
    assert "reset needs a group, and a client other than" in refused(SMALL + readers)
