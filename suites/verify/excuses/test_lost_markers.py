"""What an operator aborted where an unclean election took the end of a transaction, beside all that looks like it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.edits import hide, lose
from suites.verify.excuses.test_excuses import LATER_NS, election, exactly, hangs
from suites.verify.history import Built, History
from suites.verify.judging import Entered, reported

MENDED_NS = LATER_NS + 2 * 10**9
ONE = "AA(AA)A"  # 2 and 3 are a transaction, its marker stands at 4
TWO = "(AA)(AA)A"  # 0 and 1, 3 and 4; markers at 2 and 5


def hidden(*offsets: int, of: str = ONE, partition: int = 0) -> Built:
    """Nobody is given these as committed."""

    def edit(history: History) -> None:
        for offset in offsets:
            hide(offset, partition)(history)

    return History(*[of] * (partition + 1)).build(edit)


def marked(built: Built, offset: int = 4, control: str = "abort", **wanted: Any) -> Built:
    """What stands at an offset of the disks is another marker."""
    return built.change("batches", {"control": control}, base_offset=offset, **wanted)


def mended(built: Built, start_offset: int = 2, **more: Any) -> Built:
    """An operator aborts what hangs there, after the election."""
    facts = {"producer": "p", "producer_id": 7, "coordinator": "CompleteCommit", "asked_ns": MENDED_NS}
    return built.event("transaction_aborted", **{"topic_id": "T", "start_offset": start_offset, **facts, **more})


def whole(log_end: int = 4, **more: Any) -> Built:
    """The marker went with what lay at 4 and above; what stands there now is the operator's."""
    return mended(election(marked(hidden(2, 3)), log_end), **more)


def seen(built: Built) -> Built:
    """A reader was given both while the leader that had the marker led."""
    for offset in (2, 3):
        built.copy("observations", {"reader": "live", "isolation": "read_committed"}, reader="peek", offset=offset)
    return built


def late(built: Built) -> Built:
    """The second record of the transaction was acknowledged after the election."""
    return built.change("ledger", {"returned_ns": LATER_NS + 1}, offset=3)


def gone(built: Built) -> Built:
    """No reader is given them at all."""
    for offset in (2, 3):
        built.change("batches", {"control": "other"}, base_offset=offset)
    return built


def _gone() -> Built:
    def edit(history: History) -> None:
        lose(2)(history)
        lose(3)(history)

    return mended(election(marked(gone(History(ONE).build(edit))), 4))


def of_two(start_offset: int) -> Built:
    """Both transactions of a producer are hidden; the end of the second went."""
    return mended(election(marked(hidden(0, 1, 3, 4, of=TWO), 5), 5), start_offset)


def elsewhere() -> Built:
    """Hidden on one partition, and the marker went on another."""
    return mended(election(marked(hidden(2, 3, partition=1), partition=1), 4))


def on_one_of_two() -> Built:
    """The same transaction ended on another partition as its client was told."""

    def edit(history: History) -> None:
        hide(2)(history)
        hide(3)(history)

    return mended(election(marked(History(ONE, ONE).build(edit), partition=0), 4))


# name -> (history, what condemns, number of records that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "its end went with the leader": (whole(), [], 2),
    "readers had been given it": (seen(whole()), [], 2),
    "its end went, and with it the last record": (whole(log_end=3), [], 2),
    "as many as there had to be": (exactly(whole(), 2), [], 2),
    "one more than there had to be": (exactly(whole(), 1), ["lost 1"], 1),
    "whole on another partition": (on_one_of_two(), [], 4),
    "no election": (mended(marked(hidden(2, 3))), ["lost 2"], 0),
    "an election that was not permitted": (
        mended(election(marked(hidden(2, 3)), 4, unclean_election=False)),
        ["lost 2"],
        0,
    ),
    "an election of another partition": (elsewhere(), ["lost 2", "torn_transaction 2"], 0),
    "nobody aborted it": (election(marked(hidden(2, 3)), 4), ["lost 2"], 0),
    "aborted before the election": (whole(asked_ns=LATER_NS - 1), ["lost 2"], 0),
    "aborted, and its coordinator had aborted it": (whole(coordinator="CompleteAbort"), ["lost 2"], 0),
    "aborted, and it is of another producer": (whole(producer="q"), ["lost 2"], 0),
    "aborted under another id": (whole(producer_id=8), ["lost 2"], 0),
    "who was elected had its end": (mended(election(hidden(2, 3), 5)), ["lost 2"], 0),
    "an abort stood there before the election": (whole(log_end=5), ["lost 2"], 0),
    "a replica has its end": (marked(whole(), control="commit", broker=2), ["lost 2", "replica_divergence 1"], 0),
    "nobody can read a batch": (whole().drop("batches", count=1), ["lost 2"], 0),
    "it began after what survived": (whole(log_end=2), [], 2),
    "the records are gone, and not hidden": (_gone(), ["lost 2"], 0),
    "acknowledged after the election": (late(whole()), ["lost 1"], 1),
    "the transaction before it": (of_two(3), ["lost 2"], 2),
    "the transaction before it, told as this one": (of_two(0), ["lost 2", "lost 2"], 0),
    "told to begin amid a transaction": (whole(start_offset=3), ["lost 2"], 0),
}


HANGS = "still hangs"
ENTERED = Entered([*(history for history, _, _ in CASES.values()), hangs(whole())])


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case, and on one that is not over."""
    return dict(zip([*CASES, HANGS], ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_what_lost_its_end_in_a_permitted_election_may_be_hidden(name: str, judged: dict[str, Verdict]) -> None:
    _, condemning, excused = CASES[name]
    verdict = judged[name]
    assert reported(verdict) == condemning
    assert sum(f.count for f in verdict.findings if not f.condemns) == excused


def test_what_was_mended_passes_and_says_how_it_came(judged: dict[str, Verdict]) -> None:
    verdict = judged["as many as there had to be"]
    assert verdict.status is Status.PASS
    (finding,) = verdict.findings
    assert finding.excused_by == (
        "unclean election of t/0 in epoch 1, which the contract permits: its log ended at 4, and the end of p's "
        "transaction from 2 on went with the rest; an operator aborted what hung there (KIP-664)"
    )


def test_what_hangs_still_is_never_a_pass(judged: dict[str, Verdict]) -> None:
    assert judged[HANGS].status is not Status.PASS
