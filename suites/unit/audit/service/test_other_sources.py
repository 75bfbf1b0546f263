"""Committed offsets and transactions as rows for the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from harness.audit.feeds.broker_logs import BrokerLogs
from harness.audit.feeds.commits import CommitSeen, GroupNotRead
from harness.audit.feeds.transactions import TransactionSeen
from harness.audit.rules.commit_removed import CommitRemoved
from harness.audit.rules.rule import Suspicion
from harness.audit.service import other_sources
from harness.audit.service.other_sources import GroupSource, LogSource, TransactionSource
from harness.audit.store.partitions import UNKNOWN
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.wire import Unanswered
from harness.model.errors import HarnessFailure
from suites.unit.audit.rules.scene import Scene
from suites.unit.model.history.logs import TOPIC, TOPIC_ID

Answer = Callable[..., Iterator[CommitSeen | GroupNotRead]]


class FakeBrokers:
    ids = (1, 2)

    def refresh(self) -> None: ...
    def close(self) -> None: ...


BROKERS = cast(Brokers, FakeBrokers())


def groups(
    monkeypatch: pytest.MonkeyPatch, names: Sequence[str], *polls: Sequence[CommitSeen | GroupNotRead]
) -> GroupSource:
    answers = iter(polls)
    monkeypatch.setattr(other_sources, "committed_offsets", lambda *_: iter(next(answers)))
    return GroupSource(BROKERS, names, {"orders": "T"}.get)


def test_an_offset_that_is_no_more_there_is_a_row_without_an_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    source = groups(
        monkeypatch, ["g"], [CommitSeen("g", "orders", 0, 7, None), CommitSeen("g", "bills", 1, 3, 2)], [], [], []
    )
    first, *removed, last = ([*source.poll()] for _ in range(4))
    assert [(row.topic, row.topic_id, row.partition, row.offset) for row in first] == [
        ("bills", "", 1, 3),
        ("orders", "T", 0, 7),
    ]
    for rows in removed:  # the rule about removed offsets needs two looks
        assert [(row.topic, row.offset) for row in rows] == [("bills", UNKNOWN), ("orders", UNKNOWN)]
    assert last == []


def test_rules_about_groups_are_asked_often_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of the source are those that the rule needs."""
    scene = Scene(CommitRemoved())
    seen = [CommitSeen("g", TOPIC, 0, 7, None)]
    source = groups(monkeypatch, ["g"], seen, [], [], [])
    source.topic_id = {TOPIC: TOPIC_ID}.get
    found: list[Suspicion] = []
    for _ in range(4):
        for row in source.poll():
            found += scene.rule.on_commit(row, scene.view.put_commit(row), scene.view)
    assert [(alarm.topic, alarm.first_offset) for alarm in found] == [(TOPIC, 7)]


def test_a_group_that_was_not_read_has_not_lost_its_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [CommitSeen("g", "orders", 0, 7, None), CommitSeen("h", "orders", 0, 8, None)]
    moving: list[CommitSeen | GroupNotRead] = [
        GroupNotRead("g", "NOT_COORDINATOR"),
        CommitSeen("h", "orders", 0, 9, None),
    ]
    source = groups(monkeypatch, ["g", "h"], seen, moving, seen)
    rows = [[(row.group, row.offset) for row in source.poll()] for _ in range(3)]
    assert [sorted(poll) for poll in rows] == [[("g", 7), ("h", 8)], [("h", 9)], [("g", 7), ("h", 8)]]


def test_no_group_at_all_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    source = groups(monkeypatch, ["g"], [GroupNotRead("g", "GROUP_AUTHORIZATION_FAILED")])
    with pytest.raises(HarnessFailure, match="group g: GROUP_AUTHORIZATION_FAILED"):
        [*source.poll()]


def test_a_silent_coordinator_hides_only_its_own_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    silent: set[int] = {1}

    def long_transactions(_: Brokers, broker: int, longer_than_ms: int) -> Iterator[TransactionSeen]:
        if broker in silent:
            raise Unanswered(f"broker {broker}: no answer")
        yield TransactionSeen("pay", broker, "Ongoing", 9, 2, 1000, 60_000, (("orders", 0),))

    monkeypatch.setattr(other_sources, "long_transactions", long_transactions)
    source = TransactionSource(BROKERS)
    (row,) = source.poll()
    assert (row.transactional_id, row.producer_id, row.producer_epoch, row.places) == ("pay", 9, 2, (("orders", 0),))
    silent.add(2)
    with pytest.raises(HarnessFailure, match="broker 1: no answer; broker 2: no answer"):
        [*source.poll()]


def test_a_folder_without_logs_of_brokers_is_no_coverage(tmp_path: Path) -> None:
    """It would turn each DeleteRecords into a loss that no broker explains."""
    source = LogSource(BrokerLogs(tmp_path))
    with pytest.raises(HarnessFailure, match=r"no file \*\.log is in it"):
        [*source.poll()]
    (tmp_path / "b1").mkdir()
    (tmp_path / "b1" / "server.log").write_text("")
    assert [*source.poll()] == []
    source.close()
