"""Bundles from which a part of the evidence was taken away, so that two parts contradict each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.contract.contract import SENTINEL
from harness.model.verdict import Verdict
from harness.verify.checks.contradictions import COPIES
from suites.verify.edits import run_finished, sealed_by_other_client
from suites.verify.history import START_NS, Built, History
from suites.verify.judging import HistoryBatch
from suites.verify.metadata import Metadata

AT = {"topic": "t", "topic_id": "T", "partition": 0}


def whole() -> Built:
    """A bundle of a run of this harness, in which everything is there."""
    built = History("(AA)A", name="whole").build()
    built.manifest["files"] = {"run.json": {"bytes": 1, "sha256": ""}}
    built.tables["lookups"].append(
        AT | {"time_ms": 0, "offset": None, "timestamp_ms": None, "leader_epoch": None, "error": None}
    )
    built.tables["epoch_ends"].append(AT | {"epoch": 0, "reported_epoch": 0, "end_offset": 4, "error": None})
    probe = {"reader": "probe", "session": 0, "isolation": "read_uncommitted", "why": "commit", "offset": 4}
    built.tables["probes"].append(AT | probe | {"reported": "end", "end_offset": 4, "log_start": 0})
    built.scenario |= {
        "producers": [{"name": "p", "topics": ["t"], "when": "always", "transactions": {}}],
        "shape": {"brokers": 3},
        "steps": [{"name": "kill", "do": "kill"}],
    }
    step = built.steps[0]
    built.run["windows"]["during"] = [[step["started_ns"], step["healed_ns"]]]
    built.run["targets"] = [["t", 0]]
    built.run["floors"] = {"before": 1, "during": 0, "after": 0}
    built.run["load"] = {"acked": 3, "transactions": {"p": {"committed": 1}}, "operations": {}}
    return built


def without(table: str) -> Built:
    built = whole()
    built.tables[table].clear()
    return built


def loaded(**figures: Any) -> Built:
    built = whole()
    built.run["load"] |= figures
    return built


def stepped(**values: Any) -> Built:
    built = whole()
    built.steps[0] |= values
    return built


def with_run(**values: Any) -> Built:
    built = whole()
    built.run |= values
    return built


def changed(change: Callable[[Built], object]) -> Built:
    built = whole()
    change(built)
    return built


def with_history(created_ns: int) -> Built:
    """The topic was created then."""
    built = whole()
    metadata = Metadata()
    metadata.rows = [replace(row, time_ns=created_ns) for row in metadata.rows]
    built.metadata = metadata.history()
    return built


def unanswered(built: Built) -> None:
    built.change("ledger", {"outcome": "unknown", "offset": None}, seq=2)


def with_sentinel(built: Built) -> None:
    """A record of the harness itself, which is not of the load."""
    built.change("ledger", {"stream": 2, "seq": 0}, seq=2)
    built.change("observations", {"stream": 2, "seq": 0}, seq=2)
    built.change("batches", {"digest": 2000}, base_offset=3)
    built.tables["reservations"].append(
        built.rows("reservations")[0] | {"stream": 2, "producer": SENTINEL, "end_seq": 1}
    )
    built.run["load"]["acked"] = 2


def by_others(built: Built) -> Built:
    sealed_by_other_client(built)
    for table in ("lookups", "epoch_ends", "probes"):
        built.tables[table].clear()
    built.reads = [read for read in built.reads if read["kind"] != "replica"]
    built.tables["observations"] = [row for row in built.tables["observations"] if row["kind"] != "replica"]
    del built.run["load"]
    return built


# name -> (history, the beginning of each doubt)
CASES: dict[str, tuple[Built, list[str]]] = {
    "everything is there": (whole(), []),
    "a sentinel is not of the load": (changed(with_sentinel), []),
    "a run that did not finish": (run_finished(without("lookups"), finished=False), []),
    "a bundle by others": (by_others(whole()), []),
    "the row of a transaction": (
        without("transactions"),
        ["the ledger has records of 1 transactions", "the load counted 1 transactions of producer p"],
    ),
    "an acknowledgement": (changed(unanswered), ["the load counted 3 acknowledged records, and the ledger has 2"]),
    "the counters of the load": (
        with_run(load={}),
        ["the load counted None acknowledged", "the load counted 0 transactions of producer p"],
    ),
    "a transaction more than counted": (
        loaded(transactions={"p": {"committed": 1, "aborted": 1}}),
        ["the load counted 1 transactions of producer p that are aborted, and transactions has 0"],
    ),
    "operations of admins": (
        loaded(operations={"admin": {"acked": 2, "unknown": 1}}),
        ["the load counted 3 operations of admins, and admin_ops has 0"],
    ),
    "lookups by time": (without("lookups"), ["brokers reported records in 1 partitions of which lookups has no row"]),
    "lookups by epoch": (
        without("epoch_ends"),
        ["brokers reported records in 1 partitions of which epoch_ends has no row"],
    ),
    "reads from anywhere": (without("probes"), ["brokers reported records in 1 partitions of which probes has no row"]),
    "a fault that is called none": (stepped(is_fault=False, effect=None), ["the 0 faults of steps.json"]),
    "a fault that was not healed": (stepped(healed_ns=None, ended_ns=START_NS), ["the 1 faults of steps.json"]),
    "a step before the run": (
        stepped(started_ns=START_NS - 1),
        ["step kill was at", "the 1 faults of steps.json"],
    ),
    "another step": (stepped(name="pause"), ["step 1 is pause, and kill in the scenario"]),
    "a step too many": (
        changed(lambda built: built.scenario.update(steps=[])),
        ["steps.json has 1 steps, and the scenario has 0"],
    ),
    "no targets": (with_run(targets=[]), ["run.json has floors and no targets for them, and producer p writes"]),
    "no floors": (with_run(floors=None), ["run.json has no floors"]),
    "a history of another hour": (
        with_history(START_NS - 3600 * 10**9),
        [f"the metadata log has the creation of topic t at {START_NS - 3600 * 10**9}, and the run that created it"],
    ),
    "a history of the run": (with_history(START_NS + 1), []),
    "a broker": (
        changed(lambda built: built.drained.update(brokers_up=[1, 3])),
        ["brokers [2] of the scenario were not up in the last report of the brokers, and the wait"],
    ),
}

BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_contradicts_itself_is_in_doubt(name: str, judged: dict[str, Verdict]) -> None:
    texts = [doubt.text for doubt in judged[name].doubts if doubt.name == "evidence_differs"]
    expected = CASES[name][1]
    assert len(texts) == len(expected), texts
    for text, begin in zip(texts, expected, strict=True):
        assert text.startswith(begin)


def test_a_bundle_by_others_says_what_was_not_looked_at(judged: dict[str, Verdict]) -> None:
    left_out = judged["a bundle by others"].not_covered
    assert COPIES in left_out
    assert "reads that begin at arbitrary offsets: there is none" in left_out
    assert COPIES not in judged["everything is there"].not_covered
