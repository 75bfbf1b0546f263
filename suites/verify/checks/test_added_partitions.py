"""Partitions that are added to a topic which a group reads: which of their first records the group may skip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.finding import Kind
from harness.model.verdict import Verdict
from suites.verify.history import RC, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

S = 10**9
ADDED_NS = START_NS + S


def grown(name: str, *, added: bool = True) -> Built:
    """The second of two partitions was added by a step."""
    built = History("AAA", "AAAA", name=name).build()
    built.steps[0]["started_ns"] = ADDED_NS
    return built.event("partitions_added", partition=1, partitions=2, at_ns=ADDED_NS + 1) if added else built


def consumer(
    name: str, began: int, *, reset: str = "latest", members: Sequence[str] = ("grouped",), **of: Any
) -> Built:
    """A member of group g began at this offset of the second partition, where its group had none."""
    built = grown(name, **of)
    for offset in range(began):
        built.drop("observations", reader="grouped", partition=1, offset=offset)
    at_ns = max(row["returned_ns"] for row in built.tables["ledger"])
    row = {"group": "g", "reader": "grouped", "topic": "t", "partition": 1, "committed": None, "began": began}
    built.cluster["group_resets"] = [row | {"at_ns": at_ns}]
    built.run["contract"]["readers"] = {
        member: {"reader": member, "group": "g", "at_most_once": False, "reset": reset} for member in members
    }
    built.scenario["readers"] = [{"name": member, "group": "g", "isolation": RC} for member in members]
    return built


def reported_late(built: Built) -> Built:
    """The client of the producer reported the acknowledgements a second after the member had begun."""
    for row in built.rows("ledger", partition=1):
        row["returned_ns"] += S
    return built


def committed_before(built: Built) -> Built:
    """The group had committed in the added partition, and nothing permits that its offset is lost."""
    return built.change("offset_commits", {"called_ns": START_NS, "returned_ns": START_NS}, partition=1, offset=2)


def skips(built: Built, *offsets: int) -> Built:
    for offset in offsets:
        built.drop("observations", reader="grouped", partition=1, offset=offset)
    return built


def shared(name: str, *given: tuple[int, int], known: str | None = "acked", reset: str = "latest", **of: Any) -> Built:
    """Share group s received these (partition, offset), one answer of it before the second partition was added."""
    built = grown(name, **of)
    row = {"group": "s", "reader": "worker", "topic": "t", "topic_id": "T", "count": 1, "answer": "accept"}
    times = {"given_ns": ADDED_NS + S, "returned_ns": ADDED_NS + S, "outcome": "acked", "error": None}
    built.tables["deliveries"] += [row | times | {"partition": p, "offset": offset} for p, offset in given]
    if known is not None:
        before = {"given_ns": START_NS, "returned_ns": START_NS, "outcome": known}
        built.change("deliveries", before, partition=0, offset=given[0][1])
    asked_ns = int(built.run["ended_ns"]) + 10 * S
    share = {"group": "s", "topics": ["t"], "isolation": RC, "limit": 3, "reset": reset}
    built.run["contract"]["shares"] = {"s": share}
    done = {"group": "s", "topic": "t", "start": 0, "lag": 0, "asked_ns": asked_ns, "at_ns": asked_ns}
    built.cluster["share_groups"] = [done | {"partition": p} for p in (0, 1)]
    return built


def group_deleted(built: Built) -> Built:
    times = {"asked_ns": ADDED_NS, "at_ns": ADDED_NS}
    built.steps[0]["events"].append({"kind": "group_deleted", "group": "s", "outcome": "acked", **times})
    return built


OLD = [(0, 0), (0, 1), (0, 2)]
# name -> (history, what condemns, how many records are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    built.name: (built, condemns, excused)
    for built, condemns, excused in [
        # --- consumer groups
        (consumer("began at the end", 2), [], 2),
        (consumer("began at the end, and received nothing there", 4), [], 4),
        (reported_late(consumer("began at the end before the producer heard of it", 2)), [], 2),
        (skips(consumer("began at the end, and skipped a record above", 1), 2), ["skipped_read 1"], 1),
        (consumer("one of two members began at the end", 2, members=("grouped", "other")), [], 2),
        (consumer("began at the first record", 0, reset="earliest"), [], 0),
        (consumer("began behind the first record, with earliest", 2, reset="earliest"), ["skipped_read 2"], 0),
        (committed_before(consumer("began at the end, and had committed", 3)), ["skipped_read 3"], 0),
        (consumer("began at the end of a partition that was there before", 2, added=False), [], 0),
        # --- share groups
        (shared("a known topic grew, and the group has all", *OLD, *[(1, n) for n in range(4)]), [], 0),
        (shared("a known topic grew, and the group skipped two", *OLD, (1, 2), (1, 3)), ["skipped_read 2"], 0),
        (shared("a known topic grew, and the group skipped all", *OLD), ["skipped_read 4"], 0),
        (shared("a topic grew before the group began", *OLD, (1, 2), (1, 3), known=None), [], 2),
        (shared("a topic grew, and the group's answer had failed", *OLD, (1, 2), (1, 3), known="unknown"), [], 2),
        (group_deleted(shared("a topic grew, and the group was deleted", *OLD, (1, 2), (1, 3))), [], 2),
        (shared("no step added the partition", *OLD, (1, 2), (1, 3), added=False), [], 2),
        (shared("begins at the first record anyway", *OLD, (1, 2), (1, 3), reset="earliest"), ["skipped_read 2"], 0),
    ]
}
BATCH = HistoryBatch(history for history, *_ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_a_group_may_skip_of_an_added_partition(name: str, judged: dict[str, Verdict]) -> None:
    _, condemns, excused = CASES[name]
    verdict = judged[name]
    permitted = [f for f in verdict.findings if f.kind is Kind.SKIPPED_READ and f.excused_by is not None]
    assert (reported(verdict), sum(f.count for f in permitted)) == (condemns, excused), verdict.findings
    if not condemns:
        assert not [doubt for doubt in verdict.doubts if doubt.name == "unshared"], verdict.doubts


def test_an_excuse_says_why(judged: dict[str, Verdict]) -> None:
    (finding,) = judged["began at the end"].findings
    assert finding.excused_by == (
        "skipped by the application: auto.offset.reset=latest of grouped, and the partition was added while g read "
        "the topic"
    )
