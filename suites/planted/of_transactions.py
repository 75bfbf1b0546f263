"""Plants in transactions and group offsets, each with its near miss."""

from __future__ import annotations

from typing import Any

from harness.model.contract.internal_topics import OFFSETS, state_partition
from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Expected, Record, fails, of, passes
from suites.planted.plants import COMMITTED, elect_outsider, forget, plant, records, transaction

READERS = "readers"  # the group with a consumer that commits
PAYMENTS = "payments"  # the group with offsets that are committed in transactions
PARTITIONS = 10  # of __consumer_offsets


def _both(parts: dict[int, list[Record]]) -> list[Record]:
    return [record for part in parts.values() for record in part]


def _ended(copy: Copy, parts: dict[int, list[Record]], outcome: str) -> None:
    copy.change("transactions", {"outcome": outcome}, txn_id=parts[0][0].txn_id)


# --- aborted_read ---


@plant
def aborted_read_in_the_drain(copy: Copy) -> Expected:
    """No follower and no live reader returns it as committed; one finding covers everything."""
    record = transaction(copy.original, "aborted")[0][0]
    _given_as_committed(copy, record, "leader-committed")
    return fails(of(Kind.ABORTED_READ, record))


@plant
def aborted_read_by_everybody(copy: Copy) -> Expected:
    record = transaction(copy.original, "aborted")[1][0]
    rows = _shown(copy, record.topic, record.partition)
    # Reads from arbitrary offsets are left out: they would have passed over the records in between.
    for reader in {r["reader"] for r in rows if r["isolation"] == COMMITTED and r["kind"] != "probe"}:
        _given_as_committed(copy, record, reader)
    return fails(of(Kind.ABORTED_READ, record))


@plant
def aborted_read_by_a_live_reader(copy: Copy) -> Expected:
    record = transaction(copy.original, "aborted")[0][-1]
    _given_as_committed(copy, record, "committed")
    return fails(of(Kind.ABORTED_READ, record))


@plant
def near_aborted_read_absent(copy: Copy) -> Expected:
    """No reader receives a record of an aborted transaction any more."""
    forget(copy, transaction(copy.original, "aborted")[0][0])
    return passes()


@plant
def near_aborted_read_of_an_unknown_transaction(copy: Copy) -> Expected:
    """The outcome was not acknowledged, and everything is visible."""
    _ended(copy, transaction(copy.original, "committed"), "unknown")
    return passes()


def _shown(copy: Copy, topic: str, partition: int) -> list[Row]:
    return copy.original.rows("observations", topic=topic, partition=partition)


def _given_as_committed(copy: Copy, record: Record, reader: str) -> None:
    """Adds the observation of one reader, in the session and poll of the record after it, when the high watermark had
    certainly passed it."""
    rows = [r for r in _shown(copy, record.topic, record.partition) if r["reader"] == reader]
    after = min((r for r in rows if r["offset"] > record.offset), key=lambda r: r["offset"], default=rows[-1])
    copy.add("observations", [after | {"offset": record.offset, **record.sent}])


# --- torn_transaction ---


@plant
def torn_transaction_on_one_partition(copy: Copy) -> Expected:
    """Committed, so the missing part is lost as well."""
    gone = transaction(copy.original, "committed")[0]
    forget(copy, *gone)
    return fails(of(Kind.LOST, *gone), of(Kind.TORN_TRANSACTION, *gone))


@plant
def torn_transaction_for_read_committed(copy: Copy) -> Expected:
    """A part counts as aborted: read_uncommitted returns everything."""
    gone = transaction(copy.original, "committed")[1]
    forget(copy, *gone, isolation=COMMITTED)
    return fails(of(Kind.LOST, *gone), of(Kind.TORN_TRANSACTION, *gone))


@plant
def torn_transaction_of_unknown_end(copy: Copy) -> Expected:
    """Both outcomes are legal, but not half of each."""
    parts = transaction(copy.original, "committed")
    _ended(copy, parts, "unknown")
    forget(copy, *parts[0], isolation=COMMITTED)
    return fails(of(Kind.TORN_TRANSACTION, *parts[0]))


