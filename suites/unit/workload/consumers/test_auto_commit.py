"""A consumer with auto-commit: the rows of its commits, and the offsets between commit and processing at its death."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition

from harness.model.errors import BadInput
from harness.model.scenario.scenario import Reader
from harness.model.scenario.toml import parse
from harness.workload.consumers import live_readers
from harness.workload.consumers.auto_commit import AutoReader
from suites.unit.workload.consumers.test_crashing_consumer import CONTEXT, Message, Observed

PLACE = ("t", 0)


class Client:
    """A client of a group with a given committed offset."""

    def __init__(self, committed: int = -1001) -> None:
        self.at = committed
        self.ended = ""
        self.on_commit: Any = None

    def committed(self, wanted: list[TopicPartition], timeout_s: float) -> list[TopicPartition]:
        del timeout_s
        return [TopicPartition(p.topic, p.partition, self.at) for p in wanted]

    def subscribe(self, topics: list[str], **reported: Any) -> None: ...

    def incremental_assign(self, parts: list[TopicPartition]) -> None: ...

    def close(self) -> None:
        self.ended = "closed"

    def kill(self) -> None:
        self.ended = "killed"


class Member(AutoReader):
    """A reader that keeps the rows of its commits and its observations in memory."""

    def __init__(self, commits: str) -> None:
        self.rows: list[tuple[int, str]] = []
        table = cast(Any, SimpleNamespace(append=lambda row: self.rows.append((row["offset"], row["outcome"]))))
        super().__init__(
            Reader(name="r", topics=("t",), group="g", commits=commits, client="java"), CONTEXT, table, table
        )
        self.seen_by = Observed()
        self.seen_by.new_session = lambda places: None  # type: ignore[attr-defined]
        self._observer = cast(Any, self.seen_by)
        self.begins(Client())

    def begins(self, client: Client) -> None:
        self.client = client
        self._begin(cast(Any, client))
        self._assigned(cast(Any, client), [TopicPartition(*PLACE)])

    def given(self, *offsets: int) -> None:
        self._process(cast(Any, self.client), cast(Any, [Message(0, offset) for offset in offsets]))

    def dies(self, monkeypatch: pytest.MonkeyPatch, committed: int) -> None:
        """A new member replaces it and gets the group's committed offset."""
        dead, another = self.client, Client(committed)
        monkeypatch.setattr(live_readers, "Consumer", lambda settings: another)
        assert self._current(cast(Any, dead)) is cast(Any, another)
        assert dead.ended == "killed"
        self._assigned(cast(Any, another), [TopicPartition(*PLACE)])
        self.client = another

    @property
    def processed(self) -> list[int]:
        return [offset for _, _, offset in self.seen_by.records]


def test_a_member_that_processes_each_poll_gets_uncommitted_records_again(monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member("auto")
    member.given(0, 1)
    member.client.on_commit({PLACE: 2})
    death = member.die(3)
    member.given(2, 3)
    member.given(4)
    assert (member.processed, death.between) == ([0, 1, 2, 3, 4], None)
    member.dies(monkeypatch, committed=2)
    assert death.between == {PLACE: (2, 5)}
    assert member.rows == [(2, "acked"), (4, "unknown"), (5, "unknown")]


def test_a_member_that_polls_ahead_dies_once_its_records_are_committed_and_skips_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = Member("auto_ahead")
    member.given(0, 1)
    death = member.die(2)
    member.given(2, 3)
    member.given()
    assert not member._dead
    member.client.on_commit({PLACE: 4})
    member.given()
    member.dies(monkeypatch, committed=4)
    assert (member.processed, death.between, member.rows) == ([0, 1], {PLACE: (2, 4)}, [(4, "acked")])
    member.given(4)
    assert member.processed == [0, 1, 4]


def test_a_commit_without_a_report_before_the_death_leaves_an_empty_span(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = Member("auto")
    death = member.die(1)
    member.given(0)
    member.dies(monkeypatch, committed=1)
    assert death.between == {PLACE: (1, 1)}
    assert member.rows == [(0, "unknown"), (1, "unknown")]


def test_records_that_were_held_are_processed_after_a_death_is_called_off() -> None:
    for commits in ("auto", "auto_ahead"):
        member = Member(commits)
        death = member.die(5)
        member.given(0, 1)
        death.called_off = True
        member.given(2)
        member.die(5)
        member.given(3)
        member._end(cast(Any, member.client))
        member._close_consumer(cast(Any, member.client))
        assert (member.processed, member.client.ended) == ([0, 1, 2, 3], "closed")


SCENARIO = """
title = "t"
property = "g"
[topics]
t = {}
x = {}
[producers]
plain = { topics = ["t"] }
paying = { topics = ["x"], transactions = {} }
[readers]
r = { topics = ["TOPIC"], group = "g", commits = "auto", client = "CLIENT" }
"""


@pytest.mark.parametrize(
    ("topic", "client", "said"),
    [
        ("t", "java", ""),
        ("t", "librdkafka", 'is only possible with the release\'s own client; set client = "java"'),
        ("x", "java", "transaction markers, which no reader receives; remove x"),
    ],
)
def test_auto_commit_is_accepted_only_for_java_clients_without_transactions(topic: str, client: str, said: str) -> None:
    text = SCENARIO.replace("TOPIC", topic).replace("CLIENT", client)
    if not said:
        assert parse(text, "s").readers[0].commits == "auto"
        return
    with pytest.raises(BadInput, match=said):
        parse(text, "s")
