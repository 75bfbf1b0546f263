"""Every kind of finding on a short history, with near misses that must not be found."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.edits import (
    after_healing,
    append,
    contract,
    cut,
    hide,
    lose,
    only_live,
    refused,
    run_finished,
    sealed_by_other_client,
    show,
    start_at,
    stuck,
    swap,
    without_drain,
)
from suites.verify.history import MS, RC, START_NS, Built, Entry, History
from suites.verify.judging import HistoryBatch, reported
from suites.verify.samples import with_fact


def built(*texts: str, **more: object) -> Built:
    return History(*texts, **more).build()  # type: ignore[arg-type]


DOWN = {"ok": False, "waited_s": 90.0, "last_seen": "not running: [2]", "pending": "nodes_down"}


def unended(*states: str) -> dict[str, object]:
    """The wait for coordinators to end transactions, with the states in which some are left."""
    left = [{"transactional_id": f"p-{n}", "state": state, "coordinator": 1} for n, state in enumerate(states)]
    return {"ok": False, "waited_s": 105.0, "last_seen": "pending", "open": left}


def uncopied(*offsets: int) -> dict[str, object]:
    """The wait for the remote tier ended in vain, and a leader had copied nothing of so many offsets."""
    lag = {"topic": "t", "topic_id": "i", "partition": 0, "leader": 1, "tiered_end": 0, "still_s": 60.0}
    return {"ok": False, "waited_s": 60.0, "last_seen": "", "behind": [lag | {"closed_end": n} for n in offsets]}


def uncompacted(*brokers: int) -> dict[str, object]:
    """The wait for cleaners ended in vain, and these brokers had compacted nothing."""
    lag = {"topic": "t", "topic_id": "i", "partition": 0, "cleaned_end": 0, "closed_end": 9, "still_s": 44.0}
    return {"ok": False, "waited_s": 45.0, "last_seen": "", "behind": [lag | {"broker": b} for b in brokers]}


def restless(**look: object) -> dict[str, object]:
    """The wait for groups to be at rest, with the last look at one that never was."""
    return {"ok": False, "waited_s": 90.0, "last_seen": "pending", "unsettled": [{"group": "g", **look}]}


def answered(history: Built, reported: int | None, *, after: int | None, took_ns: int = 0) -> Built:
    """During the run the coordinator is asked, right after it acknowledged the commit of an offset, or at once."""
    commits = {row["offset"]: row["returned_ns"] for row in history.tables["offset_commits"]}
    asked_ns = START_NS if after is None else commits[after] + 1000
    place = {"group": "g", "topic": "t", "partition": 0}
    history.cluster["group_answers"] = [
        place | {"offset": reported, "asked_ns": asked_ns, "at_ns": asked_ns + took_ns},
    ]
    return history


def without_offset_anywhere(text: str, offset: int) -> Built:
    """No batch of any broker covers the offset, and there was no record."""
    return History(text).build(lose(offset)).drop("batches", base_offset=offset)


def retention_while_read(history: Built, late: str) -> Built:
    """By size all logs start at 2 in the last snapshot; before that only one read was so late."""
    for log in history.drained["partitions"][0]["logs"]:
        log["log_start"] = 2
    for offset in (0, 1):
        history.drop("batches", base_offset=offset)
        name = "reader" if late.startswith("leader") else "replica"
        history.drop("observations", offset=offset, **{name: late if name == "reader" else int(late)})
    return contract(history, retention_bytes=200)


def group_from_before(history: Built, reported: int | None, group: str = "old") -> Built:
    """A group that had an offset before the run, and what its coordinator reports after it."""
    place = {"group": group, "topic": "t", "partition": 0}
    history.cluster["snapshots"][0]["groups"] = [place | {"offset": 1}]
    rows = [row for row in history.drained["groups"] if row["group"] != group]
    history.drained["groups"] = rows + ([] if reported is None else [place | {"offset": reported}])
    return history


def overlapping(history: Built, reported: int) -> Built:
    """The next to last commit is acknowledged after the last one was sent."""
    first, last = history.rows("offset_commits")
    first["returned_ns"] = last["called_ns"] + 1
    history.drained["groups"][0]["offset"] = reported
    return history


def called_late(history: Built, *seqs: int, late_ms: int = 2000) -> Built:
    """These records were sent so long after their time."""
    for seq in seqs:
        (row,) = history.rows("ledger", seq=seq)
        late = {"called_ns": row["called_ns"] + late_ms * MS, "returned_ns": row["returned_ns"] + late_ms * MS}
        history.change("ledger", late, seq=seq)
        history.change("observations", {"timestamp_ms": late["called_ns"] // MS}, seq=seq)
    return history


def unstable(history: Built, reported: int) -> Built:
    """The coordinator gave no stable offsets, and was asked for unstable ones."""
    history.drained["groups"] = [history.drained["groups"][0] | {"offset": reported, "stable": False}]
    return history


def offsets_of_one(history: Built, reported: int | None) -> Built:
    """The only commit of the group is offset 3 in the transaction; the coordinator reports another offset, or none."""
    end = history.drained["partitions"][0]["high_watermark"]
    history.drop("offset_commits", offset=end // 2)
    history.change("offset_commits", {"offset": 3, "txn_id": 1}, offset=end)
    groups = history.drained["groups"]
    history.drained["groups"] = [] if reported is None else [groups[0] | {"offset": reported}]
    return history


def skips_between_sessions(history: Built) -> Built:
    """The only member of a group continues after offset 1, in a new session."""
    history.drop("observations", reader="grouped", offset=1)
    for offset in (2, 3):
        history.change("observations", {"session": 1}, reader="grouped", offset=offset)
    return history


def in_two_members(history: Built, *, skips: bool = False) -> Built:
    """Two members of the group: the second continues where the first had committed, or one offset later."""
    history.scenario["readers"].append({"name": "second", "group": "g"})
    for offset in (2, 3):
        history.change("observations", {"reader": "second"}, reader="grouped", offset=offset)
    if skips:
        history.drop("observations", reader="second", offset=2)
    else:
        history.copy("observations", {"reader": "second"}, reader="grouped", offset=1)
    return history


def started_at_2(start: int) -> Built:
    """A log that started at 2 before the run, and at `start` after it; nothing is limited by time."""

    def older(history: History) -> None:
        history.logs[0][:0] = [Entry(-1, -1, START_NS), Entry(-1, -1, START_NS)]
        for row in history.ledger:
            row["offset"] += 2
        history.starts[0] = start

    history = contract(History("AAAA").build(older), retention_ms=-1)
    for log in history.cluster["snapshots"][0]["partitions"][0]["logs"]:
        log.update(log_start=2, log_end=2)
    return history


def without_first_snapshot(history: Built) -> Built:
    """The log starts when the run began are unknown."""
    del history.cluster["snapshots"][0]
    return history


def wrongly_acknowledged(text: str, start: int, reported: int) -> Built:
    """Retention by time; the last record was sent twice, and its acknowledgement names an offset that it does not
    have."""
    history = contract(History(text).build(start_at(start)), retention_ms=1000)
    last = max(row["seq"] for row in history.tables["ledger"])
    return history.change("ledger", {"offset": reported}, seq=last)


# name -> (history, what condemns)
CASES: dict[str, tuple[Built, list[str]]] = {
    # --- legal
    "acknowledged records": (built("AAA"), []),
    "retries, timeouts and refusals": (built("AuUARAuU"), []),
    "acknowledgements without an offset": (built("AaAa"), []),
    "committed transactions": (built("A(AA)A(A)"), []),
    "aborted transactions": (built("A[AA]A[A]A"), []),
    "unknown transactions, written or not": (built("{AA}A<AA>A"), []),
    "a transaction over partitions": (built("(AA)A", "A(A)", "{A}"), []),
    "unknown records in transactions": (built("(AuU)[UuA]{uU}<uA>"), []),
    "leader changes": (built("AA|AA|uA"), []),
    "an empty partition and a full one": (built("AAA", ""), []),
    # --- lost
    "a record is missing": (History("AAA").build(lose(1)), ["lost 1"]),
    "a record acknowledged without an offset is missing": (History("AaA").build(lose(1)), ["lost 1"]),
    "a record of unknown outcome is missing": (History("AUA").build(lose(1)), []),
    "a record of an aborted transaction is missing": (History("[AA]A").build(lose(1)), []),
    "every log ends below a record": (History("AAAA").build(cut(2)), ["lost 2"]),
    "every log ends below a record of unknown outcome": (History("AAUU").build(cut(2)), []),
    "readers received it before it was lost": (only_live(built("AAA"), 1), ["lost 1"]),
    "the leader lost it and replicas have it": (without_drain(built("AAA"), 1), ["lost 1"]),
    "all records are missing": (History("AAA").build(cut(0)), ["lost 3"]),
    "a stuck read loses nothing": (stuck(built("AAAA"), 2), []),
    # --- vanished, conflicting
    "a record of unknown outcome was received and is missing": (only_live(built("AUA"), 1), ["vanished 1"]),
    "an aborted record was received uncommitted and is missing": (only_live(built("A[A]A"), 1), ["vanished 1"]),
    "a reader received it with an older epoch": (
        built("AAA").change("observations", {"leader_epoch": -1}, reader="live", offset=1),
        ["vanished 1"],
    ),
    "a reader received it without an epoch": (
        built("AAA").change("observations", {"leader_epoch": None}, reader="live", offset=1),
        [],
    ),
    "another record is at its offset now": (
        built("AAAA").change("observations", {"seq": 9}, reader="live", offset=2),
        ["conflicting 1"],
    ),
    "the drains disagree": (
        built("AAU").change("observations", {"seq": 3}, reader="leader-uncommitted", offset=2),
        ["conflicting 1"],
    ),
    # --- duplicated, reordered
    "a second copy": (History("AAA").build(append(1, 1)), ["duplicated 1"]),
    "a second copy of a record of unknown outcome": (History("AUA").build(append(1, 1)), ["duplicated 1"]),
    "a second copy of an aborted record": (
        History("A[A]").build(append(1, 1, txn=1, visible=False)),
        ["duplicated 1"],
    ),
    "two records are exchanged": (History("AAAA").build(swap(1, 2)), ["reordered 1"]),
    "a record of unknown outcome is written late": (History("AUA").build(swap(1, 2)), ["reordered 1"]),
    # --- below_acked
    "a record is sent after the next was acknowledged": (called_late(built("AAAA"), 1), ["below_acked 1"]),
    "two records are sent after the last was acknowledged": (called_late(built("AAAA"), 1, 2), ["below_acked 2"]),
    "a record is sent just after the next was acknowledged": (called_late(built("AAAA"), 1, late_ms=400), []),
    "a record with an unknown outcome is sent late": (called_late(built("AUAA"), 1), []),
    "a record that was acknowledged without an offset is sent late": (called_late(built("AaAA"), 1), []),
    "the offset of an early acknowledgement is wrong": (
        built("A..A..A").change("ledger", {"offset": 9}, seq=0),
        [],
    ),
    # --- corrupt, misrouted, phantom
    "one reader receives a damaged record": (
        built("AAA").change("observations", {"intact": False}, reader="live", offset=1),
        ["corrupt 1"],
    ),
    "the drain receives a damaged record without identity": (
        built("AAA").change("observations", {"intact": False, "stream": -1, "seq": 0}, kind="drain", offset=1),
        ["corrupt 1"],
    ),
    "a sequence number beyond the reserved ones": (History("AA", "AA").build(append(1, 7)), ["phantom 1"]),
    "a record is in another partition as well": (History("AA", "AA").build(append(1, 0, partition=1)), ["misrouted 1"]),
    "a record is in another partition instead": (
        History("AUA", "AA").build(lambda h: (lose(1)(h), append(1, 1, partition=1)(h))[0]),
        ["misrouted 1"],
    ),
    "a record that was never sent": (History("AA").build(append(77, 0)), ["phantom 1"]),
    "a record that was reserved and is not in the ledger": (History("AA").build(append(1, 2)), []),
    "a refused record is there": (History("AAR").build(append(1, 2)), ["phantom 1"]),
    # --- transactions
    "an aborted record is shown": (History("A[AA]").build(show(1)), ["aborted_read 1"]),
    "a live reader receives an aborted record": (
        built("A[AA]").change("observations", {"isolation": RC}, reader="peek"),
        ["aborted_read 2"],
    ),
    "a part of a committed transaction is hidden": (
        History("(AAA)A").build(hide(1)),
        ["lost 1", "torn_transaction 1"],
    ),
    "all of a committed transaction is hidden": (
        History("(AA)A").build(lambda h: (hide(0)(h), hide(1)(h))[0]),
        ["lost 2"],
    ),
    "a part of an unknown transaction is hidden": (History("{AAA}A").build(hide(1)), ["torn_transaction 1"]),
    "a part is hidden on one of two partitions": (
        History("{AA}A", "{A}").build(hide(0, partition=1)),
        ["torn_transaction 1"],
    ),
    "an unknown transaction is shown on one of two partitions": (
        History("<AA>A", "<A>").build(show(0, 1)),
        ["torn_transaction 2"],
    ),
    "an unknown transaction is shown and its offsets count": (offsets_of_one(built("{AA}A"), reported=3), []),
    "an unknown transaction is shown and its offsets do not count": (
        offsets_of_one(built("{AA}A"), reported=None),
        ["torn_transaction 1"],
    ),
    "an unknown transaction is not shown, nor do its offsets count": (
        offsets_of_one(built("<AA>A"), reported=None),
        [],
    ),
    "an unknown transaction is not shown and its offsets count": (
        offsets_of_one(built("<AA>A"), reported=3),
        ["torn_transaction 1"],
    ),
    "offsets of a committed transaction do not count": (
        offsets_of_one(built("(AA)A"), reported=None),
        ["commit_regressed 1"],
    ),
    # --- readers
    "a live reader skips": (built("AAAA").drop("observations", reader="live", offset=2), ["skipped_read 1"]),
    "a live reader begins late and ends early": (
        built("AAAA").drop("observations", reader="live", offset=0).drop("observations", reader="live", offset=3),
        [],
    ),
    "a live reader skips between two sessions": (
        built("AAAA")
        .drop("observations", reader="live", offset=1)
        .change("observations", {"session": 1}, reader="live", offset=2)
        .change("observations", {"session": 1}, reader="live", offset=3),
        [],
    ),
    "a group skips between two sessions": (skips_between_sessions(built("AAAA")), ["skipped_read 1"]),
    "a group of another client seeks forward": (sealed_by_other_client(skips_between_sessions(built("AAAA"))), []),
    "a group of another client skips": (
        sealed_by_other_client(built("AAAA").drop("observations", reader="grouped", offset=1)),
        ["skipped_read 1"],
    ),
    "retention deletes between the drains": (retention_while_read(built("AAAA"), "leader-uncommitted"), []),
    "retention deletes between the drains, and one skips a record": (
        retention_while_read(built("AAAA"), "leader-uncommitted")
        .drop("observations", reader="leader-uncommitted", offset=3)
        .drop("observations", reader="peek", offset=3),
        ["skipped_read 1"],
    ),
    "a group of two reads all of it, some again": (in_two_members(built("AAAA")), []),
    "a group of two skips between its members": (in_two_members(built("AAAA"), skips=True), ["skipped_read 1"]),
    "a group of two of another client": (sealed_by_other_client(in_two_members(built("AAAA"), skips=True)), []),
    "a group reads some of it again": (
        built("AAAA")
        .copy("observations", {"session": 1}, reader="grouped", offset=2)
        .change("observations", {"session": 1}, reader="grouped", offset=3),
        [],
    ),
    # --- log starts
    "the log starts late for no reason": (History("AAAA").build(start_at(2)), ["log_start 2"]),
    "one replica's log starts late": (built("AAAA"), ["log_start 1"]),
    "retention by size": (contract(History("AAAA").build(start_at(2)), retention_bytes=200), []),
    "retention by size, one too many": (
        contract(History("AAAA").build(start_at(2)), retention_bytes=300),
        ["log_start 1"],
    ),
    "retention by time": (contract(History("AA.AA").build(start_at(2)), retention_ms=1000), []),
    "retention by time, one too many": (
        contract(History("AA.AA").build(start_at(3)), retention_ms=1000),
        ["log_start 1"],
    ),
    "retention by time, and a young record with a wrong acknowledged offset": (
        wrongly_acknowledged("AA.AAA", 2, reported=0),
        [],
    ),
    "retention by time, one too many, and another record was acknowledged at its offset": (
        wrongly_acknowledged("AA.AAA", 3, reported=2),
        ["log_start 1"],
    ),
    "a log started late before the run": (started_at_2(2), []),
    "a log started late before the run, and starts later after it": (started_at_2(3), ["log_start 1"]),
    "a log starts late, since an unknown time": (without_first_snapshot(started_at_2(2)), []),
    "a log starts late since an unknown time, and lacks records of this run": (
        without_first_snapshot(started_at_2(3)),
        ["log_start 1"],
    ),
    "records are deleted as declared": (
        contract(History("AAAA").build(start_at(2)), delete_records=True).event("delete_records", before_offset=2),
        [],
    ),
    "more records are deleted than declared": (
        contract(History("AAAA").build(start_at(3)), delete_records=True).event("delete_records", before_offset=2),
        ["log_start 1"],
    ),
    "records are deleted by an undeclared step": (
        History("AAAA").build(start_at(2)).event("delete_records", before_offset=2),
        ["log_start 2"],
    ),
    "a topic leaves the remote tier as declared": (
        contract(History("AAAA").build(start_at(2)), tier_off=True).event("tier_off", before_offset=2),
        [],
    ),
    "more is missing than only the remote tier had": (
        contract(History("AAAA").build(start_at(3)), tier_off=True).event("tier_off", before_offset=2),
        ["log_start 1"],
    ),
    "a topic leaves the remote tier by an undeclared step": (
        History("AAAA").build(start_at(2)).event("tier_off", before_offset=2),
        ["log_start 2"],
    ),
    "a transaction loses its beginning to retention": (
        contract(History("(AAAA)").build(start_at(2)), retention_bytes=200),
        [],
    ),
    "a record acknowledged without an offset was perhaps deleted": (
        contract(History("aAAA").build(start_at(2)), retention_bytes=200),
        [],
    ),
    # --- documents
    "a transaction hangs": (built("AA(AA)"), ["hanging_transaction 3"]),
    "the cluster does not recover": (built("AAA"), ["not_recovered 1"]),
    "a coordinator does not end two transactions": (
        after_healing(built("AA(AA)"), transactions_ended=unended("Ongoing", "PrepareAbort")),
        ["transaction_unfinished 1", "transaction_unfinished 1"],
    ),
    "a coordinator ends its transactions late": (
        after_healing(built("AA(AA)"), transactions_ended={"ok": True, "waited_s": 104.0, "last_seen": ""}),
        [],
    ),
    "a coordinator does not answer about transactions": (
        after_healing(built("AA(AA)"), transactions_ended=unended()),
        [],
    ),
    "transactions without an end, and a node that is down": (
        after_healing(built("AA(AA)"), transactions_ended=unended("Ongoing"), recovered=DOWN),
        [],
    ),
    "a group leaves two partitions without a member": (
        after_healing(built("AAA"), groups_at_rest=restless(state="Stable", unassigned=2)),
        ["group_unsettled 2"],
    ),
    "a group rebalances for ever": (
        after_healing(built("AAA"), groups_at_rest=restless(state="PreparingRebalance")),
        ["group_unsettled 1"],
    ),
    "no coordinator reports a group": (
        after_healing(built("AAA"), groups_at_rest=restless(state=None)),
        ["group_unsettled 1"],
    ),
    "a partition has two members": (
        after_healing(built("AAA"), groups_at_rest=restless(state="Stable", assigned_twice=1)),
        ["group_unsettled 1"],
    ),
    "a coordinator does not know a member": (
        after_healing(built("AAA"), groups_at_rest=restless(state="Stable", unknown_members=1)),
        [],
    ),
    "only members report another assignment": (
        after_healing(built("AAA"), groups_at_rest=restless(state="Stable", differing=1)),
        [],
    ),
    "a leader copies no closed segment to the tier": (
        after_healing(built("AAA"), tier_at_rest=uncopied(10)),
        ["tier_lag 10"],
    ),
    "a tier is slow": (
        after_healing(built("AAA"), tier_at_rest=uncopied()),
        [],
    ),
    "a leader copies no closed segment, and a node is down": (
        after_healing(built("AAA"), tier_at_rest=uncopied(10), recovered=DOWN),
        [],
    ),
    "two replicas are not compacted": (
        after_healing(built("AAA"), cleaners_at_rest=uncompacted(1, 2)),
        ["cleaner_lag 1", "cleaner_lag 1"],
    ),
    "a cleaner is slow": (after_healing(built("AAA"), cleaners_at_rest=uncompacted()), []),
    "a replica is not compacted after its disk failed": (
        with_fact(after_healing(built("AAA"), cleaners_at_rest=uncompacted(1)), "disk_failed", 1, 1, 2),
        [],
    ),
    "a replica is not compacted after the disk of another one failed": (
        with_fact(after_healing(built("AAA"), cleaners_at_rest=uncompacted(1)), "disk_failed", 2, 1, 2),
        ["cleaner_lag 1"],
    ),
    "a group that does not come to rest, and a node that is down": (
        after_healing(built("AAA"), groups_at_rest=restless(state=None), recovered=DOWN),
        [],
    ),
    "a leader refuses two acknowledged records": (refused(built("AAAA"), 2, "UNKNOWN_SERVER_ERROR"), ["unserved 2"]),
    "a leader answers without the records that it has": (refused(built("AAAA"), 2), ["unserved 2"]),
    "a leader refuses records of unknown outcome": (refused(built("AAUU"), 2), []),
    "a leader refuses records, and a node is down": (
        after_healing(refused(built("AAAA"), 2), recovered=DOWN),
        [],
    ),
    # --- a run that died half way
    "unfinished run, and a record is missing": (run_finished(History("AAA").build(lose(1)), finished=False), []),
    "unfinished run, and every log ends below a record": (
        run_finished(History("AAAA").build(cut(2)), finished=False),
        ["lost 2"],
    ),
    "unfinished run, and a second copy": (
        run_finished(History("AAA").build(append(1, 1)), finished=False),
        ["duplicated 1"],
    ),
    "unfinished run, and an aborted read": (
        run_finished(History("A[AA]").build(show(1)), finished=False),
        ["aborted_read 1"],
    ),
    "unfinished run, and a refused record is there": (
        run_finished(History("AAR").build(append(1, 2)), finished=False),
        ["phantom 1"],
    ),
    "unfinished run, and no drain": (
        run_finished(
            built("AAAA").drop("observations", kind="drain").drop("observations", kind="replica"), finished=False
        ),
        [],
    ),
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
    "a replica has one more record": (
        History("AAUA").build(lose(2)).copy("observations", {"seq": 2, "offset": 2}, replica=2, offset=1),
        ["replica_divergence 1"],
    ),
    "retention deletes before a copy is read": (retention_while_read(built("AAAA"), "2"), []),
    "retention deletes before a copy is read, and the copy lacks more": (
        retention_while_read(built("AAAA"), "2").drop("observations", replica=2, offset=2),
        ["replica_divergence 1"],
    ),
    "a disk lacks a batch": (built("AAAA").drop("batches", broker=2, base_offset=1), ["replica_divergence 1"]),
    "a disk lacks its last batch": (built("AAA").drop("batches", broker=2, base_offset=2), ["replica_divergence 1"]),
    "a disk has another batch": (
        built("AAAA").change("batches", {"digest": 5}, broker=3, base_offset=1),
        ["replica_divergence 1"],
    ),
    "a disk lacks a batch, and another has it twice": (
        built("AAAA").drop("batches", broker=3, base_offset=2).copy("batches", {}, broker=1, base_offset=2),
        ["replica_divergence 1"],
    ),
    "two disks lack a batch, and the third has it three times": (
        built("AAAA").change("batches", {"broker": 1}, base_offset=2),
        ["replica_divergence 1"],
    ),
    "a disk has a batch twice": (built("AAAA").copy("batches", {}, broker=1, base_offset=2), []),
    "a disk has a number in another column": (
        built("AAAA")
        .change("batches", {"producer_id": None, "producer_epoch": 5}, base_offset=1)
        .change("batches", {"producer_id": 5, "producer_epoch": None}, broker=2, base_offset=1),
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
    "all disks leave an offset out": (without_offset_anywhere("AUAA", 1), []),
    "all disks leave the last offset out": (without_offset_anywhere("AAU", 2), []),
    "a disk leaves more out than all do": (
        without_offset_anywhere("AUAA", 1).drop("batches", broker=2, base_offset=2),
        ["replica_divergence 1"],
    ),
    "only one disk has an offset": (
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
    "retention is ahead on one disk, and another lacks a batch that it deleted": (
        contract(built("AAAA"), retention_bytes=100)
        .drop("batches", broker=1, base_offset=0)
        .drop("batches", broker=1, base_offset=1)
        .drop("batches", broker=2, base_offset=1),
        ["replica_divergence 1"],
    ),
    "retention deleted everything on one disk": (
        contract(built("AAAA", "AA"), retention_bytes=100).drop("batches", broker=2, partition=0),
        [],
    ),
    "retention deleted everything on one disk, and others differ": (
        contract(built("AAAA", "AA"), retention_bytes=100)
        .drop("batches", broker=2, partition=0)
        .change("batches", {"digest": 5}, broker=3, partition=0, base_offset=1),
        ["replica_divergence 1"],
    ),
    "one disk is empty": (
        built("AAAA", "AA").drop("batches", broker=2, partition=0),
        ["replica_divergence 4"],
    ),
    "no disk can be read": (built("AAA").drop("batches", count=1), []),
    "one disk cannot be read": (built("AAA").drop("batches", broker=3), []),
    # --- groups
    "a commit is lost": (built("AAAA"), ["commit_regressed 1"]),
    "all commits are lost": (built("AAAA"), ["commit_regressed 1"]),
    "an offset that was never committed": (built("AAAA"), ["commit_regressed 1"]),
    "a commit of unknown outcome after the last": (built("AAAA"), []),
    "a commit is lost until the next one": (answered(built("AAAA"), 2, after=4), ["commit_regressed 1"]),
    "all commits are lost for a while": (answered(built("AAAA"), None, after=2), ["commit_regressed 1"]),
    "an answer before the last commit": (answered(built("AAAA"), 2, after=2), []),
    "an answer while the last commit is in flight": (answered(built("AAAA"), 4, after=2, took_ns=MS), []),
    "a new group has no offset": (answered(built("AAAA"), None, after=None), []),
    "two concurrent commits, and the first one counts": (overlapping(built("AAAA"), reported=2), []),
    "two concurrent commits, and none counts": (overlapping(built("AAAA"), reported=1), ["commit_regressed 1"]),
    "a group without requested offsets": (
        sealed_by_other_client(built("AAAA").copy("offset_commits", {"group": "h"}, offset=4)),
        [],
    ),
    "a group with requested offsets has nothing": (
        built("AAAA").copy("offset_commits", {"group": "h"}, offset=4),
        ["commit_regressed 1"],
    ),
    "a group with requested offsets has nothing on one partition": (
        sealed_by_other_client(built("AAAA", "AA")),
        ["commit_regressed 1"],
    ),
    "offsets of a group from before the run expire": (group_from_before(built("AAAA"), reported=None), []),
    "offsets of a group from before the run stay": (group_from_before(built("AAAA"), reported=1), []),
    "offsets of a group from before the run change without a commit": (
        group_from_before(built("AAAA"), reported=0),
        ["commit_regressed 1"],
    ),
    "a group from before the run commits and keeps its old offset": (
        group_from_before(built("AAAA"), reported=1, group="g"),
        ["commit_regressed 1"],
    ),
    "a group from before the run commits and has nothing": (
        group_from_before(built("AAAA"), reported=None, group="g"),
        ["commit_regressed 1"],
    ),
    "offsets that are not stable": (unstable(built("AAAA", "AA"), reported=2), []),
    "a commit of an aborted transaction": (built("AAAA[A]"), ["commit_regressed 1"]),
}


def _report(name: str, offset: int | None) -> None:
    history = CASES[name][0]
    for row in history.drained["groups"]:
        row["offset"] = offset


CASES["a group with requested offsets has nothing on one partition"][0].drained["groups"].pop()
_report("a commit is lost", 2)
_report("an offset that was never committed", 3)
_report("a commit of unknown outcome after the last", 3)
_report("a commit of an aborted transaction", 1)
CASES["all commits are lost"][0].drained["groups"] = []
CASES["a commit of unknown outcome after the last"][0].copy(
    "offset_commits", {"offset": 3, "outcome": "unknown", "called_ns": START_NS + 10**8}, offset=4
)
CASES["a commit of an aborted transaction"][0].copy("offset_commits", {"offset": 1, "txn_id": 1}, offset=6)
CASES["one replica's log starts late"][0].drained["partitions"][0]["logs"][2]["log_start"] = 1
CASES["a transaction hangs"][0].drained["partitions"][0]["last_stable_offset"] = 2
CASES["a transaction hangs"][0].run["transactions_settled"] = {"ok": False, "waited_s": 75.0, "last_seen": "t-0"}
CASES["the cluster does not recover"][0].run["recovered"] = {
    "ok": False,
    "waited_s": 90.0,
    "last_seen": "t-0 isr [1]",
    "pending": "isr_not_full",
}

# What a wait after healing had shown stands when the run breaks off later.
for awaited in (
    "the cluster does not recover",
    "a coordinator does not end two transactions",
    "a group rebalances for ever",
    "a leader copies no closed segment to the tier",
    "transactions without an end, and a node that is down",
    "a coordinator ends its transactions late",
):
    history, kinds = CASES[awaited]
    CASES[f"{awaited}, and the run breaks off"] = (replace(deepcopy(history), complete=False), kinds)

BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_history_has_exactly_its_findings(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    expected = CASES[name][1]
    assert reported(verdict) == expected
    assert not [doubt for doubt in verdict.doubts if doubt.name.startswith("check_failed")]
    assert (verdict.status is Status.FAIL) == bool(expected)