@plant
def lost_transaction(copy: Copy) -> Expected:
    """A whole committed transaction is lost, so no part is torn from another."""
    gone = _both(transaction(copy.original, "committed"))
    forget(copy, *gone)
    return fails(of(Kind.LOST, *gone))


@plant
def lost_transaction_that_an_operator_aborted(copy: Copy) -> Expected:
    """Its end marker was there, and no unclean election lost it: an abort by an operator excuses nothing."""
    parts = transaction(copy.original, "committed")
    gone = _both(parts)
    forget(copy, *gone, isolation=COMMITTED)
    with copy.document("steps") as steps:
        for part in parts.values():
            steps[-1]["events"].append(_aborted(copy, part[0], steps[-1]["ended_ns"]))
    return fails(of(Kind.LOST, *gone))


def _aborted(copy: Copy, first: Record, at_ns: int) -> Row:
    """An operator ended the transaction that starts with a record, after its coordinator had finished it."""
    batches = copy.original.rows("batches", topic=first.topic, partition=first.partition)
    mine = next(b for b in batches if b["base_offset"] <= first.offset <= b["last_offset"])
    return {
        "kind": "transaction_aborted",
        "topic": first.topic,
        "topic_id": first.topic_id,
        "partition": first.partition,
        "producer": "payments",
        "producer_id": mine["producer_id"],
        "producer_epoch": mine["producer_epoch"],
        "start_offset": first.offset,
        "leader": mine["broker"],
        "coordinator": "CompleteCommit",
        "outcome": "acked",
        "asked_ns": at_ns,
        "at_ns": at_ns,
    }


@plant
def near_torn_transaction_of_unknown_end_and_absent(copy: Copy) -> Expected:
    parts = transaction(copy.original, "committed")
    _ended(copy, parts, "unknown")
    forget(copy, *_both(parts), isolation=COMMITTED)
    return passes()


@plant
def near_torn_transaction_aborted_and_called_unknown(copy: Copy) -> Expected:
    _ended(copy, transaction(copy.original, "aborted"), "unknown")
    return passes()


@plant
def near_torn_transaction_unknown_send_within(copy: Copy) -> Expected:
    """A record of a committed transaction. Its send was not answered, and it was not written."""
    gone = transaction(copy.original, "committed")[0][0]
    copy.change("ledger", {"outcome": "unknown", "offset": None}, **gone.sent)
    forget(copy, gone)
    return passes()


@plant
def torn_transaction_without_a_marker(copy: Copy) -> Expected:
    """One partition lacks its marker: the next transaction of its producer ends it there, with the same outcome."""
    record = transaction(copy.original, "committed")[0][0]
    _unmark(copy, record)
    return fails(of(Kind.TORN_TRANSACTION, record))


@plant
def near_torn_transaction_without_the_last_marker(copy: Copy) -> Expected:
    """No other transaction of its producer follows, so the marker may still have been on its way."""
    of_it = {row["txn_id"] for row in copy.original.rows("transactions", producer="payments")}
    _unmark(copy, records(copy.original, "paid", 0, txn_id=of_it)[-1])
    return passes()


def _unmark(copy: Copy, record: Record) -> None:
    """Takes the marker that ended a record's transaction from the disks of its partition."""
    batches = copy.original.rows("batches", topic=record.topic, partition=record.partition)
    own = next(b for b in batches if b["base_offset"] <= record.offset <= b["last_offset"])
    ends = (b["base_offset"] for b in batches if b["control"] and b["producer_id"] == own["producer_id"])
    marker = min(end for end in ends if end > record.offset)
    copy.drop("batches", topic=record.topic, partition=record.partition, base_offset=marker)


# --- vanished, for read_uncommitted readers ---


@plant
def vanished_of_an_aborted_transaction(copy: Copy) -> Expected:
    """Aborted records stay in the log; a read_uncommitted reader received it, and it is missing."""
    gone = transaction(copy.original, "aborted")[0][0]
    forget(copy, gone, kinds=["drain", "replica"])
    return fails(of(Kind.VANISHED, gone))


