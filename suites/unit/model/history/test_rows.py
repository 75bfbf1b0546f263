"""A history as rows, and rows that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.model.history.fold import fold
from harness.model.history.history import History
from harness.model.history.log import NodeLog, TornEnd, Unreadable
from harness.model.history.rows import WrongRowError, document_of, history_of
from suites.unit.model.history.logs import (
    TOPIC_ID,
    batch,
    batches,
    broker,
    change,
    config,
    node,
    noop,
    partition,
    record,
    topic,
)


def example() -> History:
    """A history with a row of every kind."""
    base = batches(
        topic(),
        partition(),
        broker(1, 2),
        config("retention.ms", None),
        record("FeatureLevel", Name="group.version", FeatureLevel=1),
        record("LeaderChangeMessage", LeaderId=1, Voters=({"VoterId": 1},)),
        record("ProducerIds"),
        record("BeginTransaction", Name=None),
        record("AbortTransaction", Reason=None),
        change(Leader=2),
    )
    strange = batch(10, 1, Unreadable(10, 1, 1, None, 99, 0, "no message has the number 99"))
    tail = batches(change(Leader=3, Isr=(3,)), registration_with_rows(), first=11, epoch=1)
    torn = TornEnd("0.log", 70, 9, "zeros")
    return fold([NodeLog(1, (*base, strange, *tail), (), torn), node(2, (*base, strange))], [1, 2], 3)


def registration_with_rows() -> Any:
    return record("RegisterController", ControllerId=1, EndPoints=({"Name": "C", "Port": 9},), ZkMigrationReady=False)


def stored(history: History) -> Any:
    return json.loads(json.dumps(document_of(history)))


def test_a_history_comes_back_as_it_was() -> None:
    history = example()
    again = history_of(stored(history))
    assert {row["type"] for row in stored(history)["changes"]} == {
        *("topic", "partition", "broker", "config", "feature", "controller", "other", "unknown")
    }
    for name in ("nodes", "voters", "start", "end", "high_watermark", "changes", "written", "dropped", "problems"):
        assert getattr(again, name) == getattr(history, name)
        assert getattr(again, name) not in ((), None)
    assert again.elections() == history.elections()
    assert again.leader_of(TOPIC_ID, 0, 1) == 2


def test_an_empty_history_comes_back() -> None:
    assert history_of(stored(fold([node(1, batches(noop()))], [1]))).changes == ()


Damage = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: document.update(version=2),
        lambda document: document.pop("end"),
        lambda document: document.update(voters="1"),
        lambda document: document.update(start=True),
        lambda document: document.update(changes={}),
        lambda document: document["changes"][0].update(type="topics"),
        lambda document: document["changes"][0].pop("topic_id"),
        lambda document: document["changes"][0].update(more=1),
        lambda document: document["changes"][0].update(event="vanished"),
        lambda document: document["changes"][0].update(time_ns=1.5),
        lambda document: document["changes"][1].update(isr=[1, "2"]),
        lambda document: document["changes"][1].update(isr=None),
        lambda document: document["changes"][1].update(leader=True),
        lambda document: document["problems"][0].update(node="1"),
        lambda document: document["written"][0].update(fields=[]),
        lambda document: document["changes"].append(5),
    ],
)
def test_a_damaged_row_is_refused(damage: Damage) -> None:
    document = stored(example())
    damage(document)
    with pytest.raises(WrongRowError):
        history_of(document)


def test_what_is_no_document_is_refused() -> None:
    with pytest.raises(WrongRowError):
        history_of([])
