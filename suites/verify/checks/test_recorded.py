"""Parts that the run had recorded and that its bundle lacks; each with near misses."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.edits import sealed_by_other_client
from suites.verify.history import Built, History
from suites.verify.judging import HistoryBatch

GIVEN = "observations.given_ns"
PREVIOUS = "observations.previous_offset"
OFFSETS = "ledger.offset"
LOST = "the run recorded {}, and the bundle lacks it; restore it, or run the scenario again"
UNASKED = "offsets of replicas while the load ran: no broker was asked for them"
UNTIMED = "records that live readers skipped or received too early: it is not recorded when they came"
MANY = "A" * 24


def recorded(*parts: str, text: str = "AAAA", **run: Any) -> Built:
    built = History(text).build()
    built.run |= {"recorded": list(parts)} | run
    return built


def read(*offsets: int, reader: str = "live", given: bool = True, previous: bool = True, session: int = 0) -> Built:
    """A bundle in which a live reader has received these offsets in one session."""
    built = recorded(GIVEN, PREVIOUS)
    built.scenario["readers"] = [{"name": "live", "topics": ["t"]}]
    drained = {row["offset"]: row for row in built.tables["observations"] if row["kind"] == "drain"}
    built.tables["observations"] = [row for row in built.tables["observations"] if row["kind"] != "live"]
    for before, offset in zip([None, *offsets], offsets, strict=False):
        own = {"reader": reader, "kind": "live", "session": session, "given_ns": 1 if given else None}
        built.tables["observations"].append(
            drained[offset] | own | {"previous_offset": before if previous else None, "poll": offset}
        )
    return built


def unread(built: Built) -> Built:
    """The same without live readers."""
    built.scenario["readers"] = []
    built.tables["observations"] = [row for row in built.tables["observations"] if row["kind"] != "live"]
    return built


def without_offsets(text: str = MANY) -> Built:
    return recorded(OFFSETS, text=text).change("ledger", {"offset": None})


def of_other_client(built: Built) -> Built:
    built.run["recorded"] = None
    return sealed_by_other_client(built)


CASES: dict[str, tuple[Built, list[str]]] = {
    "nothing was recorded": (recorded(), []),
    "another harness": (of_other_client(unread(recorded())), []),
    "samples": (recorded("positions"), [LOST.format("positions")]),
    "samples of a broker": (recorded("positions/broker-2"), [LOST.format("positions/broker-2")]),
    "a table": (recorded("lookups", "ledger", "batches"), [LOST.format("lookups")]),
    "exits": (recorded("run.json: exits"), [LOST.format("run.json: exits")]),
    "exits that are there": (recorded("run.json: exits", exits=[]), []),
    "views of brokers": (recorded("cluster.json: brokers"), [LOST.format("cluster.json: brokers")]),
    "the history": (recorded("history.json"), [LOST.format("history.json")]),
    "a part of a later version": (recorded("tea.json"), [LOST.format("tea.json")]),
    "a run without live readers": (unread(recorded(GIVEN, PREVIOUS)), []),
    "a reader with all columns": (read(0, 1, 2, 3), []),
    "a reader without times": (
        read(0, 1, 2, 3, given=False),
        [f"{GIVEN} is empty in rows that every run writes it in (live of t/0); restore it, or run it again"],
    ),
    "a reader without an order": (
        read(0, 1, 2, 3, previous=False),
        [f"{PREVIOUS} is empty in rows that every run writes it in (live of t/0); restore it, or run it again"],
    ),
    "a reader with one record": (read(0, previous=False), []),
    "a drain that was read again": (read(0, 1, reader="leader-committed", given=False), []),
    "acknowledgements without an offset": (
        without_offsets(),
        [f"{OFFSETS} is empty in rows that every run writes it in (p of 24 records); restore it, or run it again"],
    ),
    "few acknowledgements without an offset": (without_offsets("AAAA"), []),
}
BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_part_that_was_recorded_and_is_missing_is_a_doubt(name: str, judged: dict[str, Verdict]) -> None:
    assert [d.text for d in judged[name].doubts if d.name == "evidence_missing"] == CASES[name][1]


def test_a_part_that_nobody_recorded_is_not_covered(judged: dict[str, Verdict]) -> None:
    assert UNASKED in judged["another harness"].not_covered
    assert UNASKED not in judged["samples"].not_covered
    assert UNTIMED not in judged["another harness"].not_covered  # it has no live reader
    assert UNTIMED not in judged["a reader with all columns"].not_covered