# --- commit_regressed ---


@plant
def commit_regressed_by_one(copy: Copy) -> Expected:
    reported = _report(copy, READERS, "plain", 0, -1)
    return fails(_regressed("plain", reported))


@plant
def commit_regressed_to_an_earlier_commit(copy: Copy) -> Expected:
    commits = _commits(copy, READERS, "plain")
    earlier = max({row["offset"] for row in commits} - {_reported(copy, READERS, "plain")})
    _report(copy, READERS, "plain", 0, earlier - _reported(copy, READERS, "plain"))
    return fails(_regressed("plain", earlier))


@plant
def commit_regressed_to_nothing(copy: Copy) -> Expected:
    with copy.document("cluster") as cluster:
        last = cluster["snapshots"][-1]
        last["groups"] = [g for g in last["groups"] if (g["group"], g["topic"]) != (READERS, "plain") or g["partition"]]
    return fails(_regressed("plain", None))


@plant
def commit_regressed_ahead_of_every_commit(copy: Copy) -> Expected:
    """This offset was never committed: the records in between would never be read."""
    return fails(_regressed("plain", _report(copy, READERS, "plain", 0, 1000)))


@plant
def commit_regressed_inside_a_transaction(copy: Copy) -> Expected:
    """The offsets of the last committed transaction did not take effect."""
    return fails(_regressed("paid", _report(copy, PAYMENTS, "paid", 0, -1)))


@plant
def commit_never_made(copy: Copy) -> Expected:
    """The group's offset is then one that was never committed."""
    reported = _reported(copy, READERS, "plain")
    copy.drop("offset_commits", group=READERS, topic="plain", partition=0, offset=reported)
    return fails(_regressed("plain", reported))


@plant
def near_commit_regressed_unknown_commit_higher(copy: Copy) -> Expected:
    """A later commit was not answered, and it counts."""
    _unanswered_commit(copy, 1000)
    _report(copy, READERS, "plain", 0, 1000)
    return passes()


@plant
def near_commit_regressed_unknown_commit_ignored(copy: Copy) -> Expected:
    _unanswered_commit(copy, 1000)
    return passes()


@plant
def near_commit_regressed_rewound_by_a_commit(copy: Copy) -> Expected:
    """An acknowledged commit may go back: the last one counts, not the highest."""
    _unanswered_commit(copy, -1, outcome="acked")
    _report(copy, READERS, "plain", 0, -1)
    return passes()


@plant
def commit_regressed_of_a_deleted_group(copy: Copy) -> Expected:
    """It was deleted at the end, and still has its offsets."""
    _delete(copy, READERS)
    rows = copy.original.documents["cluster"]["snapshots"][-1]["groups"]
    places = [(row["topic"], row["partition"], row["offset"]) for row in rows if row["group"] == READERS]
    return fails((Kind.COMMIT_REGRESSED.value, *place) for place in places)


@plant
def near_commit_regressed_of_a_deleted_group(copy: Copy) -> Expected:
    """It has no offsets any more."""
    _delete(copy, READERS)
    with copy.document("cluster") as cluster:
        for snapshot in cluster["snapshots"]:
            snapshot["groups"] = [row for row in snapshot["groups"] if row["group"] != READERS]
    return passes()


@plant
def commit_regressed_with_an_unrelated_unclean_election(copy: Copy) -> Expected:
    """An election that the contract permits, of the log with the offsets of other groups."""
    return fails(_regressed("plain", _elected(copy, state_partition(READERS, PARTITIONS) + 1)))


@plant
def near_commit_regressed_by_an_unclean_election(copy: Copy) -> Expected:
    """An election that the contract permits, of the log with the group's own offsets."""
    return passes(excused=_regressed("plain", _elected(copy, state_partition(READERS, PARTITIONS))))


@plant
def member_began_again_below_its_commits(copy: Copy) -> Expected:
    """It received everything again from the first record on, as if its group had committed nothing."""
    rows, middle = _again_from_the_middle(copy)
    copy.add("observations", [row | {"session": row["session"] + 1, "given_ns": None} for row in rows[:middle]])
    return fails(_regressed("plain", rows[0]["offset"]))


