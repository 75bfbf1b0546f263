"""Committed offsets that go by what an operator or a configuration says. Beside each what just does not."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.contract.internal_topics import OFFSETS
from harness.model.verdict import Verdict
from suites.verify.edits import contract
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import Entered, reported

S = 1000 * MS


def stands(built: Built, offset: int | None) -> Built:
    """What the coordinator tells at the end; None = nothing."""
    built.drained["groups"] = [row | {"offset": offset} for row in built.drained["groups"] if offset is not None]
    return built


def committed(built: Built) -> list[dict[str, Any]]:
    """Both commits, in order."""
    return built.rows("offset_commits", group="g")


def deleted(built: Built, *, group: str = "g", after: int = 1, outcome: str = "acked", declared: bool = True) -> Built:
    """A step deletes a group, right after its first or second commit was answered."""
    asked_ns = committed(built)[after]["returned_ns"] + 1
    built.event("group_deleted", group=group, outcome=outcome, asked_ns=asked_ns, at_ns=asked_ns + MS // 4)
    built.run["contract"]["group_deletions"] = [built.steps[0]["name"]] if declared else []
    return built


def elected(
    built: Built,
    *,
    partition: int = 3,
    unclean: bool = True,
    after: int = 1,
    clean: bool = False,
    leader: int = 2,
    in_sync_s: int = -3600,
) -> Built:
    """Right after the first or second commit the partition that keeps a group's offsets has another leader, which was
    in sync so long after that."""
    since_ns = committed(built)[after]["returned_ns"] + 1
    event = {"topic": OFFSETS, "partition": partition, "leader_epoch": 5, "old_leader": 1, "new_leader": leader}
    built.event("internal_leader_change", **event, clean=clean, since_ns=since_ns, at_ns=since_ns + MS // 4)
    built.steps[0]["events"][-1]["in_sync_ns"] = since_ns + in_sync_s * S
    settings = {"partitions": 10, "replicas": 3, "min_insync_replicas": 1, "unclean_election": unclean}
    member = {"reader": "grouped", "group": "g", "at_most_once": False}
    built.run["contract"] |= {"offsets": settings, "readers": {"grouped": member}}
    return built


def unclean_for_a_while(built: Built, *, value: bool = True) -> Built:
    """A declared step sets it on the topic, before all."""
    config = {"unclean.leader.election.enable": value}
    step = built.steps[0] | {"name": "set", "do": "alter_topic", "args": {"topic": OFFSETS, "config": config}}
    built.steps.append(step | {"is_fault": False, "events": []})
    built.run["contract"]["changes"] = [{"step": "set", "topic": OFFSETS, "config": config}]
    return built


def told_before(built: Built, offset: int) -> Built:
    """The coordinator tells an offset right after the last commit, and at the end what was committed."""
    asked_ns = committed(built)[-1]["returned_ns"]
    answer = {"group": "g", "topic": "t", "partition": 0, "offset": offset, "asked_ns": asked_ns, "at_ns": asked_ns}
    built.cluster["group_answers"] = [answer]
    return built


def away(built: Built, *, group: str = "g", after: int = 1, away_s: int = 61, minutes: int = 1) -> Built:
    """Nobody is in a group from right after its first or second commit on; the run is asked about after 62 s."""
    from_ns = committed(built)[after]["returned_ns"] + 1
    built.event("group_away", group=group, from_ns=from_ns, left_ns=from_ns + 1, to_ns=from_ns + away_s * S)
    offsets = {"partitions": 10, "replicas": 3, "min_insync_replicas": 2, "unclean_election": False}
    built.run["contract"]["offsets"] = offsets | {"retention_minutes": minutes}
    return asked(built, 62)


def asked(built: Built, after_s: int) -> Built:
    """The last snapshot is so long after the last commit."""
    at_ns = committed(built)[-1]["returned_ns"] + after_s * S
    built.drained["at_ns"] = at_ns
    built.drained["groups"] = [row | {"at_ns": at_ns} for row in built.drained["groups"]]
    return built


def reset(
    built: Built, *, committed: int | None = None, began: int = 3, reset: str = "latest", reader: str = "grouped"
) -> Built:
    """A member that was given offset 0 and then 3 began there by itself."""
    for offset in (1, 2):
        built.drop("observations", reader="grouped", offset=offset)
    row = {"group": "g", "reader": reader, "topic": "t", "partition": 0, "committed": committed, "began": began}
    built.cluster["group_resets"] = [row | {"at_ns": built.rows("ledger")[3]["returned_ns"]}]
    member = {"reader": "grouped", "group": "g", "at_most_once": False, "reset": reset}
    built.run["contract"]["readers"] = {"grouped": member}
    return built


def resumed(built: Built) -> Built:
    """The member had committed offset 2 before all, begins anew by itself after 100 s, and then commits again."""
    first, last = committed(built)
    first |= {"called_ns": START_NS, "returned_ns": START_NS + 1}
    last |= {"called_ns": START_NS + 101 * S, "returned_ns": START_NS + 101 * S}
    built.cluster["group_resets"][0]["at_ns"] = START_NS + 100 * S
    return asked(built, 1)


def unanswered(built: Built) -> Built:
    """Its first commit had no answer."""
    return built.change("offset_commits", {"outcome": "unknown"}, offset=2)


def too_early(built: Built) -> Built:
    """The member began before the third record was acknowledged, so that it has to be given that."""
    built.cluster["group_resets"][0]["at_ns"] = built.rows("ledger")[1]["returned_ns"]
    return built


def below_the_start(built: Built, log_start: int) -> Built:
    """A step has seen where the log started, as retention lets it."""
    return contract(built.event("log_start_seen", log_start=log_start), retention_bytes=100)


def here(text: str = "AAAA") -> Built:
    return History(text).build()


# name -> (history, what condemns, number of places that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "a group is deleted and has nothing": (stands(deleted(here()), None), [], 0),
    "a group is deleted and has its offset again": (stands(deleted(here()), 4), ["commit_regressed 1"], 0),
    "a group is deleted and has an older offset again": (stands(deleted(here()), 2), ["commit_regressed 1"], 0),
    "a group is deleted by no declared step": (
        stands(deleted(here(), declared=False), None),
        ["commit_regressed 1"],
        0,
    ),
    "a group may be deleted or not": (stands(deleted(here(), outcome="unknown"), None), [], 0),
    "a group may not be deleted and stands": (stands(deleted(here(), outcome="unknown"), 4), [], 0),
    "a group may be deleted and is behind": (
        stands(deleted(here(), outcome="unknown"), 2),
        ["commit_regressed 1"],
        0,
    ),
    "a group commits after it was deleted": (stands(deleted(here(), after=0), 4), [], 0),
    "a group commits after it was deleted and has nothing": (
        stands(deleted(here(), after=0), None),
        ["commit_regressed 1"],
        0,
    ),
    "a group commits after it was deleted and is where it was before": (
        stands(deleted(here(), after=0), 2),
        ["commit_regressed 1"],
        0,
    ),
    "another group is deleted": (stands(deleted(here(), group="h"), None), ["commit_regressed 1"], 0),
    # --- elections of who was not in sync
    "a log is replaced and a group is back": (stands(elected(here()), 2), [], 1),
    "a log is replaced and a group has nothing": (stands(elected(here()), None), [], 1),
    "a log is replaced and a group stands": (stands(elected(here()), 4), [], 0),
    "a log is replaced and a group is where it never was": (stands(elected(here()), 3), ["commit_regressed 1"], 0),
    "a log is replaced by one that was in sync a moment ago": (stands(elected(here(), in_sync_s=1), 2), [], 1),
    "a log is replaced by one that has the last commit": (
        stands(elected(here(), in_sync_s=3), 2),
        ["commit_regressed 1"],
        0,
    ),
    "a log is replaced by one that has some commit": (
        stands(elected(here(), in_sync_s=3), None),
        ["commit_regressed 1"],
        0,
    ),
    "a log is replaced where it must not": (stands(elected(here(), unclean=False), 2), ["commit_regressed 1"], 0),
    "a log is replaced where a step has let it": (
        stands(unclean_for_a_while(elected(here(), unclean=False)), 2),
        [],
        1,
    ),
    "a log is replaced where a step has kept it from that": (
        stands(unclean_for_a_while(elected(here(), unclean=False), value=False), 2),
        ["commit_regressed 1"],
        0,
    ),
    "the log of other groups is replaced": (stands(elected(here(), partition=4), 2), ["commit_regressed 1"], 0),
    "a leader in sync is elected": (stands(elected(here(), clean=True), 2), ["commit_regressed 1"], 0),
    "nobody is elected": (stands(elected(here(), leader=-1), 2), ["commit_regressed 1"], 0),
    "a group is back before a log is replaced": (told_before(elected(here()), 2), ["commit_regressed 1"], 0),
    "a group is back behind what it committed afterwards": (
        stands(elected(here(), after=0), 2),
        ["commit_regressed 1"],
        0,
    ),
    # --- offsets that expire
    "nobody was in a group for too long": (stands(away(here()), None), [], 1),
    "nobody was in a group for too long, and it stands": (stands(away(here()), 4), [], 0),
    "nobody was in a group for too long, and it is behind": (stands(away(here()), 2), ["commit_regressed 1"], 0),
    "nobody was in a group, and offsets went too early": (
        stands(asked(away(here()), 59), None),
        ["commit_regressed 1"],
        0,
    ),
    "nobody was in a group for too short a time": (stands(away(here(), away_s=59), None), ["commit_regressed 1"], 0),
    "nobody was in a group, whose offsets stay longer": (
        stands(away(here(), minutes=2), None),
        ["commit_regressed 1"],
        0,
    ),
    "nobody was in another group": (stands(away(here(), group="h"), None), ["commit_regressed 1"], 0),
    "a group lost what it committed when it was back": (
        stands(away(here(), after=0), None),
        ["commit_regressed 1"],
        0,
    ),
    # --- where a member begins
    "a member without an offset begins at the end": (reset(here()), [], 2),
    "a member that reads all anew begins at the end": (reset(here(), reset=""), ["skipped_read 2"], 0),
    "a member that begins at the start begins at the end": (reset(here(), reset="earliest"), ["skipped_read 2"], 0),
    "a member goes on behind where it began": (reset(here(), began=2), ["skipped_read 1"], 1),
    "another member begins at the end": (reset(here(), reader="live"), ["skipped_read 2"], 0),
    "a member leaves out what came after it had begun": (too_early(reset(here())), ["skipped_read 1"], 1),
    "a member had committed and begins at the end": (resumed(reset(here())), ["skipped_read 2"], 0),
    "a member's commit had no answer and it begins at the end": (unanswered(resumed(reset(here()))), [], 2),
    "a member's offset expired and it begins at the end": (
        away(resumed(reset(here())), after=0),
        ["skipped_read 1"],
        1,
    ),
    "a member's offset expired too early and it begins at the end": (
        away(resumed(reset(here())), after=0, away_s=59),
        ["skipped_read 2"],
        0,
    ),
    "another group's offset expired and a member begins at the end": (
        away(resumed(reset(here())), after=0, group="h"),
        ["skipped_read 2"],
        0,
    ),
    "a member's group was deleted and it begins at the end": (
        deleted(resumed(reset(here())), after=0),
        ["skipped_read 1"],
        1,
    ),
    "a member's group was not deleted and it begins at the end": (
        deleted(resumed(reset(here())), after=0, outcome="refused"),
        ["skipped_read 2"],
        0,
    ),
    "a member's group was deleted by no declared step and it begins at the end": (
        deleted(resumed(reset(here())), after=0, declared=False),
        ["skipped_read 2"],
        0,
    ),
    "the log of a member's offset was replaced and it begins at the end": (
        resumed(reset(elected(here(), after=0))),
        ["skipped_read 1"],
        1,
    ),
    "the log of a member's offset was replaced by one that has it and it begins at the end": (
        resumed(reset(elected(here(), after=0, in_sync_s=3))),
        ["skipped_read 2"],
        0,
    ),
    "the log of a member's offset was replaced where it must not be and it begins at the end": (
        resumed(reset(elected(here(), after=0, unclean=False))),
        ["skipped_read 2"],
        0,
    ),
    "a member's offset is below the log's start": (below_the_start(reset(here(), committed=1), 2), [], 2),
    "a member's offset is in the log": (below_the_start(reset(here(), committed=1), 1), ["skipped_read 2"], 0),
    "a member's offset is in the log, as far as is known": (reset(here(), committed=1), ["skipped_read 2"], 0),
}

ENTERED = Entered(history for history, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_went_is_excused_by_what_took_it(judged: dict[str, Verdict], name: str) -> None:
    _, condemns, excused = CASES[name]
    assert reported(judged[name]) == condemns
    assert sum(f.count for f in judged[name].findings if f.excused_by) == excused
