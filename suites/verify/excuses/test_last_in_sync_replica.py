"""Losses of the last in-sync replica are excused without ELR; each with near misses."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.edits import contract, cut, only_live
from suites.verify.history import START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported
from suites.verify.metadata import Metadata

LATER_NS = START_NS + 10**9


def returned(built: Built, *, lost: dict[str, Any] | None = None, led: dict[str, Any] | None = None) -> Built:
    """Broker 1, alone in sync, died after every acknowledgement, lost offset 2 and above, and leads again."""
    died = {"broker": 1, "leader_epoch": 0, "isr": [1], "elr_level": 0, "log_end": 2, "at_ns": LATER_NS}
    change = {"old_leader": -1, "new_leader": 1, "leader_epoch": 2, "clean": True, "at_ns": LATER_NS + 10**9}
    built.event("lost_tail", **{**died, **(lost or {})})
    built.event("leader_change", **{**change, "old_leader": 1, "new_leader": -1, "leader_epoch": 1})
    built.event("leader_change", **{**change, **(led or {})})
    return contract(built, last_replica=True)


def truncated(kept: int = 2) -> Built:
    return History("AAAA").build(cut(kept))


def died_early(built: Built) -> Built:
    """It died before the last record was acknowledged."""
    last = max(row["returned_ns"] for row in built.tables["ledger"])
    return returned(built, lost={"at_ns": last - 1})


def unclean(built: Built) -> Built:
    return built.event("unclean_election", topic_id="T", leader=1, leader_epoch=2, log_end=2, at_ns=LATER_NS)


def returned_empty(
    built: Built, *, lost: dict[str, Any] | None = None, led: dict[str, Any] | None = None, **settings: Any
) -> Built:
    """Broker 1, alone in sync as min.insync.replicas=1 permits, returns with an empty disk and leads again."""
    truncated = {"broker": 1, "leader_epoch": 0, "isr": [1], "log_end": 4, "at_ns": LATER_NS}
    change = {"old_leader": -1, "new_leader": 1, "leader_epoch": 2, "clean": False, "at_ns": LATER_NS + 10**9}
    built.event("only_disk_lost", **{name: of for name, of in {**truncated, **(lost or {})}.items() if of is not None})
    built.event("leader_change", **{**change, "old_leader": 1, "new_leader": -1, "leader_epoch": 1})
    built.event("leader_change", **{**change, **(led or {})})
    return contract(built, replicas=3, **{"min_insync_replicas": 1, **settings})


def in_history(built: Built, *leaders: int, isr: tuple[int, ...] = (1,), last_known: tuple[int, ...] = ()) -> Built:
    """The history of the cluster has these leaders after the death of broker 1, and steps.json has no samples."""
    metadata = Metadata().in_sync(START_NS, 1, last_known=last_known).led(-1, LATER_NS, isr=isr)
    for number, leader in enumerate(leaders, start=1):
        metadata.led(leader, LATER_NS + number * 10**9, isr=(leader,))
    built.metadata = metadata.history()
    events = built.steps[0]["events"]
    built.steps[0]["events"] = [event for event in events if event["kind"] != "leader_change"]
    return built


ELECTED = "unclean_election 1"
# name -> (history, what condemns, number of records that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "the records that it lost": (returned(truncated()), [], 2),
    "a lost record that readers received": (returned(only_live(History("AAUA").build(), 2)), [], 1),
    "more than it lost": (returned(truncated(1)), ["lost 1"], 2),
    "a record acknowledged after it died": (died_early(truncated()), ["lost 1"], 1),
    "undeclared": (contract(returned(truncated()), last_replica=False), ["lost 2"], 0),
    "with ELR on": (returned(truncated(), lost={"elr_level": 1}), ["lost 2"], 0),
    "unknown whether ELR was on": (returned(truncated(), lost={"elr_level": None}), ["lost 2"], 0),
    "another replica was in sync": (returned(truncated(), lost={"isr": [1, 2]}), ["lost 2"], 0),
    "another replica was alone in sync": (returned(truncated(), lost={"isr": [2]}), ["lost 2"], 0),
    "another replica leads next": (returned(truncated(), led={"new_leader": 2}), ["lost 2"], 0),
    "an election out of the ISR": (returned(truncated(), led={"clean": False}), ["lost 2"], 0),
    "another leader in between": (returned(truncated(), led={"leader_epoch": 4}), ["lost 2"], 0),
    "it does not lead again": (returned(truncated(), led={"new_leader": -1}), ["lost 2"], 0),
    "an unclean election as well": (unclean(returned(truncated())), ["lost 2"], 0),
    "losses of another partition": (
        returned(History("AAAA", "AAAA").build(cut(2, partition=1))),
        ["lost 2"],
        0,
    ),
    "in a history": (in_history(returned(truncated()), 1), [], 2),
    "in a history, another replica leads next": (in_history(returned(truncated()), 2), ["lost 2", ELECTED], 0),
    "in a history, another leader in between": (
        in_history(returned(truncated()), 2, 1),
        ["lost 2", ELECTED, ELECTED],
        0,
    ),
    "in a history, an election out of the ISR": (in_history(returned(truncated()), 1, isr=()), ["lost 2", ELECTED], 0),
    "its disk, in a history": (in_history(returned_empty(truncated()), 1, isr=(), last_known=(1,)), [], 2),
    "its disk, in a history, and another replica leads next": (
        in_history(returned_empty(truncated()), 2),
        ["lost 2", ELECTED],
        0,
    ),
    "its disk": (returned_empty(truncated()), [], 2),
    "its disk, before the last acknowledgement": (returned_empty(truncated(), lost={"at_ns": START_NS}), ["lost 2"], 0),
    "its disk, with min.insync.replicas=2": (returned_empty(truncated(), min_insync_replicas=2), ["lost 2"], 0),
    "its disk, and another replica was in sync": (returned_empty(truncated(), lost={"isr": [1, 2]}), ["lost 2"], 0),
    "its disk, and the ISR is unknown": (returned_empty(truncated(), lost={"isr": None}), ["lost 2"], 0),
    "its disk, and the leader epoch is unknown": (
        returned_empty(truncated(), lost={"leader_epoch": None}),
        ["lost 2"],
        0,
    ),
    "its disk, and another replica leads next": (returned_empty(truncated(), led={"new_leader": 2}), ["lost 2"], 0),
    "its disk, and another leader in between": (returned_empty(truncated(), led={"leader_epoch": 4}), ["lost 2"], 0),
    "its disk, and an unclean election": (unclean(returned_empty(truncated())), ["lost 2"], 0),
    "its disk, of another partition": (
        returned_empty(History("AAAA", "AAAA").build(cut(2, partition=1))),
        ["lost 2"],
        0,
    ),
}

BATCH = HistoryBatch(history for history, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_losses_of_the_last_replica_are_excused(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    _, condemning, excused = CASES[name]
    assert reported(verdict) == condemning
    assert sum(f.count for f in verdict.findings if not f.condemns) == excused
    assert all("KIP-966" in f.excused_by for f in verdict.findings if f.excused_by)
