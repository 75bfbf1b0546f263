"""Verdicts name the copies that were read, and the records that were deleted."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.evidence.documents import plain
from harness.model.verdict import Status, Verdict
from suites.verify.checks.test_java_clients import other_harness
from suites.verify.edits import Edit, contract, cut, lose, start_at, taken
from suites.verify.excuses.test_configured_away import keyed
from suites.verify.excuses.test_topics_deleted import old_record_in_new_topic, recreated
from suites.verify.history import START_NS, Built, History
from suites.verify.judging import HistoryBatch


def only_the_drain(built: Built, **read: Any) -> Built:
    """Another harness read nothing but the leader's copy."""
    built.drop("observations", kind="replica")
    built.reads = [row | read for row in built.reads if row["kind"] == "drain"]
    return other_harness(built)


def old(**settings: Any) -> Built:
    """Retention deleted the first two of three records, which are a second older than the third."""
    return contract(History("AA.A").build(start_at(2)), **settings)


def requested(built: Built, before_offset: int) -> Built:
    return contract(built, delete_records=True).event("delete_records", before_offset=before_offset)


def both(*edits: Edit) -> Edit:
    """Several edits of one log."""

    def edit(history: History) -> None:
        for one in edits:
            one(history)

    return edit


def aborted(built: Built, seq: int) -> Built:
    """The record of the deleted topic is in a transaction that was aborted."""
    times = {"called_ns": START_NS, "ended_ns": START_NS}
    built.tables["transactions"].append({"txn_id": 9, "producer": "p", "outcome": "aborted", **times})
    return built.change("ledger", {"txn_id": 9}, stream=77, seq=seq)


def unreported(built: Built) -> Built:
    built.cluster["snapshots"].clear()
    return built


def without_drain(built: Built) -> Built:
    """Nothing was read after healing."""
    built.drop("observations", kind="drain").drop("observations", kind="replica")
    built.reads.clear()
    return built


NOTHING_OF_ONE: dict[str, int | None] = {"partitions": 1, "copies_read": 0, "copies": 3}
ALL_OF_ONE: dict[str, int | None] = {"partitions": 1, "copies_read": 3, "copies": 3}

# name -> (history, status, what was read, what was deleted)
CASES: dict[str, tuple[Built, Status, dict[str, int | None], dict[str, int]]] = {
    "every copy": (History("AAA", "A").build(), Status.PASS, {"partitions": 2, "copies_read": 6, "copies": 6}, {}),
    "a partition without records": (History("AAA", "u").build(), Status.PASS, ALL_OF_ONE, {}),
    "only the leader's copy": (
        only_the_drain(History("AAA").build()),
        Status.PASS,
        {"partitions": 1, "copies_read": 1, "copies": 3},
        {},
    ),
    "a read that several brokers served": (
        only_the_drain(History("AAA").build(), served_by=[1, 2]),
        Status.PASS,
        {"partitions": 1, "copies_read": 1, "copies": 3},
        {},
    ),
    "a read by a broker that is no replica": (
        only_the_drain(History("AAA").build(), served_by=[9]),
        Status.PASS,
        {"partitions": 1, "copies_read": 1, "copies": 3},
        {},
    ),
    "no drain": (without_drain(History("AAA").build()), Status.INCONCLUSIVE, NOTHING_OF_ONE, {}),
    "no drain, and records beyond every log": (
        without_drain(History("AAA").build(cut(1))),
        Status.FAIL,
        NOTHING_OF_ONE,
        {},
    ),
    "no broker reported the replicas": (
        unreported(only_the_drain(History("AAA").build())),
        Status.INCONCLUSIVE,
        {"partitions": 1, "copies_read": 1, "copies": None},
        {},
    ),
    "deleted by age": (old(retention_ms=500), Status.PASS, ALL_OF_ONE, {"retention.ms=500": 2}),
    "deleted by size": (old(retention_bytes=100), Status.PASS, ALL_OF_ONE, {"retention.bytes=100": 2}),
    "deleted by age or size": (
        old(retention_ms=500, retention_bytes=100),
        Status.PASS,
        ALL_OF_ONE,
        {"retention.ms=500 or retention.bytes=100": 2},
    ),
    "deleted on request": (
        requested(History("AAA").build(start_at(2)), 2),
        Status.PASS,
        ALL_OF_ONE,
        {"DeleteRecords": 2},
    ),
    "deleted on request, and then by age": (
        requested(old(retention_ms=500), 1),
        Status.PASS,
        ALL_OF_ONE,
        {"DeleteRecords": 1, "retention.ms=500": 1},
    ),
    "the only value of a key, from a topic that is compacted and deleted": (
        contract(keyed(old(retention_ms=500)), deletes=True),
        Status.PASS,
        ALL_OF_ONE,
        {"compact,delete with retention.ms=500": 2},
    ),
    "compacted, and then deleted by age": (
        contract(keyed(History("AA.A/A").build(both(start_at(2), taken(2)))), retention_ms=500, deletes=True),
        Status.PASS,
        ALL_OF_ONE,
        {"compact,delete with retention.ms=500": 2, "compaction": 1},
    ),
    "acknowledged without an offset, and deleted by age": (
        contract(History("Aa.A").build(start_at(2)), retention_ms=500),
        Status.PASS,
        ALL_OF_ONE,
        {"retention.ms=500": 2},
    ),
    "acknowledged without an offset, and lost": (
        contract(History("A.Aa").build(both(start_at(1), lose(2))), retention_ms=500),
        Status.FAIL,
        ALL_OF_ONE,
        {"retention.ms=500": 1},
    ),
    "compacted": (keyed(History("AA/A").build(taken(0))), Status.PASS, ALL_OF_ONE, {"compaction": 1}),
    "lost from a compacted topic": (
        keyed(History("AA/A").build(lose(2))),
        Status.FAIL,
        ALL_OF_ONE,
        {},
    ),
    "the topic was deleted": (
        recreated(History("AA").build(), ("acked", 1), ("acked", 2), ("unknown", 3)),
        Status.PASS,
        ALL_OF_ONE,
        {"the deletion of their topic": 2},
    ),
    "the topic was deleted, and one of its transactions had aborted": (
        aborted(recreated(History("AA").build(), ("acked", 1), ("acked", 2)), seq=1),
        Status.PASS,
        ALL_OF_ONE,
        {"the deletion of their topic": 1},
    ),
    "the topic was deleted, and a record on its way reached the next one": (
        old_record_in_new_topic(recreated(History("UA").build(), ("acked", 900), ("acked", 1)), 0),
        Status.INCONCLUSIVE,  # the ledger lacks the record that stood there
        ALL_OF_ONE,
        {"the deletion of their topic": 1},
    ),
}

BATCH = HistoryBatch(history for history, *_ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_says_what_was_read_and_what_was_deleted(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    _, status, read, deleted = CASES[name]
    assert verdict.status is status, (verdict.doubts, verdict.findings)
    assert verdict.facts.read_back is not None
    assert (plain(verdict.facts.read_back), verdict.facts.deleted_by) == (read, deleted)
