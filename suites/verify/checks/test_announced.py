"""The auditor's alarms beside what the verifier proves: no verdict changes, and gaps and false alarms are named."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch

BEFORE, AFTER = (START_NS, START_NS + 100 * MS), (START_NS + 200 * MS, START_NS + 900 * MS)
RECOVERED_S = 0.3
NOTES = ("the auditor", "an alarm of the auditor")


def audited(built: Built, *alarms: dict[str, Any], **report: Any) -> Built:
    built.run["windows"] = {"before": BEFORE, "during": [[BEFORE[1], AFTER[0]]], "after": AFTER}
    built.run["recovered"] = {"ok": True, "waited_s": RECOVERED_S, "last_seen": ""}
    built.run["audit"] = {"alarms": list(alarms), "coverage": ["metadata"], "whole": True, **report}
    return built


def alarm(at_ms: int, severity: str = "loss", partition: int | None = 0, topic_id: str = "T") -> dict[str, Any]:
    places = [] if partition is None else [{"topic": "t", "topic_id": topic_id, "partition": partition}]
    said = {"rule": "log-start", "cause": "a cause", "what": "The log start of t/0 moved.", "severity": severity}
    return {**said, "opened_ns": START_NS + at_ms * MS, "places": places}


def lost() -> Built:
    """The first record of t/0 is on no replica."""
    built = History("AAAA").build()
    for reads in ("observations", "batches"):
        built.tables[reads] = [row for row in built.tables[reads] if row.get("offset", row.get("base_offset")) != 0]
    return built


CASES: dict[str, tuple[Built, Status, list[str]]] = {}


def case(name: str, built: Built, status: Status, *notes: str) -> None:
    CASES[name] = built, status, list(notes)


case("no auditor", History("AAAA").build(), Status.PASS)
case("no alarm", audited(History("AAAA").build()), Status.PASS)
case("an alarm while a fault is active", audited(History("AAAA").build(), alarm(150)), Status.PASS)
case("an alarm during the recovery", audited(History("AAAA").build(), alarm(499)), Status.PASS)
FALSE = "an alarm of the auditor has no cause in the run (log-start): The log start of t/0 moved."
case("an alarm before the first fault", audited(History("AAAA").build(), alarm(50)), Status.PASS, FALSE)
case("an alarm after the recovery", audited(History("AAAA").build(), alarm(501)), Status.PASS, FALSE)
case("an alarm about an earlier topic", audited(History("AAAA").build(), alarm(50, topic_id="U")), Status.PASS)
case("an alarm about no topic", audited(History("AAAA").build(), alarm(50, partition=None)), Status.PASS, FALSE)
case("a notice at rest", audited(History("AAAA").build(), alarm(50, "notice")), Status.PASS)
case(
    "an auditor that ended early",
    audited(History("AAAA").build(), problem="it was killed"),
    Status.PASS,
    "the auditor did not watch the whole run: it was killed",
)
GAP = "the auditor raised no alarm about lost records of t/0"
case("a loss without an alarm", audited(lost()), Status.FAIL, GAP)
case("a loss with a mere notice", audited(lost(), alarm(150, "notice")), Status.FAIL, GAP)
case("a loss that was announced", audited(lost(), alarm(50)), Status.FAIL)
case("a loss, and an alarm about another partition", audited(lost(), alarm(50, partition=1)), Status.FAIL, GAP, FALSE)

BATCH = HistoryBatch(built for built, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_alarms_are_compared_with_what_is_proven(name: str, judged: dict[str, Verdict]) -> None:
    verdict, (_, status, notes) = judged[name], CASES[name]
    assert verdict.status is status, verdict.doubts
    assert [note for note in verdict.notes if note.startswith(NOTES)] == notes
