"""crashed: ends of nodes, and which facts and reasons cover them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.finding import Kind
from harness.model.verdict import Status, Verdict
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch
from suites.verify.metadata import Metadata

AT_NS = START_NS + 5 * MS


def exited(**more: Any) -> dict[str, Any]:
    return {"name": "b2", "node": 2, "at_ns": AT_NS, "code": 1, "signal": None} | more


def died(*exits: dict[str, Any], edit: Callable[[Built], object] = lambda _: None) -> Built:
    built = History("AAAA").build()
    built.run["exits"] = list(exits)
    edit(built)
    return built


def fact(**more: Any) -> Callable[[Built], object]:
    """The fault states that it ended a node."""
    stopped = {"kind": "stopped", "from_ns": START_NS, "to_ns": AT_NS, "nodes": [2], "how": "crashed"}
    return lambda built: built.steps[0].update(facts=[stopped | more])


def disk_failed(built: Built) -> None:
    built.steps[0].update(facts=[{"kind": "disk_failed", "from_ns": START_NS, "to_ns": AT_NS, "nodes": [2]}])


def down(built: Built) -> None:
    built.run["recovered"] = {"ok": False, "waited_s": 9.0, "last_seen": "b2 is down", "pending": "nodes_down"}


CASES: dict[str, tuple[Built, list[str], list[str]]] = {
    "not reported by an older harness": (History("AAAA").build(), [], []),
    "none": (died(), [], []),
    "a broker": (died(exited()), ["crashed"], []),
    "a controller, cleanly by itself": (died(exited(name="c101", node=101, code=0)), ["crashed"], []),
    "twice": (died(exited(), exited(at_ns=AT_NS + MS)), ["crashed", "crashed"], []),
    "before the run, after the one before": (died(exited(at_ns=START_NS - MS)), ["crashed"], []),
    "a fault that ends it": (died(exited(), edit=fact()), [], []),
    "a fault that is not over": (died(exited(), edit=fact(to_ns=None)), [], []),
    "after the fault": (died(exited(), edit=fact(to_ns=AT_NS - 1)), ["crashed"], []),
    "before the fault": (died(exited(), edit=fact(from_ns=AT_NS + 1, to_ns=AT_NS + MS)), ["crashed"], []),
    "a fault of another node": (died(exited(), edit=fact(nodes=[1, 3])), ["crashed"], []),
    "a fault that had not begun": (died(exited(), edit=fact(nodes=None)), ["crashed"], []),
    "a fault that kills it": (died(exited(), edit=fact(how="killed")), ["crashed"], []),
    "a fault that shuts it down": (died(exited(), edit=fact(how="cleanly")), ["crashed"], []),
    "a fault that fails its disk only": (
        died(
            exited(),
            edit=lambda b: b.steps[0].update(facts=[{"kind": "disk_failed", "from_ns": START_NS, "nodes": [2]}]),
        ),
        ["crashed"],
        [],
    ),
    "killed from outside": (died(exited(code=None, signal=9)), [], ["node_killed"]),
    "killed at its memory limit": (died(exited(code=None, signal=9, out_of_memory=True)), ["crashed"], []),
    "killed by a fault at its memory limit": (
        died(exited(code=None, signal=9, out_of_memory=True), edit=fact()),
        [],
        [],
    ),
    "the machine's disk was full": (died(exited(host_disk_full=True, error="No space")), [], ["host_disk_full"]),
    "the machine had no memory": (died(exited(host_memory_full=True)), [], ["host_memory_full"]),
    "another process had its address": (died(exited(address_in_use=True)), [], ["address_in_use"]),
    "toxiproxy": (died(exited(name="toxiproxy", node=None)), [], ["helper_ended"]),
    "down at the end": (died(exited(), edit=down), ["crashed", "not_recovered"], []),
    "another node is down at the end, which the machine killed": (
        died(exited(code=None, signal=9), edit=down),
        [],
        ["not_back", "node_killed"],
    ),
}


LEADS = exited(error="java.lang.IllegalStateException: no epoch", log=["one", "two", "three", "four"])


def led_by(leader: int) -> Built:
    built = died(LEADS)
    built.metadata = Metadata().led(leader, START_NS + MS).led(3, AT_NS + MS).history()
    return built


BATCH = HistoryBatch([*(built for built, _, _ in CASES.values()), died(LEADS), led_by(2), led_by(1)])


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> list[Verdict]:
    return BATCH.verdicts(spark)


@pytest.mark.parametrize("name", CASES)
def test_the_end_of_a_node_is_a_finding_unless_it_is_covered(judged: list[Verdict], name: str) -> None:
    _, findings, doubts = CASES[name]
    verdict = judged[list(CASES).index(name)]
    assert [finding.kind.value for finding in verdict.findings] == findings
    assert sorted(doubt.name for doubt in verdict.doubts) == sorted(doubts)
    assert verdict.status is (Status.FAIL if findings else Status.INCONCLUSIVE if doubts else Status.PASS)


@pytest.mark.parametrize(
    ("number", "led"),
    [
        (0, "the bundle has no history, so it is unknown which partitions it led"),
        (1, "it led t/0"),
        (2, "it led no partition"),
    ],
)
def test_a_finding_has_status_log_error_and_the_partitions_that_the_node_led(
    judged: list[Verdict], number: int, led: str
) -> None:
    (finding,) = [one for one in judged[len(CASES) + number].findings if one.kind is Kind.CRASHED]
    assert finding.first_ns == AT_NS
    assert finding.detail == (
        f"b2 ended by itself (exit code 1); {led}; its last error: java.lang.IllegalStateException: no epoch; "
        "its log ends: two / three / four"
    )
