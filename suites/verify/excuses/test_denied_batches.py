"""Copies under a new producer epoch are the client's, unless a broker refused a batch that its log had."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.edits import append
from suites.verify.history import START_NS, Built, History, Row
from suites.verify.judging import HistoryBatch, reported

GAP: Final = "OUT_OF_ORDER_SEQUENCE_NUMBER"
LATE_NS: Final = START_NS + 10**9  # after every acknowledgement


def copied(*tries: Row, recorded: bool | None = True) -> Built:
    """The third record is the last one of its producer, and has a copy with a higher epoch. Another producer wrote the
    fourth."""

    def edit(history: History) -> None:
        history.logs[0][3].producer_id = 8
        append(1, 2, producer_epoch=1)(history)

    history = History("AAAA", sequences=True).build(edit)
    history.tables["failed_sends"] = list(tries)
    return history.change("reservations", {"tries_recorded": recorded})


def failed(error: str, sequence: int = 2, *, sent_ns: int = LATE_NS, broker: int = 1, epoch: int = 0) -> Row:
    """A failed try of the producer of the first three records."""
    return {
        "topic": "t",
        "topic_id": "T",
        "partition": 0,
        "producer": "p",
        "count": 1,
        "producer_id": 7,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        "broker": broker,
        "error": error,
        "sent_ns": sent_ns,
        "failed_ns": sent_ns + 1,
    }


EARLY: Final = START_NS + 1
APPENDED: Final = failed("NOT_ENOUGH_REPLICAS_AFTER_APPEND", 2, sent_ns=EARLY)
# name -> (history, what condemns, its doubts about clients)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "its tries are not known": (copied(recorded=None), [], 0),
    "it had no failed try": (copied(), [], 1),
    "a connection was lost": (copied(failed("_TRANSPORT")), [], 0),
    "only a try of the next epoch failed": (copied(failed("_TRANSPORT", epoch=1)), [], 1),
    "its batch was refused, and is in the log": (copied(failed(GAP)), ["duplicated 1"], 0),
    "the producer was unknown": (copied(failed("UNKNOWN_PRODUCER_ID")), ["duplicated 1"], 0),
    "its epoch was refused": (copied(failed("INVALID_PRODUCER_EPOCH")), ["duplicated 1"], 0),
    "the next batch was refused": (copied(failed(GAP, 3)), ["duplicated 1"], 0),
    "the batch after the next was refused": (copied(failed(GAP, 4)), [], 0),
    "its batch was refused before anything shows it in the log": (copied(failed(GAP, sent_ns=EARLY)), [], 1),
    "another broker than the leader refused it": (copied(failed(GAP, broker=2)), [], 1),
    "an earlier batch was refused, of which brokers may know nothing": (copied(failed(GAP, 0)), [], 1),
    "the broker had appended the batch before": (
        copied(APPENDED, failed(GAP, 3, sent_ns=EARLY + 1)),
        ["duplicated 1"],
        0,
    ),
    "another broker had appended the batch before": (
        copied(APPENDED | {"broker": 2}, failed(GAP, 3, sent_ns=EARLY + 1)),
        [],
        1,
    ),
}
BATCH = HistoryBatch(history for history, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_history_has_exactly_its_findings(name: str, judged: dict[str, Verdict]) -> None:
    _, condemns, doubts = CASES[name]
    # No leader takes the copy, or the batch after it, with these numbers.
    assert [what for what in reported(judged[name]) if not what.startswith("out_of_sequence")] == condemns
    assert len([doubt for doubt in judged[name].doubts if doubt.name == "unattributed"]) == doubts
    assert not [doubt for doubt in judged[name].doubts if doubt.name.startswith("check_failed")]
