"""What the last replica in sync lost is excused without ELR, beside everything that only looks like it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.edits import contract, cut, only_live
from suites.verify.history import START_NS, Built, History
from suites.verify.judging import Entered, reported

LATER_NS = START_NS + 10**9


def came_back(built: Built, *, lost: dict[str, Any] | None = None, led: dict[str, Any] | None = None) -> Built:
    """Broker 1, alone in sync, died after every ack, lost what stood at offset 2 and above, and leads again."""
    died = {"broker": 1, "leader_epoch": 0, "isr": [1], "elr_level": 0, "log_end": 2, "at_ns": LATER_NS}
    change = {"old_leader": -1, "new_leader": 1, "leader_epoch": 2, "clean": True, "at_ns": LATER_NS + 10**9}
    built.event("lost_tail", **{**died, **(lost or {})})
    built.event("leader_change", **{**change, "old_leader": 1, "new_leader": -1, "leader_epoch": 1})
    built.event("leader_change", **{**change, **(led or {})})
    return contract(built, last_replica=True)


def gone(kept: int = 2) -> Built:
    return History("AAAA").build(cut(kept))


def early(built: Built) -> Built:
    """It died before the last record was acknowledged."""
    last = max(row["returned_ns"] for row in built.tables["ledger"])
    return came_back(built, lost={"at_ns": last - 1})


def unclean(built: Built) -> Built:
    return built.event("unclean_election", topic_id="T", leader=1, leader_epoch=2, log_end=2, at_ns=LATER_NS)


def empty(
    built: Built, *, lost: dict[str, Any] | None = None, led: dict[str, Any] | None = None, **settings: Any
) -> Built:
    """Broker 1, alone in sync as min.insync.replicas=1 permits, comes back with an empty disk, and leads again."""
    gone = {"broker": 1, "leader_epoch": 0, "isr": [1], "log_end": 4, "at_ns": LATER_NS}
    change = {"old_leader": -1, "new_leader": 1, "leader_epoch": 2, "clean": False, "at_ns": LATER_NS + 10**9}
    built.event("only_disk_lost", **{name: of for name, of in {**gone, **(lost or {})}.items() if of is not None})
    built.event("leader_change", **{**change, "old_leader": 1, "new_leader": -1, "leader_epoch": 1})
    built.event("leader_change", **{**change, **(led or {})})
    return contract(built, replicas=3, **{"min_insync_replicas": 1, **settings})


# name -> (history, what condemns, number of records that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "what it lost": (came_back(gone()), [], 2),
    "what readers saw of it": (came_back(only_live(History("AAUA").build(), 2)), [], 1),
    "more than it lost": (came_back(gone(1)), ["lost 1"], 2),
    "what was acknowledged after it died": (early(gone()), ["lost 1"], 1),
    "undeclared": (contract(came_back(gone()), last_replica=False), ["lost 2"], 0),
    "with ELR on": (came_back(gone(), lost={"elr_level": 1}), ["lost 2"], 0),
    "nobody knows whether ELR was on": (came_back(gone(), lost={"elr_level": None}), ["lost 2"], 0),
    "another was in sync": (came_back(gone(), lost={"isr": [1, 2]}), ["lost 2"], 0),
    "somebody else was alone in sync": (came_back(gone(), lost={"isr": [2]}), ["lost 2"], 0),
    "another leads then": (came_back(gone(), led={"new_leader": 2}), ["lost 2"], 0),
    "an election out of the ISR": (came_back(gone(), led={"clean": False}), ["lost 2"], 0),
    "somebody led in between": (came_back(gone(), led={"leader_epoch": 4}), ["lost 2"], 0),
    "it does not lead again": (came_back(gone(), led={"new_leader": -1}), ["lost 2"], 0),
    "an unclean election beside it": (unclean(came_back(gone())), ["lost 2"], 0),
    "of another partition": (
        came_back(History("AAAA", "AAAA").build(cut(2, partition=1))),
        ["lost 2"],
        0,
    ),
    "the disk of the last one": (empty(gone()), [], 2),
    "its disk, before the last ack": (empty(gone(), lost={"at_ns": START_NS}), ["lost 2"], 0),
    "its disk, where two must be in sync": (empty(gone(), min_insync_replicas=2), ["lost 2"], 0),
    "its disk, and another was in sync": (empty(gone(), lost={"isr": [1, 2]}), ["lost 2"], 0),
    "its disk, and nobody knows who was in sync": (empty(gone(), lost={"isr": None}), ["lost 2"], 0),
    "its disk, and nobody knows in which epoch": (empty(gone(), lost={"leader_epoch": None}), ["lost 2"], 0),
    "its disk, and another leads then": (empty(gone(), led={"new_leader": 2}), ["lost 2"], 0),
    "its disk, and somebody led in between": (empty(gone(), led={"leader_epoch": 4}), ["lost 2"], 0),
    "its disk, and an unclean election": (unclean(empty(gone())), ["lost 2"], 0),
    "its disk, of another partition": (empty(History("AAAA", "AAAA").build(cut(2, partition=1))), ["lost 2"], 0),
}

ENTERED = Entered(history for history, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_what_the_last_replica_lost_is_excused(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    _, condemning, excused = CASES[name]
    assert reported(verdict) == condemning
    assert sum(f.count for f in verdict.findings if not f.condemns) == excused
    assert all("KIP-966" in f.excused_by for f in verdict.findings if f.excused_by)
