"""Share groups: each record is delivered until it is accepted, and then not again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.contract.contract import SENTINEL
from harness.model.verdict import Status, Verdict
from suites.verify.history import RC, RU, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

Row = dict[str, Any]
S = 10**9
# Names of the answers to a delivery: accepted or rejected, acknowledged or not; released; or no answer because the
# member died.
ANSWERS = {
    "yes": ("accept", "acked"),
    "lost": ("accept", "unknown"),
    "back": ("release", "acked"),
    "never": ("reject", "acked"),
    "refused": ("reject", "unknown"),
    "dead": (None, None),
}


def share_group(
    text: str, *given: tuple[int, str], lag: int | None = 0, start: int = 0, isolation: str = RC, limit: int = 3
) -> Built:
    """Share group s received these deliveries in order, and its coordinator then reported its progress."""
    name = f"{text} {given} {lag} {start} {isolation} {limit}"
    history = History(text, name=name).build()
    counts: dict[int, int] = {}
    for offset, way in given:
        counts[offset] = counts.get(offset, 0) + 1
        answer, outcome = ANSWERS[way]
        history.tables["deliveries"].append(
            {
                "group": "s",
                "reader": "worker",
                "topic": "t",
                "topic_id": "T",
                "partition": 0,
                "offset": offset,
                "count": counts[offset],
                "answer": answer,
                "outcome": outcome,
                "error": None,
                "given_ns": START_NS,
                "returned_ns": START_NS if outcome else None,
            }
        )
    asked_ns = int(history.run["ended_ns"]) + S
    history.run["contract"]["shares"] = {"s": {"group": "s", "topics": ["t"], "isolation": isolation, "limit": limit}}
    history.cluster["share_groups"] = [
        {
            "group": "s",
            "topic": "t",
            "partition": 0,
            "start": start,
            "lag": lag,
            "asked_ns": asked_ns,
            "at_ns": asked_ns,
        }
    ]
    return history


def observed(history: Built, *offsets: int, reader: str = "worker") -> Built:
    """Observations of a member, all in one session, as a client writes them that does not separate acquired ranges."""
    seen = [row for row in history.rows("observations", reader="live") if row["offset"] in offsets]
    assert len(seen) == len(offsets)
    for row in seen:
        history.tables["observations"].append(row | {"reader": reader})
    return history


def to_member(reader: str, offset: int, history: Built) -> Built:
    """Another member received it."""
    return history.change("deliveries", {"reader": reader}, offset=offset)


def all_of(offsets: Sequence[int], way: str = "yes") -> list[tuple[int, str]]:
    return [(offset, way) for offset in offsets]


def answers_lost_for(seconds: float, history: Built) -> Built:
    """Answers were lost for this long, instead of a killed broker."""
    return faulty_for(seconds, "cut", history)


def faulty_for(seconds: float, do: str, history: Built) -> Built:
    history.steps[0] |= {"do": do, "healed_ns": START_NS + int(seconds * S)}
    return history


def with_leaders_moved(history: Built) -> Built:
    """Leaders were moved as well, which is over at once, and the run continued for a long time."""
    history.steps.append(history.steps[0] | {"name": "move", "do": "move_leaders", "healed_ns": None})
    history.steps[-1]["ended_ns"] = START_NS + S
    history.run["ended_ns"] = START_NS + 60 * S
    return history


def asked_early(history: Built) -> Built:
    """The coordinator was asked before the last record was acknowledged."""
    last = max(row["returned_ns"] for row in history.tables["ledger"])
    history.cluster["share_groups"][0]["asked_ns"] = last - 1
    return history


def by_sentinel(history: Built) -> Built:
    history.change("reservations", {"producer": SENTINEL}, stream=1)
    return history


def without_contract(history: Built) -> Built:
    del history.run["contract"]["shares"]
    return history


def counted(count: int, history: Built) -> Built:
    """The group's own count of the last delivery."""
    history.tables["deliveries"][-1]["count"] = count
    return history


def delivered_late(seconds: int, history: Built) -> Built:
    """The last delivery came this long after the group's first."""
    history.tables["deliveries"][-1]["given_ns"] += seconds * S
    return history


def undisturbed(history: Built) -> Built:
    history.steps[0].update(do="hold", is_fault=False, effect=None)
    return history


def without_progress(history: Built) -> Built:
    history.cluster["share_groups"] = []
    return history


def began_late(history: Built) -> Built:
    """The group was set to begin at the log end, as Kafka does where nothing is set."""
    history.run["contract"]["shares"]["s"]["reset"] = "latest"
    return history


