"""Partitions that acknowledged nothing during a wait: what condemns the release, and each near miss."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from suites.verify.edits import contract
from suites.verify.history import START_NS, Built
from suites.verify.judging import HistoryBatch
from suites.verify.test_availability import S, acked_at, waited


def silent(*, until_s: float = 39.0, **more: Any) -> Built:
    """One record waits from second 1 to second 40 for its acknowledgement; two of three replicas are in sync, and
    two are required."""
    built = contract(waited(acked_at(0.1, 0.2, 40.0), {2: 1.0}), replicas=3, min_insync_replicas=2)
    reported = {"since_ns": START_NS + S, "leader": 2, "isr": [1, 2], "beside": {"u/0": 500}}
    return built.event("no_acks", **{**reported, "at_ns": START_NS + int(until_s * S), **more})


def acked_meanwhile() -> Built:
    built = silent()
    built.tables["ledger"][1]["returned_ns"] = START_NS + 20 * S
    return built


def changed_by_a_step() -> Built:
    built = silent()
    change = {"step": "cut", "topic": "t", "config": {"min.insync.replicas": "3"}}
    built.run["contract"]["changes"] = [change]
    return built


def with_a_fault(do: str, healed_s: float | None) -> Built:
    """A fault begins 0.1 s before the silence."""
    built = silent()
    at_ns = START_NS + int(0.9 * S)
    healed_ns = None if healed_s is None else START_NS + int(healed_s * S)
    times = {"started_ns": at_ns, "ended_ns": at_ns if healed_ns is None else healed_ns, "healed_ns": healed_ns}
    effect = {"held": True, "because": "", "seen": {}}
    fault = {"name": "beside", "do": do, "args": {}, "resolved": {}, "is_fault": True, "effect": effect, "events": []}
    built.steps.append({**fault, **times})
    return built


def with_a_hung_client() -> Built:
    built = silent()
    built.run["doubts"] = [{"name": "client_hung", "text": "producer p did not end"}]
    return built


CASES: dict[str, tuple[Built, list[str], bool]] = {
    "enough are in sync, and the leader serves others": (silent(), ["unavailable"], False),
    "more than enough are in sync": (silent(isr=[1, 2, 3]), ["unavailable"], False),
    "fewer are in sync than are declared": (silent(isr=[2]), [], True),
    "no other partition was served": (silent(beside={}), [], True),
    "for a shorter time": (silent(until_s=20.0), [], True),
    "the ledger has an acknowledgement in between": (acked_meanwhile(), [], True),
    "another partition": (silent(partition=1), [], True),
    "an undeclared topic": (silent(topic="other"), [], True),
    "a step changes min.insync.replicas": (changed_by_a_step(), [], True),
    "a fault holds answers back": (with_a_fault("hold_frames", 30.0), [], True),
    "a fault was healed before": (with_a_fault("hold_frames", 0.95), ["unavailable"], False),
    "a broker is down": (with_a_fault("kill", 30.0), ["unavailable"], False),
    "a broker is killed again and again": (with_a_fault("crash_loop", 30.0), ["unavailable"], False),
    "a broker was killed while it deleted": (with_a_fault("kill_deleting", 30.0), ["unavailable"], False),
    "a broker runs out of memory, and is slow before it ends": (with_a_fault("out_of_memory", 30.0), [], True),
    "a broker is killed, and the end of its log is lost": (with_a_fault("lose_tail", 30.0), [], True),
    "controllers are killed": (with_a_fault("quorum_lost", 30.0), [], True),
    "a client of the harness hung": (with_a_hung_client(), [], True),
}
BATCH = HistoryBatch(built for built, _, _ in CASES.values())


@pytest.mark.parametrize("name", CASES)
def test_only_a_leader_that_must_acknowledge_is_unavailable(spark: SparkSession, name: str) -> None:
    verdict = BATCH.verdicts(spark)[list(CASES).index(name)]
    _, kinds, doubted = CASES[name]
    assert [finding.kind.value for finding in verdict.findings] == kinds
    assert ("no_acks" in {doubt.name for doubt in verdict.doubts}) == doubted
