"""What disks, other readers of a copy and coordinators tell, in histories short enough to read aloud."""

from __future__ import annotations

from suites.verify.edits import contract, lose
from suites.verify.history import MS, START_NS, Built, History


def built(*texts: str, **how: object) -> Built:
    return History(*texts, **how).build()  # type: ignore[arg-type]


def answered(history: Built, reported: int | None, *, after: int | None, took_ns: int = 0) -> Built:
    """While the run goes on the coordinator is asked, right after its answer to the commit of an offset, or at once."""
    commits = {row["offset"]: row["returned_ns"] for row in history.tables["offset_commits"]}
    asked_ns = START_NS if after is None else commits[after] + 1000
    place = {"group": "g", "topic": "t", "partition": 0}
    history.cluster["group_answers"] = [
        place | {"offset": reported, "asked_ns": asked_ns, "at_ns": asked_ns + took_ns},
    ]
    return history


def by_hand(history: Built) -> Built:
    """Another client sealed it."""
    history.manifest["sealed_by"] = "hand"
    history.run["groups_resume"] = False
    return history


def left_out(text: str, offset: int) -> Built:
    """No batch of any broker covers the offset, and no record stood there."""
    return History(text).build(lose(offset)).drop("batches", base_offset=offset)


def retention_while_read(history: Built, late: str) -> Built:
    """By size all logs have come to start at 2 when brokers are asked last; before that only one reader was so late."""
    for log in history.drained["partitions"][0]["logs"]:
        log["log_start"] = 2
    for offset in (0, 1):
        history.drop("batches", base_offset=offset)
        name = "reader" if late.startswith("leader") else "replica"
        history.drop("observations", offset=offset, **{name: late if name == "reader" else int(late)})
    return contract(history, retention_bytes=200)


def group_of_old(history: Built, reported: int | None, group: str = "old") -> Built:
    """A group that had an offset before the run, and what its coordinator tells after it."""
    place = {"group": group, "topic": "t", "partition": 0}
    history.cluster["snapshots"][0]["groups"] = [place | {"offset": 1}]
    rows = [row for row in history.drained["groups"] if row["group"] != group]
    history.drained["groups"] = rows + ([] if reported is None else [place | {"offset": reported}])
    return history


def overlapping(history: Built, reported: int) -> Built:
    """The next to last commit is answered after the last one was sent."""
    first, last = history.rows("offset_commits")
    first["returned_ns"] = last["called_ns"] + 1
    history.drained["groups"][0]["offset"] = reported
    return history


def unstable(history: Built, reported: int) -> Built:
    """The coordinator did not answer with stable offsets, and so was asked without."""
    history.drained["groups"] = [history.drained["groups"][0] | {"offset": reported, "stable": False}]
    return history


