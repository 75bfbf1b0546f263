"""Committed offsets that an operator or the configuration may remove, each with a near miss."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.contract.internal_topics import OFFSETS
from harness.model.verdict import Verdict
from suites.verify.edits import contract
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported
from suites.verify.metadata import Metadata

S = 1000 * MS


def stands(built: Built, offset: int | None) -> Built:
    """The offset that the coordinator reports at the end; None = nothing."""
    built.drained["groups"] = [row | {"offset": offset} for row in built.drained["groups"] if offset is not None]
    return built


def committed(built: Built) -> list[dict[str, Any]]:
    """Both commits, in order."""
    return built.rows("offset_commits", group="g")


def deleted(built: Built, *, group: str = "g", after: int = 1, outcome: str = "acked", declared: bool = True) -> Built:
    """A step deletes a group right after its first or second commit was acknowledged."""
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
    """Right after the first or second commit the partition of __consumer_offsets gets another leader, which was last
    in sync `in_sync_s` seconds after that."""
    since_ns = committed(built)[after]["returned_ns"] + 1
    event = {"topic": OFFSETS, "partition": partition, "leader_epoch": 5, "old_leader": 1, "new_leader": leader}
    built.event("internal_leader_change", **event, clean=clean, since_ns=since_ns, at_ns=since_ns + MS // 4)
    built.steps[0]["events"][-1]["in_sync_ns"] = since_ns + in_sync_s * S
    settings = {"partitions": 10, "replicas": 3, "min_insync_replicas": 1, "unclean_election": unclean}
    member = {"reader": "grouped", "group": "g", "at_most_once": False}
    built.run["contract"] |= {"offsets": settings, "readers": {"grouped": member}}
    return built


def in_history(built: Built, *, left: int = -S, at: int = 1, elr: tuple[int, ...] = ()) -> Built:
    """The history of the cluster has the election of `elected`, and steps.json has no sample. The new leader left the
    ISR, and was elected, so many ns after the last commit was acknowledged."""
    done_ns = committed(built)[-1]["returned_ns"]
    metadata = Metadata(topic=OFFSETS, topic_id="O", partition=3).in_sync(done_ns + left, 1, elr=elr)
    built.metadata = metadata.led(2, done_ns + at, isr=(2,)).history()
    built.steps[0]["events"] = []
    return built


def held(built: Built, *, after: int = 1, errors: tuple[str, ...] = (), group: str = "g") -> Built:
    """A step holds a request of the first commit, and delivers it right after the first or the second one."""
    first = committed(built)[0]
    at_ns = committed(built)[after]["returned_ns"] + 1
    frame = {"link": "client > b1", "api": "OffsetCommit", "version": 9, "client": "g-1", "group": group}
    times = {"held_ns": first["called_ns"], "released_ns": at_ns, "answered_ns": at_ns}
    built.steps[0]["events"].append({"kind": "held_frame", "at_ns": at_ns, "errors": list(errors), **frame, **times})
    return built


def unclean_for_a_while(built: Built, *, value: bool = True) -> Built:
    """A declared step sets unclean.leader.election.enable on the topic, before everything else."""
    config = {"unclean.leader.election.enable": value}
    step = built.steps[0] | {"name": "set", "do": "alter_topic", "args": {"topic": OFFSETS, "config": config}}
    built.steps.append(step | {"is_fault": False, "events": []})
    built.run["contract"]["changes"] = [{"step": "set", "topic": OFFSETS, "config": config}]
    return built


def reported_before(built: Built, offset: int) -> Built:
    """The coordinator reports an offset right after the last commit, and the committed one at the end."""
    asked_ns = committed(built)[-1]["returned_ns"]
    answer = {"group": "g", "topic": "t", "partition": 0, "offset": offset, "asked_ns": asked_ns, "at_ns": asked_ns}
    built.cluster["group_answers"] = [answer]
    return built


def away(built: Built, *, group: str = "g", after: int = 1, away_s: int = 61, minutes: int = 1) -> Built:
    """A group has no members from right after its first or second commit on; the last snapshot is taken after 62 s."""
    from_ns = committed(built)[after]["returned_ns"] + 1
    built.event("group_away", group=group, from_ns=from_ns, left_ns=from_ns + 1, to_ns=from_ns + away_s * S)
    offsets = {"partitions": 10, "replicas": 3, "min_insync_replicas": 2, "unclean_election": False}
    built.run["contract"]["offsets"] = offsets | {"retention_minutes": minutes}
    return asked(built, 62)


def asked(built: Built, after_s: int) -> Built:
    """The last snapshot is this long after the last commit."""
    at_ns = committed(built)[-1]["returned_ns"] + after_s * S
    built.drained["at_ns"] = at_ns
    built.drained["groups"] = [row | {"at_ns": at_ns} for row in built.drained["groups"]]
    return built


def reset(
    built: Built, *, committed: int | None = None, began: int = 3, reset: str = "latest", reader: str = "grouped"
) -> Built:
    """A member that received offset 0 and then 3 started there by auto.offset.reset."""
    for offset in (1, 2):
        built.drop("observations", reader="grouped", offset=offset)
    row = {"group": "g", "reader": reader, "topic": "t", "partition": 0, "committed": committed, "began": began}
    built.cluster["group_resets"] = [row | {"at_ns": built.rows("ledger")[3]["returned_ns"]}]
    member = {"reader": "grouped", "group": "g", "at_most_once": False, "reset": reset}
    built.run["contract"]["readers"] = {"grouped": member}
    return built


def resumed(built: Built) -> Built:
    """The member had committed offset 2 before, starts by auto.offset.reset after 100 s, and then commits again."""
    first, last = committed(built)
    first |= {"called_ns": START_NS, "returned_ns": START_NS + 1}
    last |= {"called_ns": START_NS + 101 * S, "returned_ns": START_NS + 101 * S}
    built.cluster["group_resets"][0]["at_ns"] = START_NS + 100 * S
    return asked(built, 1)


def unanswered(built: Built) -> Built:
    """Its first commit got no answer."""
    return built.change("offset_commits", {"outcome": "unknown"}, offset=2)


def too_early(built: Built) -> Built:
    """The member started before the third record was acknowledged, so it must receive that record."""
    built.cluster["group_resets"][0]["at_ns"] = built.rows("ledger")[1]["returned_ns"]
    return built


def below_log_start(built: Built, log_start: int) -> Built:
    """A step saw the log start, which retention permits."""
    return contract(built.event("log_start_seen", log_start=log_start), retention_bytes=100)


def plain(text: str = "AAAA") -> Built:
    return History(text).build()


# name -> (history, what condemns, number of places that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "a group is deleted and has nothing": (stands(deleted(plain()), None), [], 0),
    "a group is deleted and has its offset again": (stands(deleted(plain()), 4), ["commit_regressed 1"], 0),
    "a group is deleted and has an older offset again": (stands(deleted(plain()), 2), ["commit_regressed 1"], 0),
    "an undeclared step deletes a group": (
        stands(deleted(plain(), declared=False), None),
        ["commit_regressed 1"],
        0,
    ),
    "a group was perhaps deleted, and has nothing": (stands(deleted(plain(), outcome="unknown"), None), [], 0),
    "a group was perhaps deleted, and keeps its offset": (stands(deleted(plain(), outcome="unknown"), 4), [], 0),
    "a group was perhaps deleted, and has an older offset": (
        stands(deleted(plain(), outcome="unknown"), 2),
        ["commit_regressed 1"],
        0,
    ),
    "a group commits after it was deleted": (stands(deleted(plain(), after=0), 4), [], 0),
    "a group commits after it was deleted and has nothing": (
        stands(deleted(plain(), after=0), None),
        ["commit_regressed 1"],
        0,
    ),
    "a group commits after it was deleted and has an offset from before": (
        stands(deleted(plain(), after=0), 2),
        ["commit_regressed 1"],
        0,
    ),
    "another group is deleted": (stands(deleted(plain(), group="h"), None), ["commit_regressed 1"], 0),
    # --- requests that arrive late
    "a held commit is executed after the next one": (stands(held(plain()), 2), [], 0),
    "a held commit is executed before the next one": (stands(held(plain(), after=0), 2), ["commit_regressed 1"], 0),
    "a held commit is refused": (
        stands(held(plain(), errors=("ILLEGAL_GENERATION",)), 2),
        ["commit_regressed 1"],
        0,
    ),
    "a held commit of another group is executed": (stands(held(plain(), group="h"), 2), ["commit_regressed 1"], 0),
    # --- elections of leaders that were not in sync
    "the offsets log is replaced and a group has an older offset": (stands(elected(plain()), 2), [], 1),
    "the offsets log is replaced and a group has nothing": (stands(elected(plain()), None), [], 1),
    "the offsets log is replaced and a group keeps its offset": (stands(elected(plain()), 4), [], 0),
    "the offsets log is replaced and a group has an offset that it never committed": (
        stands(elected(plain()), 3),
        ["commit_regressed 1"],
        0,
    ),
    "the offsets log is replaced by one that was in sync 1 s ago": (stands(elected(plain(), in_sync_s=1), 2), [], 1),
    "the offsets log is replaced by one with the last commit": (
        stands(elected(plain(), in_sync_s=3), 2),
        ["commit_regressed 1"],
        0,
    ),
    "the offsets log is replaced by one with a commit, and the group has nothing": (
        stands(elected(plain(), in_sync_s=3), None),
        ["commit_regressed 1"],
        0,
    ),
    "the offsets log is replaced without permission": (
        stands(elected(plain(), unclean=False), 2),
        ["commit_regressed 1"],
        0,
    ),
    "the offsets log is replaced and a step permits it": (
        stands(unclean_for_a_while(elected(plain(), unclean=False)), 2),
        [],
        1,
    ),
    "the offsets log is replaced and a step forbids it": (
        stands(unclean_for_a_while(elected(plain(), unclean=False), value=False), 2),
        ["commit_regressed 1"],
        0,
    ),
    "the offsets log of other groups is replaced": (
        stands(elected(plain(), partition=4), 2),
        ["commit_regressed 1"],
        0,
    ),
    "a leader in sync is elected": (stands(elected(plain(), clean=True), 2), ["commit_regressed 1"], 0),
    "no leader is elected": (stands(elected(plain(), leader=-1), 2), ["commit_regressed 1"], 0),
    "a group has an older offset before the offsets log is replaced": (
        reported_before(elected(plain()), 2),
        ["commit_regressed 1"],
        0,
    ),
    "a group is at an older offset than a commit after the replacement": (
        stands(elected(plain(), after=0), 2),
        ["commit_regressed 1"],
        0,
    ),
    # --- the same, from the history of the cluster
    "in a history the offsets log is replaced": (stands(in_history(elected(plain())), 2), [], 1),
    "in a history the new leader left the ISR just before the last commit": (
        stands(in_history(elected(plain()), left=-1), 2),
        [],
        1,
    ),
    "in a history the new leader left the ISR just after the last commit": (
        stands(in_history(elected(plain()), left=1), 2),
        ["commit_regressed 1"],
        0,
    ),
    "in a history the new leader was eligible": (
        stands(in_history(elected(plain()), elr=(2,)), 2),
        ["commit_regressed 1"],
        0,
    ),
    "in a history the last commit was acknowledged after the election, perhaps by the deposed leader": (
        stands(in_history(elected(plain()), at=-1), 2),
        [],
        0,
    ),
    # --- offsets that expire
    "a group was empty for longer than the retention": (stands(away(plain()), None), [], 1),
    "a group was empty for longer than the retention, and keeps its offset": (stands(away(plain()), 4), [], 0),
    "a group was empty for longer than the retention, and has an older offset": (
        stands(away(plain()), 2),
        ["commit_regressed 1"],
        0,
    ),
    "a group was empty, and its offsets expired too early": (
        stands(asked(away(plain()), 59), None),
        ["commit_regressed 1"],
        0,
    ),
    "a group was empty for less than the retention": (
        stands(away(plain(), away_s=59), None),
        ["commit_regressed 1"],
        0,
    ),
    "a group was empty for less than a longer retention": (
        stands(away(plain(), minutes=2), None),
        ["commit_regressed 1"],
        0,
    ),
    "another group was empty": (stands(away(plain(), group="h"), None), ["commit_regressed 1"], 0),
    "a group lost what it committed after its members returned": (
        stands(away(plain(), after=0), None),
        ["commit_regressed 1"],
        0,
    ),
    # --- where a member begins
    "a member without an offset begins at the end": (reset(plain()), [], 2),
    "a member without auto.offset.reset begins at the end": (reset(plain(), reset=""), ["skipped_read 2"], 0),
    "a member with auto.offset.reset=earliest begins at the end": (
        reset(plain(), reset="earliest"),
        ["skipped_read 2"],
        0,
    ),
    "a member continues after the offset where it began": (reset(plain(), began=2), ["skipped_read 1"], 1),
    "another member begins at the end": (reset(plain(), reader="live"), ["skipped_read 2"], 0),
    "a member leaves out a record from after it began": (too_early(reset(plain())), ["skipped_read 1"], 1),
    "a member with a commit begins at the end": (resumed(reset(plain())), ["skipped_read 2"], 0),
    "a member with an unanswered commit begins at the end": (unanswered(resumed(reset(plain()))), [], 2),
    "a member's offset expired and it begins at the end": (
        away(resumed(reset(plain())), after=0),
        ["skipped_read 1"],
        1,
    ),
    "a member's offset expired too early and it begins at the end": (
        away(resumed(reset(plain())), after=0, away_s=59),
        ["skipped_read 2"],
        0,
    ),
    "another group's offset expired and a member begins at the end": (
        away(resumed(reset(plain())), after=0, group="h"),
        ["skipped_read 2"],
        0,
    ),
    "a member's group was deleted and it begins at the end": (
        deleted(resumed(reset(plain())), after=0),
        ["skipped_read 1"],
        1,
    ),
    "a member's group was not deleted and it begins at the end": (
        deleted(resumed(reset(plain())), after=0, outcome="refused"),
        ["skipped_read 2"],
        0,
    ),
    "a member's group was deleted by no declared step and it begins at the end": (
        deleted(resumed(reset(plain())), after=0, declared=False),
        ["skipped_read 2"],
        0,
    ),
    "the log of a member's offset was replaced and it begins at the end": (
        resumed(reset(elected(plain(), after=0))),
        ["skipped_read 1"],
        1,
    ),
    "the log of a member's offset was replaced by one that has it and it begins at the end": (
        resumed(reset(elected(plain(), after=0, in_sync_s=3))),
        ["skipped_read 2"],
        0,
    ),
    "the log of a member's offset was replaced where it must not be and it begins at the end": (
        resumed(reset(elected(plain(), after=0, unclean=False))),
        ["skipped_read 2"],
        0,
    ),
    "a member's offset is below the log's start": (below_log_start(reset(plain(), committed=1), 2), [], 2),
    "a member's offset is in the log": (below_log_start(reset(plain(), committed=1), 1), ["skipped_read 2"], 0),
    "a member's offset is in the log, as far as is known": (reset(plain(), committed=1), ["skipped_read 2"], 0),
}

BATCH = HistoryBatch(history for history, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_permitted_losses_of_offsets_are_excused(judged: dict[str, Verdict], name: str) -> None:
    _, condemns, excused = CASES[name]
    assert reported(judged[name]) == condemns
    assert sum(f.count for f in judged[name].findings if f.excused_by) == excused


def test_a_commit_that_one_of_two_leaders_acknowledged_is_a_doubt(judged: dict[str, Verdict]) -> None:
    name = "in a history the last commit was acknowledged after the election, perhaps by the deposed leader"
    assert "leader_unknown" in [doubt.name for doubt in judged[name].doubts]
    assert "leader_unknown" not in [doubt.name for doubt in judged["in a history the offsets log is replaced"].doubts]
