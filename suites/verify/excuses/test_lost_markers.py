"""Transactions that an operator aborted after an unclean election lost their end marker; each with near misses."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.edits import hide, lose
from suites.verify.excuses.test_excuses import LATER_NS, election, exactly, hanging
from suites.verify.history import Built, History
from suites.verify.judging import HistoryBatch, reported

ABORTED_NS = LATER_NS + 2 * 10**9
ONE = "AA(AA)A"  # 2 and 3 are a transaction, its marker stands at 4
TWO = "(AA)(AA)A"  # 0 and 1, 3 and 4; markers at 2 and 5


def hidden(*offsets: int, of: str = ONE, partition: int = 0) -> Built:
    """No reader receives these offsets as committed."""

    def edit(history: History) -> None:
        for offset in offsets:
            hide(offset, partition)(history)

    return History(*[of] * (partition + 1)).build(edit)


def marked(built: Built, offset: int = 4, control: str = "abort", **wanted: Any) -> Built:
    """Another marker is at an offset on the disks."""
    return built.change("batches", {"control": control}, base_offset=offset, **wanted)


def aborted(built: Built, start_offset: int = 2, **more: Any) -> Built:
    """An operator aborts the hanging transaction, after the election."""
    facts = {"producer": "p", "producer_id": 7, "coordinator": "CompleteCommit", "asked_ns": ABORTED_NS}
    return built.event("transaction_aborted", **{"topic_id": "T", "start_offset": start_offset, **facts, **more})


def lost_marker(log_end: int = 4, **more: Any) -> Built:
    """The marker was truncated with everything at 4 and above; the marker there now is the operator's."""
    return aborted(election(marked(hidden(2, 3)), log_end), **more)


def received(built: Built) -> Built:
    """A reader received both while the leader with the marker led."""
    for offset in (2, 3):
        built.copy("observations", {"reader": "live", "isolation": "read_committed"}, reader="peek", offset=offset)
    return built


def acknowledged_late(built: Built) -> Built:
    """The second record of the transaction was acknowledged after the election."""
    return built.change("ledger", {"returned_ns": LATER_NS + 1}, offset=3)


def without_records(built: Built) -> Built:
    """No reader receives them at all."""
    for offset in (2, 3):
        built.change("batches", {"control": "other"}, base_offset=offset)
    return built


def _lost() -> Built:
    def edit(history: History) -> None:
        lose(2)(history)
        lose(3)(history)

    return aborted(election(marked(without_records(History(ONE).build(edit))), 4))


def of_two(start_offset: int) -> Built:
    """Both transactions of a producer are hidden; the second one lost its marker."""
    return aborted(election(marked(hidden(0, 1, 3, 4, of=TWO), 5), 5), start_offset)


def elsewhere() -> Built:
    """Hidden on one partition, and the marker was lost on another."""
    return aborted(election(marked(hidden(2, 3, partition=1), partition=1), 4))


def on_one_of_two() -> Built:
    """The same transaction ended on another partition with the acknowledged outcome."""

    def edit(history: History) -> None:
        hide(2)(history)
        hide(3)(history)

    return aborted(election(marked(History(ONE, ONE).build(edit), partition=0), 4))


# name -> (history, what condemns, number of records that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "its marker was lost with the leader": (lost_marker(), [], 2),
    "readers had received it": (received(lost_marker()), [], 2),
    "its marker and its last record were lost": (lost_marker(log_end=3), [], 2),
    "exactly the exact number of losses": (exactly(lost_marker(), 2), [], 2),
    "one more loss than the exact number": (exactly(lost_marker(), 1), ["lost 1"], 1),
    "complete on another partition": (on_one_of_two(), [], 4),
    "no election": (aborted(marked(hidden(2, 3))), ["lost 2"], 0),
    "an election that was not permitted": (
        aborted(election(marked(hidden(2, 3)), 4, unclean_election=False)),
        ["lost 2"],
        0,
    ),
    "an election of another partition": (elsewhere(), ["lost 2", "torn_transaction 2"], 0),
    "not aborted": (election(marked(hidden(2, 3)), 4), ["lost 2"], 0),
    "aborted before the election": (lost_marker(asked_ns=LATER_NS - 1), ["lost 2"], 0),
    "aborted, and its coordinator had aborted it": (lost_marker(coordinator="CompleteAbort"), ["lost 2"], 0),
    "aborted for another producer": (lost_marker(producer="q"), ["lost 2"], 0),
    "aborted for another producer id": (lost_marker(producer_id=8), ["lost 2"], 0),
    "the elected replica had its marker": (aborted(election(hidden(2, 3), 5)), ["lost 2"], 0),
    "an abort marker from before the election": (lost_marker(log_end=5), ["lost 2"], 0),
    "a replica has its marker": (
        marked(lost_marker(), control="commit", broker=2),
        ["lost 2", "replica_divergence 1"],
        0,
    ),
    "no batch was read": (lost_marker().drop("batches", count=1), ["lost 2"], 0),
    "it began above the surviving log end": (lost_marker(log_end=2), [], 2),
    "the records are lost, not hidden": (_lost(), ["lost 2"], 0),
    "acknowledged after the election": (acknowledged_late(lost_marker()), ["lost 1"], 1),
    "the transaction before it": (of_two(3), ["lost 2"], 2),
    "the transaction before it, with the start offset of that one": (of_two(0), ["lost 2", "lost 2"], 0),
    "a start offset within the transaction": (lost_marker(start_offset=3), ["lost 2"], 0),
}


HANGING = "still hangs"
BATCH = HistoryBatch([*(history for history, _, _ in CASES.values()), hanging(lost_marker())])


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case, and on one that is not over."""
    return dict(zip([*CASES, HANGING], BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_records_of_a_transaction_with_a_lost_marker_may_be_hidden(name: str, judged: dict[str, Verdict]) -> None:
    _, condemning, excused = CASES[name]
    verdict = judged[name]
    assert reported(verdict) == condemning
    assert sum(f.count for f in verdict.findings if not f.condemns) == excused


def test_an_aborted_hanging_transaction_passes_with_its_reason(judged: dict[str, Verdict]) -> None:
    verdict = judged["exactly the exact number of losses"]
    assert verdict.status is Status.PASS
    (finding,) = verdict.findings
    assert finding.excused_by == (
        "unclean election of t/0 in epoch 1, which the contract permits: its log ended at 4, before the end marker of "
        "p's transaction from offset 2; an operator aborted the hanging transaction (KIP-664)"
    )


def test_a_transaction_that_still_hangs_is_no_pass(judged: dict[str, Verdict]) -> None:
    assert judged[HANGING].status is not Status.PASS
