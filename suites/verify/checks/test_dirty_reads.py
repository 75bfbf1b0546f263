"""Records that read_committed readers and applications received although nothing had committed them."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.checks.processed.test_processed import streams, works
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

CALLED_NS: Final = START_NS + 1000 * MS


def received(text: str, by_ns: int, *, reader: str = "live", called_ns: int | None = CALLED_NS) -> Built:
    """A live reader received everything by then, and the end of every transaction was called at `called_ns`."""
    built = History(text).build()
    for row in built.rows("observations", kind="live", reader=reader):
        row["given_ns"] = by_ns
    for row in built.tables["transactions"]:
        row["end_called_ns"] = called_ns
    return built


def named_wrongly(built: Built) -> Built:
    """The client reported for the record of a later transaction the offset of an earlier one's."""
    built.change("ledger", {"offset": 0}, seq=1)
    built.change("transactions", {"end_called_ns": CALLED_NS - 1}, txn_id=1)
    return built.change("observations", {"given_ns": CALLED_NS}, kind="live", offset=2)


def used(seq: int, outcome: str, *, called_ns: int | None = None, by: int = 9) -> Built:
    """A worker processed four records; one of them is of transaction `by`, the others of none."""
    built = works("(AA)(AA)", [0, 1, 2, 3])
    if by == 9:
        like = built.rows("transactions", txn_id=1)[0]
        built.tables["transactions"].append(like | {"txn_id": 9, "outcome": outcome, "end_called_ns": called_ns})
    built.change("ledger", {"txn_id": by}, stream=1, seq=seq)
    if outcome == "aborted":
        for row in built.rows("observations", stream=1, seq=seq, isolation="read_committed"):
            built.tables["observations"].remove(row)
    return built


def output(built: Built, seq: int) -> int:
    """When the worker handed an output to its client."""
    return int(built.rows("ledger", stream=2, seq=seq)[0]["called_ns"])


def used_at(seq: int, late_ns: int) -> Built:
    """The transaction of an input was asked to commit so long after the output was handed to the client."""
    return used(seq, "committed", called_ns=output(works("(AA)(AA)", [0, 1, 2, 3]), seq) + late_ns)


def without_transactions(built: Built) -> Built:
    """The worker commits its offsets after its output, so that it may read with read_uncommitted."""
    built.run["contract"]["processors"]["p"]["commits"] = "after"
    return built


def consumed(built: Built, txn: int) -> Built:
    """A read-process-write of another harness consumed a record within a transaction."""
    return built.change("observations", {"txn_id": txn}, reader="live", offset=1)


# name -> (history, what condemns)
CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    # --- readers
    "received before the commit was called": (received("A(AA)A", CALLED_NS - 1), ["aborted_read 2"]),
    "received when the commit was called": (received("A(AA)A", CALLED_NS), []),
    "the end was not answered, and received before it was called": (
        received("A{AA}A", CALLED_NS - 1),
        ["aborted_read 2"],
    ),
    "aborted, and not received": (received("A[AA]A", CALLED_NS - 1), []),
    "read_uncommitted received it before": (received("A(AA)A", CALLED_NS - 1, reader="peek"), []),
    "when the end was called is unknown": (received("A(AA)A", CALLED_NS - 1, called_ns=None), []),
    "an acknowledgement names the offset of an earlier record": (
        named_wrongly(received("(A)(A)A", CALLED_NS - 1)),
        [],
    ),
    # --- applications
    "an input of a committed transaction": (used(1, "committed", called_ns=START_NS), []),
    "an input of an aborted transaction": (used(1, "aborted"), ["aborted_read 1"]),
    "an input of an unknown transaction": (used(1, "unknown"), []),
    "an input before its commit was called": (used_at(1, 1), ["aborted_read 1"]),
    "an input when its commit was called": (used_at(1, 0), []),
    "an input before its commit was called, by another process": (streams(used_at(1, 600 * MS)), ["aborted_read 1"]),
    "an input before its commit was called, by a clock that differs": (streams(used_at(1, 400 * MS)), []),
    "an input of an aborted transaction, and read_uncommitted": (without_transactions(used(1, "aborted")), []),
    "an input of the same transaction": (used(1, "committed", by=1), ["aborted_read 1"]),
    "an input of another transaction of the worker": (used(1, "committed", by=2), []),
    # --- read-process-writes that say what they consumed
    "a transaction consumed its own record": (consumed(History("A(A)A").build(), 1), ["aborted_read 1"]),
    "a transaction consumed the record of another one": (consumed(History("A(A)(A)").build(), 2), []),
}
BATCH: Final = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_history_has_exactly_its_findings(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    assert reported(verdict) == CASES[name][1]
    assert not [doubt for doubt in verdict.doubts if doubt.name.startswith("check_failed")]
