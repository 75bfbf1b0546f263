"""Clients that were served although their transactional id or group had left them behind, on short histories."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.history import MS, START_NS, Built, History, Row
from suites.verify.judging import HistoryBatch, reported

# The first transaction has sends after 2 and 3 ms and ends after 4 ms; a second one of the next client follows.
TEXT: Final = "(AA)(A)"


def replaced(after_ms: float, end_called_ms: float, text: str = TEXT, second: str = "p", **more: object) -> Built:
    """The next client was initialised at a time, and the commit of the first transaction was called at another."""
    history = History(text).build()
    one, two = history.tables["transactions"]
    at_ns = START_NS + int(after_ms * MS)
    one.update(initialised_ns=START_NS, end_called_ns=START_NS + int(end_called_ms * MS), **more)
    two.update(initialised_ns=at_ns, end_called_ns=two["ended_ns"], producer=second)
    return history


def of_the_past(history: Built) -> Built:
    """Evidence that does not say when clients were initialised."""
    return history.change("transactions", {"initialised_ns": None, "end_called_ns": None})


def without_an_offset(history: Built, seq: int) -> Built:
    return history.change("ledger", {"offset": None}, seq=seq)


def with_offsets(history: Built, called_ms: float) -> Built:
    """Offsets of the group in the first transaction."""
    commit = history.rows("offset_commits")[-1]
    at: Row = {"called_ns": START_NS + int(called_ms * MS), "returned_ns": START_NS + int(called_ms * MS) + 1}
    history.copy("offset_commits", at | {"txn_id": 1}, offset=commit["offset"])
    return history


def held_commit(**changed: object) -> Built:
    """A commit of a group that was delivered late, after a heartbeat of a newer generation was accepted."""
    times = {"held_ns": START_NS, "newer_ns": START_NS + MS, "released_ns": START_NS + 2 * MS}
    of = {"group": "g", "group_type": "classic", "generation": 3, "client": "grouped-1"}
    frame = {"link": "client > b1", "api": "OffsetCommit", "version": 8, "errors": [], "answered_ns": START_NS + 4 * MS}
    return History("AA").build().event("held_frame", **frame | of | times | changed)


CASES: dict[str, tuple[Built, list[str]]] = {
    "the next client is initialised after the end": (replaced(4.5, 3.8), []),
    "the next client is initialised between two sends": (replaced(2.5, 2.2), ["unfenced 1"]),
    "a send is called at the same moment": (replaced(3, 2.2), []),
    "a send without an offset, which may be acknowledged for an earlier one": (
        without_an_offset(replaced(2.5, 2.2), 1),
        [],
    ),
    "the commit is called afterwards": (replaced(3.5, 3.6), ["unfenced 2"]),
    "the commit is in flight": (replaced(3.5, 3.4), []),
    "the commit is called afterwards, and its outcome is unknown": (replaced(3.5, 3.6, outcome="unknown"), []),
    "the commit is called afterwards for no record": (replaced(3.5, 3.6, text="(uu)(A)"), []),
    "the next client has another transactional id": (replaced(2.5, 3.6, second="q"), []),
    "offsets are sent afterwards": (with_offsets(replaced(3.5, 3.4), 3.6), ["unfenced 1"]),
    "offsets are sent before": (with_offsets(replaced(3.5, 3.4), 3.45), []),
    "offsets of an old generation": (held_commit(), ["unfenced 1"]),
    "offsets of an old generation, in a transaction": (held_commit(api="TxnOffsetCommit"), ["unfenced 1"]),
    "offsets of an old generation are refused": (held_commit(errors=["ILLEGAL_GENERATION"]), []),
    "offsets of an old generation have no answer": (held_commit(errors=None, answered_ns=None), []),
    "the answer about offsets is unreadable": (held_commit(errors=None), []),
    "offsets of the newest generation": (held_commit(newer_ns=None), []),
    "the newer generation came later": (held_commit(newer_ns=START_NS + 3 * MS), []),
    "the answer was held, and the newer generation came meanwhile": (
        held_commit(answered_ns=START_NS + MS, newer_ns=START_NS + 2 * MS, released_ns=START_NS + 3 * MS),
        [],
    ),
    "the group has a member of the newer protocol": (held_commit(group_type="consumer"), []),
    "the protocol of the group is unknown": (held_commit(group_type=None), []),
    "another request of an old generation": (held_commit(api="Heartbeat"), []),
    "nothing is known of clients": (of_the_past(replaced(2.5, 3.6)), []),
}
BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_history_has_exactly_its_findings(name: str, judged: dict[str, Verdict]) -> None:
    assert reported(judged[name]) == CASES[name][1]
    assert not [doubt for doubt in judged[name].doubts if doubt.name.startswith("check_failed")]