# name -> (history, what condemns)
CASES: dict[str, tuple[Built, list[str]]] = {
    # --- replicas
    "a replica lacks a record": (
        built("AAAA").drop("observations", replica=2, offset=1),
        ["replica_divergence 1"],
    ),
    "a replica lacks its last record": (
        built("AAAA").drop("observations", replica=2, offset=3),
        ["replica_divergence 1"],
    ),
    "a replica has another record": (
        built("AAAA").change("observations", {"seq": 0}, replica=3, offset=2),
        ["replica_divergence 1"],
    ),
    "a replica has one more": (
        History("AAUA").build(lose(2)).copy("observations", {"seq": 2, "offset": 2}, replica=2, offset=1),
        ["replica_divergence 1"],
    ),
    "retention goes on before a copy is read": (retention_while_read(built("AAAA"), "2"), []),
    "retention goes on before a copy is read, which lacks more": (
        retention_while_read(built("AAAA"), "2").drop("observations", replica=2, offset=2),
        ["replica_divergence 1"],
    ),
    "a disk lacks a batch": (built("AAAA").drop("batches", broker=2, base_offset=1), ["replica_divergence 1"]),
    "a disk lacks its last batch": (built("AAA").drop("batches", broker=2, base_offset=2), ["replica_divergence 1"]),
    "a disk has another batch": (
        built("AAAA").change("batches", {"digest": 5}, broker=3, base_offset=1),
        ["replica_divergence 1"],
    ),
    "a disk has another leader epoch": (
        built("AAAA").change("batches", {"leader_epoch": 5}, broker=3, base_offset=1),
        ["replica_divergence 1"],
    ),
    "a disk fails a CRC": (
        built("AAAA").change("batches", {"crc_ok": False}, broker=3, base_offset=1),
        ["replica_divergence 1"],
    ),
    "all disks leave an offset out": (left_out("AUAA", 1), []),
    "all disks leave the last offset out": (left_out("AAU", 2), []),
    "a disk leaves more out than all do": (
        left_out("AUAA", 1).drop("batches", broker=2, base_offset=2),
        ["replica_divergence 1"],
    ),
    "one disk alone has an offset": (
        History("AUAA")
        .build(lose(1))
        .drop("batches", broker=1, base_offset=1)
        .drop("batches", broker=2, base_offset=1),
        ["replica_divergence 1"],
    ),
    "retention is ahead on one disk": (
        contract(built("AAAA"), retention_bytes=100)
        .drop("batches", broker=1, base_offset=0)
        .drop("batches", broker=1, base_offset=1),
        [],
    ),
    "retention is ahead on one disk, and another leaves out what it took": (
        contract(built("AAAA"), retention_bytes=100)
        .drop("batches", broker=1, base_offset=0)
        .drop("batches", broker=1, base_offset=1)
        .drop("batches", broker=2, base_offset=1),
        ["replica_divergence 1"],
    ),
    "retention took all of one disk": (
        contract(built("AAAA", "AA"), retention_bytes=100).drop("batches", broker=2, partition=0),
        [],
    ),
    "retention took all of one disk, and others differ": (
        contract(built("AAAA", "AA"), retention_bytes=100)
        .drop("batches", broker=2, partition=0)
        .change("batches", {"digest": 5}, broker=3, partition=0, base_offset=1),
        ["replica_divergence 1"],
    ),
    "all of one disk is gone": (
        built("AAAA", "AA").drop("batches", broker=2, partition=0),
        ["replica_divergence 4"],
    ),
    "no disk can be read": (built("AAA").drop("batches", count=1), []),
    "one disk cannot be read": (built("AAA").drop("batches", broker=3), []),
    # --- groups
    "a commit is forgotten": (built("AAAA"), ["commit_regressed 1"]),
    "all commits are forgotten": (built("AAAA"), ["commit_regressed 1"]),
    "an offset that nobody committed": (built("AAAA"), ["commit_regressed 1"]),
    "an unknown commit after the last": (built("AAAA"), []),
    "a commit is forgotten until the next": (answered(built("AAAA"), 2, after=4), ["commit_regressed 1"]),
    "all commits are forgotten for a while": (answered(built("AAAA"), None, after=2), ["commit_regressed 1"]),
    "an answer before the last commit": (answered(built("AAAA"), 2, after=2), []),
    "an answer while the last commit is on its way": (answered(built("AAAA"), 4, after=2, took_ns=MS), []),
    "a group that begins has no offset": (answered(built("AAAA"), None, after=None), []),
    "two commits at once, and the first stands": (overlapping(built("AAAA"), reported=2), []),
    "two commits at once, and none stands": (overlapping(built("AAAA"), reported=1), ["commit_regressed 1"]),
    "a group that nobody asked for": (
        by_hand(built("AAAA").copy("offset_commits", {"group": "h"}, offset=4)),
        [],
    ),
    "a group that was asked for and has nothing": (
        built("AAAA").copy("offset_commits", {"group": "h"}, offset=4),
        ["commit_regressed 1"],
    ),
    "a group that was asked for has nothing on one partition": (
        by_hand(built("AAAA", "AA")),
        ["commit_regressed 1"],
    ),
    "offsets of an old group expire": (group_of_old(built("AAAA"), reported=None), []),
    "offsets of an old group stand": (group_of_old(built("AAAA"), reported=1), []),
    "offsets of an old group change by themselves": (group_of_old(built("AAAA"), reported=0), ["commit_regressed 1"]),
    "an old group commits and stands where it stood": (
        group_of_old(built("AAAA"), reported=1, group="g"),
        ["commit_regressed 1"],
    ),
    "an old group commits and has nothing": (
        group_of_old(built("AAAA"), reported=None, group="g"),
        ["commit_regressed 1"],
    ),
    "offsets that are not stable": (unstable(built("AAAA", "AA"), reported=2), []),
    "a commit of an aborted transaction": (built("AAAA[A]"), ["commit_regressed 1"]),
}


def _tell(name: str, offset: int | None) -> None:
    history = CASES[name][0]
    for row in history.drained["groups"]:
        row["offset"] = offset


CASES["a group that was asked for has nothing on one partition"][0].drained["groups"].pop()
_tell("a commit is forgotten", 2)
_tell("an offset that nobody committed", 3)
_tell("an unknown commit after the last", 3)
_tell("a commit of an aborted transaction", 1)
CASES["all commits are forgotten"][0].drained["groups"] = []
CASES["an unknown commit after the last"][0].copy(
    "offset_commits", {"offset": 3, "outcome": "unknown", "called_ns": START_NS + 10**8}, offset=4
)
CASES["a commit of an aborted transaction"][0].copy("offset_commits", {"offset": 1, "txn_id": 1}, offset=6)
