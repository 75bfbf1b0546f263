"""Share groups, in histories short enough to read aloud: everything is given until it is accepted, and stays so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.contract.contract import SENTINEL
from harness.model.verdict import Status, Verdict
from suites.verify.history import RC, RU, START_NS, Built, History
from suites.verify.judging import Entered, reported

Row = dict[str, Any]
S = 10**9
# An offset, and what became of that delivery: accepted, with or without an answer to that; released, rejected; or the
# member died with it.
WAYS = {
    "yes": ("accept", "acked"),
    "lost": ("accept", "unknown"),
    "back": ("release", "acked"),
    "never": ("reject", "acked"),
    "refused": ("reject", "unknown"),
    "dead": (None, None),
}


def shares(
    text: str, *given: tuple[int, str], lag: int | None = 0, start: int = 0, isolation: str = RC, limit: int = 3
) -> Built:
    """Share group s was given these, one after the other, and its coordinator said then how far it is."""
    name = f"{text} {given} {lag} {start} {isolation} {limit}"
    history = History(text, name=name).build()
    counts: dict[int, int] = {}
    for offset, way in given:
        counts[offset] = counts.get(offset, 0) + 1
        answer, outcome = WAYS[way]
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
    """What a member observed, all of it in one session, as who does not tell runs of offsets apart would write it."""
    seen = [row for row in history.rows("observations", reader="live") if row["offset"] in offsets]
    assert len(seen) == len(offsets)
    for row in seen:
        history.tables["observations"].append(row | {"reader": reader})
    return history


def by(reader: str, offset: int, history: Built) -> Built:
    """Another member was given it."""
    return history.change("deliveries", {"reader": reader}, offset=offset)


def all_of(offsets: Sequence[int], way: str = "yes") -> list[tuple[int, str]]:
    return [(offset, way) for offset in offsets]


def cut_for(seconds: float, history: Built) -> Built:
    """Answers were lost for so long, in place of a death."""
    history.steps[0] |= {"do": "cut", "healed_ns": START_NS + int(seconds * S)}
    return history


def moved(history: Built) -> Built:
    """Leaders were moved, too, which is over at once, and the run went on for long."""
    history.steps.append(history.steps[0] | {"name": "move", "do": "move_leaders", "healed_ns": None})
    history.steps[-1]["ended_ns"] = START_NS + S
    history.run["ended_ns"] = START_NS + 60 * S
    return history


def asked_early(history: Built) -> Built:
    """Before the last record was acknowledged."""
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


def later(seconds: int, history: Built) -> Built:
    """The last delivery came so long after the first of the group."""
    history.tables["deliveries"][-1]["given_ns"] += seconds * S
    return history


def undisturbed(history: Built) -> Built:
    history.steps[0].update(do="hold", is_fault=False, effect=None)
    return history


def orphaned(history: Built) -> Built:
    history.cluster["share_groups"] = []
    return history


FIRST = all_of([0, 1])
CASES: dict[str, tuple[Built, list[str]]] = {
    # --- legal
    "each once": (shares("AAA", *all_of(range(3))), []),
    "given again after a death": (shares("AAA", (0, "yes"), (1, "dead"), (1, "yes"), (2, "yes")), []),
    "given again after a release": (shares("AAA", *FIRST, (2, "back"), (2, "back"), (2, "yes")), []),
    "accepted, and nobody heard": (shares("AAA", *FIRST, (2, "lost")), []),
    "accepted unheard, and again": (shares("AAA", *FIRST, (2, "lost"), (2, "yes")), []),
    "accepted, and again unheard": (shares("AAA", *FIRST, (2, "yes"), (2, "lost")), []),
    "accepted, and given again to who dies": (shares("AAA", *FIRST, (2, "yes"), (2, "dead")), []),
    "rejected, and nobody heard, and then accepted": (shares("AAA", *FIRST, (2, "refused"), (2, "yes")), []),
    "rejected": (shares("AAA", *FIRST, (2, "never")), []),
    "archived at the limit": (shares("AAA", *FIRST, *all_of([2, 2, 2], "back")), []),
    "of an aborted transaction, which read_committed hides": (shares("AA[A]", *FIRST), []),
    "of a transaction whose end nobody knows": (shares("AA{A}", *FIRST), []),
    "written when nobody asked any more": (asked_early(shares("AAA", *FIRST)), []),
    "the drain's own": (by_sentinel(shares("AAA")), []),
    "a group that no contract names": (without_contract(shares("AAA", *FIRST)), []),
    "a member passes what another one is given": (by("other", 1, observed(shares("AAA", *all_of(range(3))), 0, 2)), []),
    "unknown, and nobody is known to have been given what is above": (shares("AU", (0, "yes")), []),
    # --- not legal
    "seen by its member alone to be left out": (
        observed(shares("AAA", (0, "yes"), (2, "yes")), 0, 2),
        ["skipped_read 1"],
    ),
    "passed by a reader of no share group that is judged": (
        observed(by("other", 1, without_contract(shares("AAA", *all_of(range(3))))), 0, 2),
        ["skipped_read 1"],
    ),
    "passed by who is in no share group": (
        observed(shares("AAA", *all_of(range(3))), 0, 2, reader="r"),
        ["skipped_read 1"],
    ),
    "unknown, below what was given": (shares("AUU", (0, "yes"), (2, "yes")), ["skipped_read 1"]),
    "unknown all of it, below what was given": (shares("UU", (1, "yes")), ["skipped_read 1"]),
    "given to nobody": (shares("AAA", *FIRST), ["skipped_read 1"]),
    "given to nobody, in the middle": (shares("AAA", (0, "yes"), (2, "yes")), ["skipped_read 1"]),
    "given to nobody, and the group is past it": (shares("AAA", (0, "yes"), lag=1, start=2), ["skipped_read 1"]),
    "released below the limit, and never again": (shares("AAA", *FIRST, (2, "back")), ["skipped_read 1"]),
    "held by who died, and never again": (shares("AAA", *FIRST, (2, "dead")), ["skipped_read 1"]),
    "given up on by a wrong count": (
        undisturbed(counted(4, shares("AAA", *FIRST, *all_of([2, 2], "back")))),
        ["skipped_read 1"],
    ),
    "given up on by a wrong count, too early for a lock to run out": (
        later(29, undisturbed(counted(3, shares("AAA", *FIRST, *all_of([2, 2], "back"))))),
        ["skipped_read 1"],
    ),
    "rejected, and then accepted": (shares("AAA", *FIRST, (2, "never"), (2, "yes")), ["commit_regressed 1"]),
    "accepted twice": (shares("AAA", *FIRST, (2, "yes"), (2, "yes")), ["commit_regressed 1"]),
    "of an aborted transaction, which read_uncommitted shows": (
        shares("AA[A]", *FIRST, isolation=RU),
        ["skipped_read 1"],
    ),
    "given to nobody, while answers were lost for a moment": (cut_for(2, shares("AAA", *FIRST)), ["skipped_read 1"]),
    "given to nobody, and leaders were moved": (moved(shares("AAA", *FIRST)), ["skipped_read 1"]),
    # --- in doubt
    "not done yet": (shares("AAA", *FIRST, lag=1, start=2), []),
    "nobody told how far it is": (orphaned(shares("AAA", *FIRST)), []),
    "a lag that nobody knows": (shares("AAA", *FIRST, lag=None), []),
    "given to nobody, while answers were lost for long": (cut_for(12, shares("AAA", *FIRST)), []),
    "one short of the limit, when a lock may have run out": (
        later(30, undisturbed(counted(3, shares("AAA", *FIRST, *all_of([2, 2], "back"))))),
        [],
    ),
    "one short of the limit, when a broker died": (shares("AAA", *FIRST, *all_of([2, 2], "back")), []),
}
UNDRAINED = {"not done yet", "nobody told how far it is", "a lag that nobody knows"}
UNSHARED = {
    "given to nobody, while answers were lost for long",
    "one short of the limit, when a lock may have run out",
    "one short of the limit, when a broker died",
}

ENTERED = Entered(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_became_of_each_record(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    doubts = {doubt.name for doubt in verdict.doubts}
    assert ("unshared" in doubts) is (name in UNSHARED)
    if name in UNDRAINED:
        assert "share_undrained" in doubts
    elif not expected and name not in UNSHARED:
        assert verdict.status is Status.PASS, verdict.doubts


def test_a_finding_names_the_record(judged: dict[str, Verdict]) -> None:
    (skipped,) = judged["given to nobody, in the middle"].findings
    assert (skipped.topic, skipped.partition, skipped.offset_first, skipped.reader) == ("t", 0, 1, "s")
    assert (skipped.stream, skipped.seq_first) == (1, 1)
    assert skipped.detail == "a share group is done with it, and it was given to none of its members"
    (again,) = judged["released below the limit, and never again"].findings
    assert again.detail.endswith("no member accepted or rejected it when it was given, up to 1 times")
    assert again.contract.endswith("(KIP-932)")
    (twice,) = judged["accepted twice"].findings
    assert twice.detail == "a share group was given it again, though an accept or reject of it was told"


def test_what_is_archived_is_excused_and_says_so(judged: dict[str, Verdict]) -> None:
    (archived,) = judged["archived at the limit"].findings
    assert archived.excused_by == "archived at share.delivery.count.limit=3 of share group s"


def test_what_is_given_again_is_counted(judged: dict[str, Verdict]) -> None:
    assert judged["each once"].facts["redelivered"] == {}
    assert judged["given again after a death"].facts["redelivered"] == {"t/0": 1}
    assert judged["given again after a release"].facts["redelivered"] == {"t/0": 1}


def test_a_doubt_says_how_far_the_group_was(judged: dict[str, Verdict]) -> None:
    texts = [doubt.text for doubt in judged["not done yet"].doubts]
    assert "share group s was not done with t/0: 1 offsets from 2 on" in texts
