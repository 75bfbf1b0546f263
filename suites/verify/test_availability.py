"""Availability figures by window and fault; they decide nothing."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from harness.evidence.documents import plain
from harness.model.verdict import Status
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch

S: Final = 1000 * MS
_STEP: Final = {"do": "kill", "is_fault": True, "resolved": {}, "events": []}


def acked_at(*times_s: float, text: str = "A", took_ms: float = 5) -> Built:
    """Records acknowledged at these seconds, each sent this long before."""
    history = History(text * len(times_s)).build()
    for row, at_s in zip(history.tables["ledger"], times_s, strict=True):
        row["returned_ns"] = START_NS + int(at_s * S)
        row["called_ns"] = row["returned_ns"] - int(took_ms * MS)
    return history


def with_faults(history: Built, *faults: tuple[str, float, float]) -> Built:
    """With faults of these names, each from one second to another."""
    spans = [(name, START_NS + int(a * S), START_NS + int(b * S)) for name, a, b in faults]
    history.run["windows"] = {
        "before": [START_NS, spans[0][1]],
        "during": [[a, b] for _, a, b in spans],
        "after": [spans[-1][2], START_NS + 100 * S],
    }
    effect = {"held": True, "because": "", "seen": {}}
    history.steps = [
        *({**_STEP, "name": n, "started_ns": a, "ended_ns": a, "healed_ns": b, "effect": effect} for n, a, b in spans)
    ]
    return history


def reported(spark: SparkSession, batch: HistoryBatch) -> dict[str, Any]:
    (verdict,) = batch.verdicts(spark)
    assert verdict.facts.availability is not None
    found: dict[str, Any] = json.loads(json.dumps(plain(verdict.facts.availability)))
    return found


def waited(history: Built, called_s: dict[int, float]) -> Built:
    """The send times of these records, by their order."""
    for n, at_s in called_s.items():
        history.tables["ledger"][n]["called_ns"] = START_NS + int(at_s * S)
    return history


ACKED = waited(acked_at(0.1, 0.2, 0.3, 2.5, 3.5, 9.0, took_ms=4), {3: 0.9, 4: 3.4})
BY_WINDOW = HistoryBatch([with_faults(ACKED, ("kill", 1, 3))])


def test_a_request_open_during_a_fault_counts_as_during(spark: SparkSession) -> None:
    assert reported(spark, BY_WINDOW)["ack_ms"] == {
        "before": {"acks": 3, "p50": 4.0, "p99": 4.0},
        "during": {"acks": 1, "p50": 1600.0, "p99": 1600.0},
        "after": {"acks": 2, "p50": 4.0, "p99": 100.0},
    }


def given_after(history: Built, *delays_ms: float | None) -> Built:
    """Each record was received by one live reader this long after its send; None = unknown."""
    history.run["timestamps"] = "send"
    for row, delay_ms in zip(history.tables["ledger"], delays_ms, strict=True):
        for seen in history.tables["observations"]:
            if (seen["stream"], seen["seq"]) == (row["stream"], row["seq"]):
                seen["timestamp_ms"] = row["called_ns"] // MS
                if seen["reader"] == "live" and delay_ms is not None:
                    seen["given_ns"] = row["called_ns"] // MS * MS + int(delay_ms * MS)
    return history


GIVEN = given_after(acked_at(0.1, 0.2, 0.3, 2.5, 3.5, 9.0, took_ms=4), 20, 40, None, 30, 10, 10)
READS_BY_WINDOW = HistoryBatch([with_faults(GIVEN, ("kill", 1, 3))])


def test_read_latencies_are_reported_by_window(spark: SparkSession) -> None:
    assert reported(spark, READS_BY_WINDOW)["read_ms"] == {
        "before": {"records": 2, "p50": 20.0, "p99": 40.0},
        "during": {"records": 1, "p50": 30.0, "p99": 30.0},
        "after": {"records": 2, "p50": 10.0, "p99": 10.0},
    }


NOT_SET = with_faults(given_after(acked_at(0.1, 0.2), 20, 40), ("kill", 1, 3))
NOT_SET.run["timestamps"] = None
WITHOUT_TIMES = HistoryBatch([NOT_SET])


def test_read_latencies_need_timestamps_set_by_clients(spark: SparkSession) -> None:
    assert reported(spark, WITHOUT_TIMES)["read_ms"] == {}


FAULTS = (("slow", 0.2, 4.5), ("cut", 0.5, 1.2), ("kill", 1.3, 4.5), ("flap", 3.0, 3.5))
AMONG_FAULTS = HistoryBatch([with_faults(waited(acked_at(0.1, 0.9, 4.0, 4.1, 6.0), {2: 0.95, 4: 4.6}), *FAULTS)])


def test_a_stall_belongs_to_the_most_recent_fault_active_for_most_of_it(spark: SparkSession) -> None:
    found = reported(spark, AMONG_FAULTS)
    others = ["slow", "cut", "flap"]
    assert found["longest_stall"] == {"place": "t/0", "s": 3.05, "fault": "kill", "also_open": others}
    none = {fault: {"t/0": 0.0} for fault in others}
    assert found["without_acks_s"] == {**none, "kill": {"t/0": 3.05}, "between faults": {"t/0": 1.4}}
    assert found["also_open"] == {"kill": others}


NOT_OPEN = (("over", 0.1, 0.95), ("kill", 1.3, 4.5), ("later", 4.0, 4.5))
ALONE = HistoryBatch([with_faults(waited(acked_at(0.1, 0.9, 4.0), {2: 0.95}), *NOT_OPEN)])


def test_faults_outside_a_stall_are_not_listed_with_it(spark: SparkSession) -> None:
    found = reported(spark, ALONE)
    assert (found["longest_stall"]["also_open"], found["also_open"]) == ([], {})
    assert found["without_acks_s"] == {"over": {"t/0": 0.0}, "kill": {"t/0": 3.05}, "later": {"t/0": 0.0}}


UNANSWERED = acked_at(0.1, 0.9, 5.0, 9.0, 9.1, 15.0)
UNANSWERED.tables["ledger"][2].update(outcome="unknown", offset=None, called_ns=START_NS + S)
GIVEN_UP = HistoryBatch([with_faults(waited(UNANSWERED, {3: 7.0}), ("kill", 1, 8.5))])


def test_a_record_that_the_client_gave_up_counts_as_waiting(spark: SparkSession) -> None:
    """Nothing is acknowledged for 8 s; the record sent at the start was given up, the one that ended the gap was
    sent later. Records sent in a pause are another matter."""
    found = reported(spark, GIVEN_UP)
    assert found["longest_stall"] == {"place": "t/0", "s": 8.0, "fault": "kill", "also_open": []}
    assert found["without_acks_s"] == {"kill": {"t/0": 8.0}}


IDLE = HistoryBatch([with_faults(acked_at(0.1, 5.0, 5.1, 20.0), ("kill", 1, 3))])


def test_an_idle_partition_is_not_stalled(spark: SparkSession) -> None:
    """Bursts with pauses: the partition is idle, not unavailable."""
    found = reported(spark, IDLE)
    assert (found["longest_stall"], found["without_acks_s"]) == (None, {"kill": {"t/0": 0.0}})


REFUSED = acked_at(0.1, 0.2, 9.0)
REFUSED.tables["ledger"][2].update(outcome="refused", offset=None, called_ns=START_NS + 3 * S)
GIVEN_UP_AT_THE_END = HistoryBatch([with_faults(REFUSED, ("kill", 1, 8))])


def test_a_record_given_up_at_the_end_counts_as_waiting(spark: SparkSession) -> None:
    found = reported(spark, GIVEN_UP_AT_THE_END)
    assert found["longest_stall"] == {"place": "t/0", "s": 8.8, "fault": "kill", "also_open": []}


def _without_windows(windows: Any) -> HistoryBatch:
    history = waited(acked_at(0.1, 3.0), {1: 0.2})
    history.run["windows"] = windows
    return HistoryBatch([history])


@pytest.mark.parametrize("batch", [_without_windows(None), _without_windows({})], ids=["none", "empty"])
def test_evidence_without_windows_has_stalls(spark: SparkSession, batch: HistoryBatch) -> None:
    found = reported(spark, batch)
    assert (found["ack_ms"], found["longest_stall"]["s"]) == ({}, 2.8)


def _tier_caught_up() -> Built:
    history = with_faults(acked_at(0.1, 0.2), ("kill", 0.2, 1), ("away", 1, 3), ("full", 4, 7))
    for fault in history.steps[1:]:
        fault["do"] = "tier_outage"
    history.steps += [
        {"do": "wait_tiered", "name": name, "is_fault": False, "resolved": {}, "events": [], "effect": None}
        | {"started_ns": START_NS + int(a * S), "ended_ns": START_NS + int(b * S), "healed_ns": None}
        for name, a, b in (("meanwhile", 2, 2.5), ("caught_up", 3.5, 5), ("later", 5.5, 6))
    ]
    return history


CAUGHT_UP = HistoryBatch([_tier_caught_up()])


def test_the_lag_of_a_tier_is_measured_by_the_wait_after_its_healing(spark: SparkSession) -> None:
    assert reported(spark, CAUGHT_UP)["tier_caught_up_s"] == {"away": 2.0}


MINUTE = HistoryBatch([waited(History("AA").build(), {1: 0})])


def test_figures_decide_nothing(spark: SparkSession) -> None:
    """A minute without acknowledgements and no record missing."""
    (verdict,) = MINUTE.verdicts(spark)
    assert verdict.status is Status.PASS


def committed_at(history: Built, *commits: tuple[int, float]) -> Built:
    """A group's commits of these offsets were acknowledged at these seconds."""
    like = history.rows("offset_commits")[0]
    at = [(offset, START_NS + int(s * S)) for offset, s in commits]
    history.tables["offset_commits"] = [
        like | {"offset": offset, "called_ns": ns - MS, "returned_ns": ns} for offset, ns in at
    ]
    member = {"reader": "grouped", "group": "g", "at_most_once": False, "reset": ""}
    history.run["contract"]["readers"] = {"grouped": member}
    return with_faults(history, ("kill", 1.5, 9))


HELD_UP = HistoryBatch([committed_at(acked_at(0.1, 0.2, 2.0), (2, 1.0), (3, 8.0))])
IN_TIME = HistoryBatch([committed_at(acked_at(0.1, 0.2, 7.9), (2, 1.0), (3, 8.0))])


def test_a_group_waits_from_when_it_has_something_to_commit(spark: SparkSession) -> None:
    """The record at offset 2 was acknowledged one second after the commit of 2, and its own commit came at second 8."""
    assert reported(spark, HELD_UP)["without_commits_s"] == {"kill": {"t/0": 6.0}}


def test_a_group_that_has_committed_everything_does_not_wait(spark: SparkSession) -> None:
    assert reported(spark, IN_TIME)["without_commits_s"] == {}
