"""Where a member of a group starts without a valid committed offset: its client decides, and the start is recorded."""

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


def starts_of(watched: Resets) -> list[tuple[Any, Any]]:
    return [(row.committed, row.began) for row in watched.rows]


def test_a_start_elsewhere_than_at_the_committed_offset_has_a_row() -> None:
    watched = resets()
    watched.assigned({PLACE: 300, ("t", 1): -1001})
    assert not watched.known([PLACE])
    watched.given(cast(Any, [Message(0, 500), Message(0, 501)]))
    assert watched.known([PLACE])
    assert not watched.known([PLACE, ("t", 1)])
    watched.at_end(("t", 1), 7)
    watched.at_end(("t", 1), 9)
    assert starts_of(watched) == [(300, 500), (None, 7)]
    assert {(row.group, row.reader, row.topic) for row in watched.rows} == {("g", "r", "t")}


def test_a_start_at_the_committed_offset_has_no_row() -> None:
    watched = resets()
    watched.assigned({PLACE: 3})
    watched.at_end(PLACE, 3)
    assert (watched.known([PLACE]), watched.rows) == (True, [])


def test_the_first_start_of_a_group_has_no_row() -> None:
    watched = resets()
    watched.assigned({PLACE: -1001}, first=True)
    watched.given(cast(Any, [Message(0, 0)]))
    assert (watched.known([PLACE]), watched.rows) == (True, [])


def test_a_client_that_does_not_start_has_a_row_without_an_offset() -> None:
    watched = resets("error")
    watched.assigned({PLACE: -1001})
    watched.stopped(PLACE)
    assert (watched.known([PLACE]), starts_of(watched)) == (True, [(None, None)])


def test_a_reader_without_reset_has_no_rows() -> None:
    watched = resets("")
    watched.assigned({PLACE: 3})
    watched.given(cast(Any, [Message(0, 500)]))
    assert watched.rows == []


@pytest.mark.parametrize(
    ("reset", "commits", "start"),
    [
        ("", 0, OFFSET_BEGINNING),
        ("", 1, OFFSET_BEGINNING),
        ("latest", 0, OFFSET_BEGINNING),
        ("latest", 1, OFFSET_INVALID),
    ],
)
def test_the_start_without_a_committed_offset_depends_on_reset(reset: str, commits: int, start: int) -> None:
    reader, coordinator = member(reset=reset), Coordinator(committed=-1001)
    reader.acked_commits = commits
    reader._assigned(cast(Any, coordinator), [TopicPartition("t", 0)])
    assert coordinator.starts == [start]
    assert reader._settings()["auto.offset.reset"] == (reset or "error")


def test_a_client_that_does_not_start_releases_the_partition() -> None:
    reader = member(reset="error")
    released: list[TopicPartition] = []
    error = SimpleNamespace(name=lambda: "_AUTO_OFFSET_RESET", fatal=lambda: False, str=lambda: "no")
    message = SimpleNamespace(error=lambda: error, topic=lambda: "t", partition=lambda: 0, offset=lambda: -1001)
    reader.resets.assigned({PLACE: 3})
    reader._on_error(cast(Any, SimpleNamespace(incremental_unassign=released.extend)), cast(Any, message))
    assert [(one.topic, one.partition) for one in released] == [PLACE]
    assert starts_of(reader.resets) == [(3, None)]


@pytest.mark.parametrize("reader", ['reset = "latest"', 'group = "g", reset = "latest", client = "java"'])
def test_reset_is_refused_without_a_group_or_with_a_java_client(reader: str) -> None:
    readers = f'\n[readers]\nodd = {{ topics = ["plain"], {reader} }}\n'
    assert "reset needs a group, and a client other than" in refused(SMALL + readers)
