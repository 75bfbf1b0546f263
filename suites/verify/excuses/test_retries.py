"""Producers without idempotence: duplicates and reorderings that a retry can cause, and those that it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.edits import append, swap
from suites.verify.excuses.test_excuses import acks_one, resent_reordered
from suites.verify.history import START_NS, Built
from suites.verify.judging import HistoryBatch, reported


def client(built: Built, **settings: Any) -> Built:
    """Changes the contract of the producer."""
    built.run["contract"]["producers"]["p"].update(settings)
    return built


def split(built: Built, **settings: Any) -> Built:
    """The producer is the release's own client, without retries."""
    for row in built.tables["reservations"]:
        row["client"] = "kafka-clients 4.4.0"
    return client(built, retries=False, **settings)


def undisturbed(built: Built, do: str = "hold") -> Built:
    """No step disturbed the cluster."""
    built.steps[0].update(do=do, is_fault=False, effect=None, healed_ns=None)
    return built


def healed_at(built: Built, healed_ns: int) -> Built:
    """The fault had been healed by then."""
    built.steps[0].update(started_ns=healed_ns - 10**9, ended_ns=healed_ns - 10**8, healed_ns=healed_ns)
    return built


def took(built: Built, milliseconds: int, seq: int) -> Built:
    """The acknowledgement of one record took this long."""
    (row,) = built.rows("ledger", seq=seq)
    row["called_ns"] = row["returned_ns"] - milliseconds * 10**6
    return built


# name -> (history, what condemns, number of records that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "twice": (acks_one("AAA").build(append(1, 1)), [], 1),
    "out of order": (acks_one("AAAA").build(swap(1, 2)), [], 1),
    "twice, without retries": (
        client(acks_one("AAA").build(append(1, 1)), retries=False),
        ["duplicated 1"],
        0,
    ),
    "out of order, without retries": (
        client(acks_one("AAAA").build(swap(1, 2)), retries=False),
        ["reordered 1"],
        0,
    ),
    "twice, one in flight": (client(acks_one("AAA").build(append(1, 1)), one_in_flight=True), [], 1),
    "out of order, one in flight": (
        client(acks_one("AAAA").build(swap(1, 2)), one_in_flight=True),
        ["reordered 1"],
        0,
    ),
    "out of order, one in flight, and the earlier one had no answer": (
        client(acks_one("AuA").build(resent_reordered), one_in_flight=True),
        [],
        1,
    ),
    "twice, undisturbed": (undisturbed(acks_one("AAA").build(append(1, 1))), ["duplicated 1"], 0),
    "twice, and a step waited": (
        undisturbed(acks_one("AAA").build(append(1, 1)), do="wait_acks"),
        ["duplicated 1"],
        0,
    ),
    "twice, and a step saw that the remote tier had caught up": (
        undisturbed(acks_one("AAA").build(append(1, 1)), do="wait_tiered"),
        ["duplicated 1"],
        0,
    ),
    "twice, and a setting was changed": (
        undisturbed(acks_one("AAA").build(append(1, 1)), do="alter_topic"),
        [],
        1,
    ),
    "twice, undisturbed, acknowledged after 1 s": (
        undisturbed(took(acks_one("AAA").build(append(1, 1)), 1000, seq=1)),
        [],
        1,
    ),
    "twice, undisturbed, acknowledged after less than 1 s": (
        undisturbed(took(acks_one("AAA").build(append(1, 1)), 999, seq=1)),
        ["duplicated 1"],
        0,
    ),
    "twice, less than 30 s after healing": (
        healed_at(acks_one("AAA").build(append(1, 1)), START_NS - 29 * 10**9),
        [],
        1,
    ),
    "twice, more than 30 s after healing": (
        healed_at(acks_one("AAA").build(append(1, 1)), START_NS - 31 * 10**9),
        ["duplicated 1"],
        0,
    ),
    "out of order, and the release's own client had to split a batch": (
        undisturbed(split(acks_one("AAAAR").build(swap(1, 2)))),
        [],
        1,
    ),
    "out of order, and it splits one batch after the other": (
        undisturbed(split(acks_one("AAAAR").build(swap(1, 2)), one_in_flight=True)),
        ["reordered 1"],
        0,
    ),
    "out of order, and no record of it was refused": (
        undisturbed(split(acks_one("AAAA").build(swap(1, 2)))),
        ["reordered 1"],
        0,
    ),
    "out of order, and librdkafka splits no batch": (
        undisturbed(client(acks_one("AAAAR").build(swap(1, 2)), retries=False)),
        ["reordered 1"],
        0,
    ),
    "out of order, undisturbed": (
        undisturbed(acks_one("AAAA").build(swap(1, 2))),
        ["reordered 1"],
        0,
    ),
}

BATCH = HistoryBatch(history for history, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_retry_excuses_only_what_it_can_cause(name: str, judged: dict[str, Verdict]) -> None:
    verdict, (_, condemning, excused) = judged[name], CASES[name]
    assert reported(verdict) == condemning
    assert sum(finding.count for finding in verdict.findings if finding.excused_by) == excused
