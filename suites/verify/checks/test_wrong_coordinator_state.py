"""Coordinators beside their logs: a certain difference is a finding, and a legal one is not."""

from __future__ import annotations

from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.history import START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

WRONG: Final = "wrong_coordinator_state 1"
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
# Two commits, one abort, one commit and one abort without an answer.
TEXT: Final = "(A)(A)[A]{A}<A>"


def state(**more: Any) -> dict[str, Any]:
    """The committed offset of a group, which its coordinator loaded from the log of an earlier leader."""
    value = {"offset": 7}
    return {
        "topic": OFFSETS,
        "partition": 3,
        "kind": "offset",
        "name": "g t/0",
        "coordinator": 2,
        "leader_epoch": 5,
        "offset": 40,
        "written_epoch": 4,
        "logged": value,
        "answered": value,
        "steady": True,
        "copies": [{"broker": 1, "logged": value}, {"broker": 3, "logged": value}],
    } | more


def transaction(commits: int, records: int | None = None, **more: Any) -> dict[str, Any]:
    """The state of the transactional id of the producer, with so many transactions that its log commits."""
    value = {"state": "CompleteCommit", "producer_id": 7, "producer_epoch": 3, "timeout_ms": 60_000}
    of = {"topic": TRANSACTIONS, "kind": "transaction", "name": "p", "logged": value, "answered": value, "copies": []}
    return state(**of, commits=commits, commit_records=commits if records is None else records) | more


def looked(*states: dict[str, Any], unknown: tuple[str, ...] = (), text: str = "AA") -> Built:
    history = History(text).build()
    look = {"asked_ns": START_NS, "at_ns": START_NS, "states": list(states), "unknown": list(unknown)}
    history.cluster["coordinators"] = look
    return history


def under_load(history: Built, *states: dict[str, Any]) -> Built:
    look = {"asked_ns": START_NS, "at_ns": START_NS, "states": list(states)}
    history.cluster["coordinators_under_load"] = look
    return history


def with_fact(history: Built, **fact: Any) -> Built:
    history.steps[0]["facts"] = [{"from_ns": START_NS, "to_ns": START_NS, "nodes": [1, 2, 3], **fact}]
    return history


def with_producer(history: Built, client: str) -> Built:
    history.scenario |= {"producers": [{"name": "p", "client": client, "topics": []}]}
    return history


COPIES: Final = [{"broker": 1, "logged": {"offset": 6}}, {"broker": 3, "logged": {"offset": 7}}]
TRANSACTION: Final = transaction(3)["logged"]
GROUP: Final = {"epoch": 9, "assignment_epoch": 9, "members": "a 9"}

CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    "the same": (looked(state(), transaction(3), text=TEXT), []),
    "an older offset": (looked(state(answered={"offset": 6})), [WRONG]),
    "an older offset that the log had": (looked(state(answered={"offset": 6}, was=True)), [WRONG]),
    "no offset": (looked(state(answered=None)), [WRONG]),
    "a deleted offset": (looked(state(logged=None, copies=[])), [WRONG]),
    "an offset that no log has": (
        looked(state(logged=None, offset=None, written_epoch=None, copies=[])),
        [WRONG],
    ),
    "an offset of which neither knows": (looked(state(logged=None, answered=None, copies=[])), []),
    "written meanwhile": (looked(state(answered={"offset": 6}, steady=False, copies=COPIES)), []),
    "a group that lost its members under load": (
        under_load(looked(state()), state(kind="group", name="g", logged=GROUP, answered=None, copies=[])),
        [WRONG],
    ),
    "the same wrong state in both looks": (
        under_load(looked(state(answered=None)), state(answered=None)),
        [WRONG],
    ),
    "a state that was wrong at the end only": (under_load(looked(state(answered=None)), state()), [WRONG]),
    "a group of which more was written under load": (
        under_load(looked(state()), state(kind="group", name="g", logged=GROUP, answered=None, steady=False)),
        [],
    ),
    "another epoch of a transaction": (
        looked(transaction(3, answered=TRANSACTION | {"producer_epoch": 2}), text=TEXT),
        [WRONG],
    ),
    "an unknown transactional id": (looked(transaction(3, answered=None), text=TEXT), [WRONG]),
    "fields that only one of them has": (
        looked(transaction(3, answered={"state": "CompleteCommit", "started_ms": 4}), text=TEXT),
        [],
    ),
    "another member of a group": (
        looked(state(kind="group", name="g", logged=GROUP, answered=GROUP | {"members": "a 8"}, copies=[])),
        [WRONG],
    ),
    "a share group that is behind": (
        looked(state(kind="share_state", name="s T/0", logged={"start": 9}, answered={"start": 5}, copies=[])),
        [WRONG],
    ),
    "another offset in a copy": (looked(state(copies=COPIES)), ["wrong_coordinator_state 1"]),
    "no offset in a copy": (looked(state(copies=[{"broker": 1, "logged": None}])), ["wrong_coordinator_state 1"]),
    "acknowledged commits are missing": (looked(transaction(0), text=TEXT), [WRONG]),
    "one acknowledged commit is missing, of an empty transaction": (looked(transaction(1), text=TEXT), []),
    "the commit without an answer as well": (looked(transaction(4), text=TEXT), []),
    "more commits than were tried": (looked(transaction(5), text=TEXT), [WRONG]),
    "decisions that were written twice": (looked(transaction(3, 6), text=TEXT), []),
    "a log that was compacted": (looked(transaction(0) | {"commit_records": None}, text=TEXT), []),
    "a log that lost its end": (
        with_fact(looked(transaction(0), text=TEXT), kind="stopped", how="power"),
        [],
    ),
    "a broker that was killed": (
        with_fact(looked(transaction(0), text=TEXT), kind="stopped", how="killed"),
        [WRONG],
    ),
    "commits of a Kafka Streams application, under ids of its own": (
        with_producer(looked(transaction(0), text=TEXT), "streams"),
        [],
    ),
    "commits of another client": (with_producer(looked(transaction(0), text=TEXT), "java"), [WRONG]),
    "coordinators were not compared": (History("AA").build(), []),
    "a run that ended early": (looked(state(answered=None)), []),
}
CASES["a run that ended early"][0].run["finished"] = False
CASES["a run that ended early"][0].complete = False

DOUBTS: Final[dict[str, tuple[Built, str]]] = {
    "a write that failed": (
        looked(state(answered={"offset": 6}, was=True, written_epoch=5)),
        "unattributed: the coordinator, broker 2 in leader epoch 5, answers that the committed offset of g t/0 is "
        "offset 6, and by record 40 of __consumer_offsets/3 it is offset 7; a write that failed may have left it so",
    ),
    "no answer": (looked(state(), unknown=("no broker answered",)), "coordinator_unknown: no broker answered"),
    "nothing compared": (
        looked(),
        "coordinator_unknown: groups committed offsets, and no state of any coordinator was compared with its log",
    ),
}

BATCH = HistoryBatch([*(history for history, _ in CASES.values()), *(history for history, _ in DOUBTS.values())])


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip([*CASES, *DOUBTS], BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_wrong_state_is_found_and_nothing_else(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    if name != "a run that ended early":
        assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


@pytest.mark.parametrize("name", DOUBTS)
def test_what_is_not_certain_is_a_doubt(name: str, judged: dict[str, Verdict]) -> None:
    assert judged[name].status is Status.INCONCLUSIVE
    assert [f"{doubt.name}: {doubt.text}" for doubt in judged[name].doubts] == [DOUBTS[name][1]]
    assert reported(judged[name]) == []


def test_a_finding_has_both_values(judged: dict[str, Verdict]) -> None:
    (finding,) = judged["another epoch of a transaction"].findings
    known = "state CompleteCommit, producer id 7, producer epoch"
    assert finding.detail == (
        "the coordinator, broker 2 in leader epoch 5, answers that the transactional id p is "
        f"{known} 2, timeout ms 60000, and by record 40 of __transaction_state/3 it is {known} 3, timeout ms 60000"
    )
    (copy,) = judged["another offset in a copy"].findings
    assert copy.detail == (
        "by the log of __consumer_offsets/3 on broker 1, which is in sync, the committed offset of g t/0 is offset 6, "
        "and by that of its leader, broker 2, offset 7"
    )
    (missing,) = judged["acknowledged commits are missing"].findings
    assert (
        missing.detail
        == "the log of __transaction_state/3 commits 0 transactions of p, and 2 commits were acknowledged"
    )