@plant
def near_commit_regressed_began_again_at_a_commit(copy: Copy) -> Expected:
    _again_from_the_middle(copy)
    return passes()


def _again_from_the_middle(copy: Copy) -> tuple[list[Row], int]:
    """The member of a group begins a new session at a commit from the middle of the run. Returns what it received in
    the partition, and which of these rows is the first of that session."""
    rows = copy.original.rows("observations", topic="plain", partition=0, reader="grouped")
    commits = _commits(copy, READERS, "plain")
    at = commits[len(commits) // 2]["offset"]
    later = {row["offset"] for row in rows if row["offset"] >= at}
    session = {row["session"] for row in rows}
    assert len(session) == 1, "the group's member began several sessions"
    copy.change(
        "observations", {"session": session.pop() + 1}, topic="plain", partition=0, reader="grouped", offset=later
    )
    return rows, len(rows) - len(later)


def _delete(copy: Copy, group: str) -> None:
    """A declared step deleted a group right before its coordinator was asked."""
    snapshots = copy.original.documents["cluster"]["snapshots"][1:]
    asked_ns = min(row["at_ns"] for s in snapshots for row in s["groups"] if row["group"] == group)
    at = {"asked_ns": asked_ns - 2 * 10**6, "at_ns": asked_ns - 10**6}
    with copy.document("steps") as steps:
        steps[-1]["events"].append({"kind": "group_deleted", "group": group, "outcome": "acked", **at})
        step = steps[-1]["name"]
    with copy.document("run") as run:
        run["contract"]["group_deletions"] = [step]


def _elected(copy: Copy, partition: int) -> int:
    """After the last commit a partition of __consumer_offsets got a leader that was not in sync. Returns the offset
    of an earlier commit, which is reported then."""
    reported = _reported(copy, READERS, "plain")
    earlier: int = max({row["offset"] for row in _commits(copy, READERS, "plain")} - {reported})
    _report(copy, READERS, "plain", 0, earlier - reported)
    elected_ns = _commits(copy, READERS, "plain")[-1]["returned_ns"] + 1
    elect_outsider(copy, OFFSETS, partition, at_ns=elected_ns)
    offsets = {"partitions": PARTITIONS, "replicas": 3, "min_insync_replicas": 1, "unclean_election": True}
    with copy.document("run") as run:
        run["contract"]["offsets"] = offsets
    return earlier


def _regressed(topic: str, offset: int | None) -> list[Any]:
    return [(Kind.COMMIT_REGRESSED.value, topic, 0, offset)]


def _commits(copy: Copy, group: str, topic: str) -> list[Row]:
    rows = copy.original.rows("offset_commits", group=group, topic=topic, partition=0)
    return sorted(rows, key=lambda row: row["called_ns"])


def _reported(copy: Copy, group: str, topic: str) -> int:
    groups = copy.original.documents["cluster"]["snapshots"][-1]["groups"]
    (row,) = [g for g in groups if (g["group"], g["topic"], g["partition"]) == (group, topic, 0)]
    return int(row["offset"])


def _report(copy: Copy, group: str, topic: str, partition: int, by: int) -> int:
    """Changes the offset that the group's coordinator last reported."""
    with copy.document("cluster") as cluster:
        groups = cluster["snapshots"][-1]["groups"]
        (row,) = [g for g in groups if (g["group"], g["topic"], g["partition"]) == (group, topic, partition)]
        row["offset"] += by
        return int(row["offset"])


def _unanswered_commit(copy: Copy, by: int, outcome: str = "unknown") -> None:
    """One more commit of the group, after the last one and before its coordinator was asked at the end."""
    last = _commits(copy, READERS, "plain")[-1]
    asked_ns = min(g["at_ns"] for g in copy.original.documents["cluster"]["snapshots"][-1]["groups"])
    at = {"called_ns": asked_ns - 2 * 10**6, "returned_ns": asked_ns - 10**6}
    copy.add("offset_commits", [last | at | {"offset": last["offset"] + by, "outcome": outcome}])
