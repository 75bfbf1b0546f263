"""Acknowledged admin operations: near misses, findings and doubts, and what a finding reports.

An operation is a letter and the value that it sets on the one entity: "a1" acknowledged, "u2" without an answer, "r3"
refused, and "a-" for a deletion. Each takes one second, and the nodes are asked five minutes after the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.outcome import Did
from harness.model.verdict import Status, Verdict
from suites.verify.edits import run_finished, sealed_by_other_client
from suites.verify.history import START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

SECOND_NS = 10**9
NODES = (1, 2, 3, 101)
OUTCOMES = {"a": "acked", "u": "unknown", "r": "refused"}
LATER_S = 300
ENTITY = "user ops-user-1 SCRAM-SHA-256"


def operated(ops: str, reported: str | Mapping[int, str], *, first: str = "-", after_s: int = LATER_S) -> Built:
    """Operations on one entity, and what every node, or each of these nodes, reports in the last snapshot."""
    history = History("AAA").build()
    history.scenario["admin"] = [{"name": "ops", "floors": {"before": 0, "during": 0, "after": 0}}]
    history.scenario["shape"] = {"brokers": 3}
    for nth, text in enumerate(ops.split()):
        called_ns = START_NS + nth * SECOND_NS
        value = _value(text[1:])
        history.tables["admin_ops"].append(
            {
                "op": nth,
                "writer": "ops",
                "kind": (Did.DELETE_USER if value is None else Did.SET_USER).value,
                "entity": ENTITY,
                "value": value,
                "outcome": OUTCOMES[text[0]],
                "called_ns": called_ns,
                "returned_ns": called_ns + SECOND_NS - 1,
                "error": None if text[0] == "a" else "_TIMED_OUT",
            }
        )
    end_ns = START_NS + (len(ops.split()) + after_s) * SECOND_NS
    _look(history, "start", dict.fromkeys(NODES, first), START_NS - SECOND_NS)
    _look(history, "drained", dict.fromkeys(NODES, reported) if isinstance(reported, str) else reported, end_ns)
    return history


def _value(text: str) -> str | None:
    return None if text == "-" else text


def _look(history: Built, phase: str, reported: Mapping[int, str], at_ns: int) -> None:
    history.tables["admin_views"] += [
        {"phase": phase, "node": node, "entity": ENTITY, "value": _value(text), "asked_ns": at_ns, "at_ns": at_ns}
        for node, text in reported.items()
    ]


def overlapping(reported: str) -> Built:
    """A second admin sets 2 while the first sets 1; both are acknowledged."""
    history = operated("a1 a2", reported)
    return history.change("admin_ops", {"called_ns": START_NS}, op=1).change("admin_ops", {"writer": "other"}, op=1)


def seen_late(reported: str) -> Built:
    """In the first snapshot after healing no node had learned of it."""
    history = operated("a1", reported)
    _look(history, "healed", dict.fromkeys(NODES, "-"), START_NS + 200 * SECOND_NS)
    return history


def without_first_snapshot(history: Built) -> Built:
    """Evidence of another client: the value before the operations is unknown."""
    return sealed_by_other_client(history).drop("admin_views", phase="start")


CASES: dict[str, tuple[Built, list[str]]] = {
    # --- legal
    "the result of an operation is there": (operated("a1", "1"), []),
    "the value is the last one that was set": (operated("a1 a2 a3", "3"), []),
    "a deleted entity is absent": (operated("a1 a-", "-"), []),
    "an entity created again is there": (operated("a1 a- a2", "2"), []),
    "an unanswered operation was done": (operated("a1 u2", "2"), []),
    "an unanswered operation was not done": (operated("a1 u2", "1"), []),
    "an unanswered operation deleted it": (operated("a1 u-", "-"), []),
    "an unanswered operation takes effect after a later one": (operated("a1 u2 a3", "2"), []),
    "no operation was acknowledged": (operated("u1 u2", "-"), []),
    "a refused operation changed nothing": (operated("a1 r2", "1"), []),
    "it was there before and no operation changed it": (operated("r2", "7", first="7"), []),
    "two concurrent operations, and the first one's value is there": (overlapping("1"), []),
    "two concurrent operations, and the second one's value is there": (overlapping("2"), []),
    "nodes learn of it late": (seen_late("1"), []),
    "an operation is in progress while nodes are asked": (operated("a1 u2", {1: "1", 2: "2", 3: "1"}, after_s=5), []),
    "nodes were not asked at the start": (without_first_snapshot(operated("u1", "9")), []),
    "unfinished run, and the result is missing": (run_finished(operated("a1", "-"), finished=False), []),
    # --- admin_lost
    "a created entity is missing": (operated("a1", "-"), ["admin_lost 1"]),
    "the value is the one before the change": (operated("a1 a2", "1"), ["admin_lost 1"]),
    "the value from before the run is back": (operated("a1", "7", first="7"), ["admin_lost 1"]),
    "missing, and a change was unanswered": (operated("a1 u2", "-"), ["admin_lost 1"]),
    "an unanswered operation cannot take effect so late": (
        operated(f"u2 {'a1 ' * 80}".strip(), "2"),
        ["admin_lost 1"],
    ),
    "nodes were not asked at the start, and the result is missing": (
        without_first_snapshot(operated("a1", "-")),
        ["admin_lost 1"],
    ),
    # --- admin_resurrected
    "a deleted entity is there again": (operated("a1 a-", "1"), ["admin_resurrected 1"]),
    "a deleted entity is there with an older value": (operated("a1 a2 a-", "1"), ["admin_resurrected 1"]),
    # --- admin_phantom
    "no operation requested the value": (operated("a1", "8"), ["admin_phantom 1"]),
    "the value of a refused operation is there": (operated("a1 r8", "8"), ["admin_phantom 1"]),
    "one node reports a value that was not requested": (operated("a1", {1: "1", 2: "8", 3: "1"}), ["admin_phantom 1"]),
    # --- metadata_divergence
    "a broker has an older value": (operated("a1 a2", {1: "2", 2: "1", 3: "2", 101: "2"}), ["metadata_divergence 1"]),
    "a controller has an older value": (
        operated("a1 a2", {1: "2", 2: "2", 3: "2", 101: "1"}),
        ["metadata_divergence 1"],
    ),
    "a broker lacks the entity": (operated("a1", {1: "1", 2: "-", 3: "1"}), ["metadata_divergence 1"]),
    "an operation was unanswered long ago, and nodes differ": (
        operated("a1 u2", {1: "1", 2: "2", 3: "1"}),
        ["metadata_divergence 1"],
    ),
    "a node has an older value while another operation is in progress": (
        operated("a1 a2 u3", {1: "2", 2: "1", 3: "3"}, after_s=5),
        ["metadata_divergence 1"],
    ),
}


def doubtful() -> dict[str, tuple[Built, str]]:
    """Histories that prove too little, with the name of the doubt."""
    floors: dict[str, Any] = {"before": 5, "during": 0, "after": 0}
    few = operated("a1", "1")
    few.scenario["admin"][0]["floors"] = floors
    silent = operated("a1", {1: "1", 2: "1", 101: "1"})
    never = operated("u1", "1")
    unseen = operated("a1", "1").drop("admin_views", phase="drained")
    unbegun = operated("a1", "1").drop("admin_views", phase="start")
    absent = operated("a1", "1")
    absent.tables["admin_ops"] = []
    return {
        "too few operations": (few, "floor_before"),
        "a broker did not report": (silent, "admin_unseen"),
        "no operation acknowledged": (never, "no_operation"),
        "an admin without rows": (absent, "no_operation"),
        "nodes were not asked afterwards": (unseen, "no_admin_views"),
        "nodes were not asked before": (unbegun, "no_admin_views"),
    }


DOUBTFUL = doubtful()
DETAILED = {
    "lost": operated("a4096 a4097", "4096"),
    "refused": operated("a4096 r4098", "4098"),
    "behind": operated("a4096 a4097", {1: "4097", 2: "4096", 3: "-", 101: "4097"}),
    "many": operated("a1 a2 a3", "3"),
}


HISTORIES = {**{name: history for name, (history, _) in (CASES | DOUBTFUL).items()}, **DETAILED}
BATCH = HistoryBatch(HISTORIES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(HISTORIES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_case_has_exactly_its_findings(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    assert not [doubt for doubt in verdict.doubts if doubt.name.startswith("check_failed")]
    assert (verdict.status is Status.FAIL) == bool(expected)


@pytest.mark.parametrize("name", DOUBTFUL)
def test_too_little_evidence_is_inconclusive(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    assert verdict.status is Status.INCONCLUSIVE
    assert {doubt.name for doubt in verdict.doubts} == {DOUBTFUL[name][1]}


def test_a_finding_names_the_operation_and_what_each_node_reports(judged: dict[str, Verdict]) -> None:
    (lost,) = judged["lost"].findings
    assert (lost.reader, lost.first_ns) == ("nodes 1, 2, 3, 101", START_NS + 10**9)
    assert lost.detail.startswith("user ops-user-1 SCRAM-SHA-256: operation 1 of ops (set_user), acknowledged at ")
    assert lost.detail.endswith("set it to 4097; nodes 1, 2, 3, 101 report 4096")
    assert "metadata log" in lost.contract
    (refused,) = judged["refused"].findings
    assert "only operation 1 of ops requested 4098, and it was refused (_TIMED_OUT)" in refused.detail
    (behind,) = judged["behind"].findings
    assert "node 2 reports 4096; nodes 1, 101 report 4097; node 3 reports that it does not exist" in behind.detail


def test_the_score_counts_operations_that_determine_a_value(judged: dict[str, Verdict]) -> None:
    for name, figures in {"many": (3, 1, 1), "lost": (2, 1, 0)}.items():
        score = judged[name].score
        assert score is not None
        assert (score.operations_acked, score.operations_standing, score.operations_held) == figures
    assert not any("admin operations" in what for what in judged["many"].not_covered)
    assert judged["many"].status is Status.PASS
