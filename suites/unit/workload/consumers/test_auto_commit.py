"""A consumer whose client commits by itself: what is known of its commits, and what lies between when it dies."""

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
from suites.unit.workload.consumers.test_crashing_consumer import DESK, Message, Observed

PLACE = ("t", 0)


class Client:
    """Has committed what it is told to have."""

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
    """Keeps the rows of its commits, and what it has observed."""

    def __init__(self, commits: str) -> None:
        self.rows: list[tuple[int, str]] = []
        table = cast(Any, SimpleNamespace(append=lambda row: self.rows.append((row["offset"], row["outcome"]))))
        super().__init__(Reader(name="r", topics=("t",), group="g", commits=commits, client="java"), DESK, table, table)
        self.seen_by = Observed()
        self.seen_by.new_session = lambda places: None  # type: ignore[attr-defined]
        self._observer = cast(Any, self.seen_by)
        self.begins(Client())

    def begins(self, client: Client) -> None:
        self.client = client
        self._begin(client)
        self._assigned(cast(Any, client), [TopicPartition(*PLACE)])

    def given(self, *offsets: int) -> None:
        self._process(cast(Any, self.client), cast(Any, [Message(0, offset) for offset in offsets]))

    def dies(self, monkeypatch: pytest.MonkeyPatch, committed: int) -> None:
        """Another one is in its place, and is told what it had committed."""
        dead, another = self.client, Client(committed)
        monkeypatch.setattr(live_readers, "Consumer", lambda settings: another)
        assert self._current(cast(Any, dead)) is another
        assert dead.ended == "killed"
        self._assigned(cast(Any, another), [TopicPartition(*PLACE)])
        self.client = another

    @property
    def processed(self) -> list[int]:
        return [offset for _, _, offset in self.seen_by.records]


def test_who_processes_in_turn_is_given_again_what_was_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_who_polls_ahead_dies_once_what_it_holds_is_committed_and_skips_it(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_commit_that_was_carried_out_before_it_died_and_not_told_leaves_nothing_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = Member("auto")
    death = member.die(1)
    member.given(0)
    member.dies(monkeypatch, committed=1)
    assert death.between == {PLACE: (1, 1)}
    assert member.rows == [(0, "unknown"), (1, "unknown")]


def test_a_death_that_is_called_off_costs_nothing() -> None:
    for commits in ("auto", "auto_ahead"):
        member = Member(commits)
        death = member.die(5)
        member.given(0, 1)
        death.called_off = True
        member.given(2)
        member.die(5)
        member.given(3)
        member._end(cast(Any, member.client))
        member._let_go(member.client)
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
def test_the_client_commits_by_itself_where_that_can_be_followed(topic: str, client: str, said: str) -> None:
    text = SCENARIO.replace("TOPIC", topic).replace("CLIENT", client)
    if not said:
        assert parse(text, "s").readers[0].commits == "auto"
        return
    with pytest.raises(BadInput, match=said):
        parse(text, "s")
