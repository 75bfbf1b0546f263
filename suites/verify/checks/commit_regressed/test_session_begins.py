"""Members of groups that began again below what their group had committed; each with near misses."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.history import MS, START_NS, Built, History, Row
from suites.verify.judging import HistoryBatch, reported
from suites.verify.metadata import Metadata

S = 1000 * MS
FOUND = ["commit_regressed 1"]


def began(
    at: int, *commits: tuple[int, float, str], received_s: float = 50, isolation: str = "read_committed"
) -> Built:
    """A member received six records, the last one at that second, and began again at an offset. Its group made these
    commits: offset, second of the request, and outcome; each took 1 s."""
    built = History("AAAAAA", name=f"{at} {commits} {received_s} {isolation}").build()
    for row in built.rows("observations", reader="grouped"):
        row |= {"given_ns": START_NS + int((received_s - 5 + row["offset"]) * S), "isolation": isolation}
        if row["offset"] >= at:
            built.tables["observations"].append(row | {"session": 1, "given_ns": None})
    like = built.tables["offset_commits"][-1]
    built.tables["offset_commits"] = [commit(like, *row) for row in commits]
    last = commit(like, 6, 150, "acked")
    built.tables["offset_commits"].append(last)
    built.run["ended_ns"] = START_NS + 200 * S
    built.drained["at_ns"] = START_NS + 201 * S
    built.drained["groups"] = [row | {"at_ns": START_NS + 201 * S} for row in built.drained["groups"]]
    built.scenario["readers"] = [{"name": "grouped", "group": "g"}]
    return built


def commit(like: Row, offset: int, at_s: float, outcome: str) -> Row:
    called_ns = START_NS + int(at_s * S)
    return like | {"offset": offset, "outcome": outcome, "called_ns": called_ns, "returned_ns": called_ns + S}


def member(built: Built, **reset: Any) -> Built:
    """The contract of the member."""
    reader = {"reader": "grouped", "group": "g", "at_most_once": False, **reset}
    built.run["contract"]["readers"] = {"grouped": reader}
    return built


def two_members(built: Built) -> Built:
    """Another member of the group received the records of the second session, which is its first one."""
    built.change("observations", {"reader": "other", "session": 0}, reader="grouped", session=1)
    built.scenario["readers"].append({"name": "other", "group": "g"})
    return built


def without_times(built: Built) -> Built:
    return built.change("observations", {"given_ns": None}, reader="grouped")


def seeks(built: Built) -> Built:
    """A new session of a member may be a seek."""
    built.run["groups_resume"] = False
    return built


def log_start(built: Built, start: int) -> Built:
    """Retention deleted the records below, so that the group's offset was out of the log."""
    for log in built.drained["partitions"][0]["logs"]:
        log["log_start"] = start
    built.run["contract"]["topics"]["t"]["retention_bytes"] = 100
    return built


def transactional(built: Built) -> Built:
    """The first commit is part of a transaction, so it may count later."""
    built.tables["transactions"].append(
        {"txn_id": 9, "producer": "p", "outcome": "committed", "called_ns": START_NS, "ended_ns": START_NS + S}
    )
    built.tables["offset_commits"][0]["txn_id"] = 9
    return built


def deleted(built: Built) -> Built:
    at = {"asked_ns": START_NS + 60 * S, "at_ns": START_NS + 61 * S}
    built.event("group_deleted", group="g", outcome="acked", **at)
    built.run["contract"]["group_deletions"] = ["kill"]
    return built


def held(built: Built, delivered_s: float) -> Built:
    """A step holds a request of the first commit, and delivers it at that second."""
    frame = {"link": "client > b1", "api": "OffsetCommit", "version": 9, "client": "g-1", "group": "g"}
    at_ns = START_NS + int(delivered_s * S)
    times = {"held_ns": built.tables["offset_commits"][0]["called_ns"], "released_ns": at_ns, "answered_ns": at_ns}
    built.steps[0]["events"].append({"kind": "held_frame", "at_ns": at_ns, "errors": [], **frame, **times})
    return built


def replaced(built: Built) -> Built:
    """The last known leader replaced the end of the log, so that the commit was above it for a while."""
    known = Metadata().in_sync(START_NS + 50 * S, last_known=(2,)).led(-1, START_NS + 50 * S + 1)
    built.metadata = known.led(2, START_NS + 51 * S, isr=(2,)).in_sync(START_NS + 52 * S, 1, 2, 3).history()
    return built


BEFORE = (3, 40, "acked")  # acknowledged before the last record of the first session was received
# name -> (history, what condemns)
CASES: dict[str, tuple[Built, list[str]]] = {
    "at the log start, as if nothing was committed": (began(0, BEFORE), FOUND),
    "with auto.offset.reset=earliest": (member(began(0, BEFORE), reset="earliest"), FOUND),
    "just below the commit": (began(2, BEFORE), FOUND),
    "below the later of two commits": (began(2, (1, 30, "acked"), BEFORE), FOUND),
    "a held commit was executed before the last one": (held(began(1, (1, 30, "acked"), BEFORE), 35), FOUND),
    # --- legal
    "at a held commit, which was executed late": (held(began(1, (1, 30, "acked"), BEFORE), 45), []),
    "at the commit": (began(3, BEFORE), []),
    "above the commit": (began(4, BEFORE, (4, 60, "acked")), []),
    "at a later commit that goes back": (began(1, BEFORE, (1, 60, "acked")), []),
    "at a commit with unknown outcome": (began(1, BEFORE, (1, 20, "unknown")), []),
    "at one of two commits that overlap": (began(2, (2, 39.5, "acked"), BEFORE), []),
    "before the first commit was acknowledged": (began(0, (3, 49.5, "acked")), []),
    "without a commit": (began(0), []),
    "a commit of a transaction": (transactional(began(0, BEFORE)), []),
    "the first session of another member": (two_members(began(0, BEFORE)), []),
    "it is unknown when the member received its records": (without_times(began(0, BEFORE)), []),
    "a member that may seek": (seeks(began(0, BEFORE)), []),
    "the commit is below the log start": (log_start(began(0, BEFORE), 4), []),
    "the group was deleted": (deleted(began(0, BEFORE)), []),
    "the end of the log may have been replaced": (replaced(began(0, BEFORE)), []),
}

BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_member_that_begins_below_what_its_group_committed_is_a_finding(
    name: str, judged: dict[str, Verdict]
) -> None:
    assert reported(judged[name]) == CASES[name][1], [f.detail for f in judged[name].findings]


def test_the_finding_names_where_it_began_and_the_commit(judged: dict[str, Verdict]) -> None:
    (one,) = judged["just below the commit"].findings
    assert (one.topic, one.partition, one.offset_first, one.reader) == ("t", 0, 2, "grouped")
    assert one.detail == "a member began there, and its group had committed 3 or a higher offset before"
    assert judged["at the commit"].status is Status.PASS, judged["at the commit"].doubts