FIRST = all_of([0, 1])
CASES: dict[str, tuple[Built, list[str]]] = {
    # --- legal
    "each record once": (share_group("AAA", *all_of(range(3))), []),
    "delivered again after a member died": (share_group("AAA", (0, "yes"), (1, "dead"), (1, "yes"), (2, "yes")), []),
    "delivered again after a release": (share_group("AAA", *FIRST, (2, "back"), (2, "back"), (2, "yes")), []),
    "accepted without an answer": (share_group("AAA", *FIRST, (2, "lost")), []),
    "accepted without an answer, and accepted again": (share_group("AAA", *FIRST, (2, "lost"), (2, "yes")), []),
    "accepted, and again without an answer": (share_group("AAA", *FIRST, (2, "yes"), (2, "lost")), []),
    "accepted, and delivered again to a member that dies": (share_group("AAA", *FIRST, (2, "yes"), (2, "dead")), []),
    "rejected without an answer, and then accepted": (share_group("AAA", *FIRST, (2, "refused"), (2, "yes")), []),
    "rejected": (share_group("AAA", *FIRST, (2, "never")), []),
    "archived at the limit": (share_group("AAA", *FIRST, *all_of([2, 2, 2], "back")), []),
    "a record of an aborted transaction with read_committed": (share_group("AA[A]", *FIRST), []),
    "a record of a transaction with unknown outcome": (share_group("AA{A}", *FIRST), []),
    "written after the coordinator was asked": (asked_early(share_group("AAA", *FIRST)), []),
    "a sentinel of the drain": (by_sentinel(share_group("AAA")), []),
    "a group that the contract does not name": (without_contract(share_group("AAA", *FIRST)), []),
    "a member passes a record that another member received": (
        to_member("other", 1, observed(share_group("AAA", *all_of(range(3))), 0, 2)),
        [],
    ),
    "unknown outcome, above all deliveries": (share_group("AU", (0, "yes")), []),
    "written before the group began": (began_late(share_group("AAA", (2, "yes"))), []),
    "written before the group began, and delivered before its state was kept": (
        began_late(share_group("AAA", (0, "dead"), (1, "lost"), (2, "yes"))),
        [],
    ),
    # --- not legal
    "written before the group began, which begins at the log start": (
        share_group("AAA", (2, "yes")),
        ["skipped_read 2"],
    ),
    "written after the group began, and never delivered": (
        began_late(share_group("AAA", (1, "yes"))),
        ["skipped_read 1"],
    ),
    "written after the group began, and released only": (
        began_late(undisturbed(share_group("AAA", (1, "back"), (2, "yes")))),
        ["skipped_read 1"],
    ),
    "left out, as its member observed": (
        observed(share_group("AAA", (0, "yes"), (2, "yes")), 0, 2),
        ["skipped_read 1"],
    ),
    "passed by a member of a group that the contract does not name": (
        observed(to_member("other", 1, without_contract(share_group("AAA", *all_of(range(3))))), 0, 2),
        ["skipped_read 1"],
    ),
    "passed by a reader outside share groups": (
        observed(share_group("AAA", *all_of(range(3))), 0, 2, reader="r"),
        ["skipped_read 1"],
    ),
    "unknown outcome, below a delivery": (share_group("AUU", (0, "yes"), (2, "yes")), ["skipped_read 1"]),
    "all of unknown outcome, below a delivery": (share_group("UU", (1, "yes")), ["skipped_read 1"]),
    "never delivered": (share_group("AAA", *FIRST), ["skipped_read 1"]),
    "never delivered, in the middle": (share_group("AAA", (0, "yes"), (2, "yes")), ["skipped_read 1"]),
    "never delivered, and the group's start is above it": (
        share_group("AAA", (0, "yes"), lag=1, start=2),
        ["skipped_read 1"],
    ),
    "released below the limit, and not delivered again": (share_group("AAA", *FIRST, (2, "back")), ["skipped_read 1"]),
    "held by a member that died, and not delivered again": (
        share_group("AAA", *FIRST, (2, "dead")),
        ["skipped_read 1"],
    ),
    "archived because of a wrong count": (
        undisturbed(counted(4, share_group("AAA", *FIRST, *all_of([2, 2], "back")))),
        ["commit_regressed 1", "skipped_read 1"],  # the count is above the limit, too
    ),
    "archived because of a wrong count, before a lock can expire": (
        delivered_late(29, undisturbed(counted(3, share_group("AAA", *FIRST, *all_of([2, 2], "back"))))),
        ["skipped_read 1"],
    ),
    "rejected, and then accepted": (share_group("AAA", *FIRST, (2, "never"), (2, "yes")), ["commit_regressed 1"]),
    "accepted twice": (share_group("AAA", *FIRST, (2, "yes"), (2, "yes")), ["commit_regressed 1"]),
    "a record of an aborted transaction with read_uncommitted": (
        share_group("AA[A]", *FIRST, isolation=RU),
        ["skipped_read 1"],
    ),
    "never delivered, while answers were lost for 2 s": (
        answers_lost_for(2, share_group("AAA", *FIRST)),
        ["skipped_read 1"],
    ),
    "never delivered, while a broker was killed again and again for 12 s": (
        faulty_for(12, "crash_loop", share_group("AAA", *FIRST)),
        ["skipped_read 1"],
    ),
    "never delivered, and leaders were moved": (with_leaders_moved(share_group("AAA", *FIRST)), ["skipped_read 1"]),
    # --- in doubt
    "not finished yet": (share_group("AAA", *FIRST, lag=1, start=2), []),
    "no progress reported": (without_progress(share_group("AAA", *FIRST)), []),
    "an unknown lag": (share_group("AAA", *FIRST, lag=None), []),
    "never delivered, while answers were lost for 12 s": (answers_lost_for(12, share_group("AAA", *FIRST)), []),
    "never delivered, while a broker ran out of memory for 12 s": (
        faulty_for(12, "out_of_memory", share_group("AAA", *FIRST)),
        [],
    ),
    "one delivery below the limit, and a lock may have expired": (
        delivered_late(30, undisturbed(counted(3, share_group("AAA", *FIRST, *all_of([2, 2], "back"))))),
        [],
    ),
    "it is unknown where the group began": (began_late(share_group("AAA", (1, "dead"))), []),
    "one delivery below the limit, and a broker died": (share_group("AAA", *FIRST, *all_of([2, 2], "back")), []),
}
UNDRAINED = {"not finished yet", "no progress reported", "an unknown lag"}
UNSHARED = {
    "never delivered, while a broker ran out of memory for 12 s",
    "never delivered, while answers were lost for 12 s",
    "one delivery below the limit, and a lock may have expired",
    "one delivery below the limit, and a broker died",
    "it is unknown where the group began",
}

BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_case_has_exactly_its_findings(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    doubts = {doubt.name for doubt in verdict.doubts}
    assert ("unshared" in doubts) is (name in UNSHARED)
    if name in UNDRAINED:
        assert "share_undrained" in doubts
    elif not expected and name not in UNSHARED:
        assert verdict.status is Status.PASS, verdict.doubts


def test_a_finding_names_the_record(judged: dict[str, Verdict]) -> None:
    (skipped,) = judged["never delivered, in the middle"].findings
    assert (skipped.topic, skipped.partition, skipped.offset_first, skipped.reader) == ("t", 0, 1, "s")
    assert (skipped.stream, skipped.seq_first) == (1, 1)
    assert skipped.detail == "the share group has finished with the record, and none of its members received it"
    (again,) = judged["released below the limit, and not delivered again"].findings
    assert again.detail.endswith("no member accepted or rejected it; it was delivered up to 1 times")
    assert again.contract.endswith("(KIP-932)")
    (twice,) = judged["accepted twice"].findings
    assert twice.detail == (
        "the share group delivered the record again after an accept or reject of it had been acknowledged"
    )


def test_an_archived_record_is_excused_with_its_limit(judged: dict[str, Verdict]) -> None:
    (archived,) = judged["archived at the limit"].findings
    assert archived.excused_by == "archived at share.delivery.count.limit=3 of share group s"


def test_what_a_group_did_not_get_because_it_began_later_is_said(judged: dict[str, Verdict]) -> None:
    (before,) = judged["written before the group began"].findings
    assert (before.offset_first, before.offset_last, before.count) == (0, 1, 2)
    assert before.excused_by == "written before share group s began there: share.auto.offset.reset=latest"
    (doubt,) = [d for d in judged["it is unknown where the group began"].doubts if d.name == "unshared"]
    assert doubt.text.startswith("share group s accepted none of 3 records of t/0")
    assert doubt.text.endswith("or have begun after them: share.auto.offset.reset=latest")


def test_repeated_deliveries_are_counted(judged: dict[str, Verdict]) -> None:
    assert judged["each record once"].facts.redelivered == {}
    assert judged["delivered again after a member died"].facts.redelivered == {"t/0": 1}
    assert judged["delivered again after a release"].facts.redelivered == {"t/0": 1}


def test_a_doubt_reports_the_progress_of_the_group(judged: dict[str, Verdict]) -> None:
    texts = [doubt.text for doubt in judged["not finished yet"].doubts]
    assert "share group s had not finished t/0: 1 offsets were left from 2 on" in texts
