"""Plants in replicas, disks and reports of brokers, each with its near miss."""

from __future__ import annotations

from math import ceil
from operator import itemgetter
from typing import Any, Final

from harness.model.contract.internal_topics import TRANSACTIONS
from harness.model.finding import Kind
from harness.model.pending import Pending
from suites.planted.copies import Copy, Original, Row
from suites.planted.expected import Broken, Expected, Record, doubtful, fails, of, passes
from suites.planted.of_coordinators import states_of
from suites.planted.plants import (
    AFTER_HEALING,
    COMMITTED,
    elect_outsider,
    exited,
    last_partition,
    middle,
    plant,
    records,
)

RETENTION_BYTES: Final = 1_048_576  # of the topic `sized`, in planted.toml

# --- replica_divergence, as read ---


@plant
def replica_lacks_a_record(copy: Copy) -> Expected:
    (record,) = middle(copy.original)
    copy.drop("observations", kind="replica", replica=_follower(copy, record), **record.at)
    return fails(of(Kind.REPLICA_DIVERGENCE, record))


@plant
def replica_hides_a_record_from_read_committed(copy: Copy) -> Expected:
    record = records(copy.original, "paid", 1, txn_id=_txns(copy, "committed"))[30]
    replica = _follower(copy, record)
    copy.drop("observations", kind="replica", replica=replica, isolation=COMMITTED, **record.at)
    return fails(of(Kind.REPLICA_DIVERGENCE, record))


@plant
def replica_has_another_record(copy: Copy) -> Expected:
    one, other = middle(copy.original, count=2)
    copy.change("observations", other.sent, kind="replica", replica=_follower(copy, one), **one.at)
    return fails(of(Kind.REPLICA_DIVERGENCE, one))


@plant
def replica_has_one_more(copy: Copy) -> Expected:
    """An unanswered send that only one copy has."""
    (record,) = middle(copy.original)
    copy.change("ledger", {"outcome": "unknown", "offset": None}, **record.sent)
    keeps = _follower(copy, record)
    others = {1, 2, 3} - {keeps}
    copy.drop("observations", kind=["drain", "live"], **record.at)
    copy.drop("observations", kind="replica", replica=others, **record.at)
    return fails(of(Kind.REPLICA_DIVERGENCE, record))


@plant
def near_replica_that_keeps_more(copy: Copy) -> Expected:
    """Each replica deletes on its own: a follower may have records below the leader's log start."""
    start = _start(copy.original, "sized")
    below = [r for r in _ledger(copy, "sized") if start - 5 <= r.offset < start]
    follower = _follower(copy, below[0])
    with copy.document("cluster") as cluster:
        for log in last_partition(cluster, "sized", 0)["logs"]:
            log["log_start"] -= 5 if log["broker"] == follower else 0
    with copy.document("reads") as reads:
        for read in reads:
            if read["kind"] == "replica" and (read["topic"], read["replica"]) == ("sized", follower):
                read["start"] -= 5
    shown = copy.original.rows("observations", topic="sized", kind="replica", replica=follower, offset=start)
    copy.add("observations", [row | {"offset": r.offset, **r.sent} for row in shown for r in below])
    return passes()


@plant
def near_replica_read_from_the_leader(copy: Copy) -> Expected:
    """Several brokers served that read: its gap proves nothing about the replica, and the run proves less."""
    (record,) = middle(copy.original)
    replica = _follower(copy, record)
    copy.drop("observations", kind="replica", replica=replica, **record.at)
    with copy.document("reads") as reads:
        for read in reads:
            if (read["kind"], read["replica"], read["topic"], read["partition"]) == ("replica", replica, "plain", 0):
                read["served_by"] = [1, 2, 3]
                read["reached"] = False
                read["stuck_reason"] = f"brokers [1, 2, 3] served it instead of broker {replica} alone"
    return doubtful("not_reached")


# --- replica_divergence, on disk ---


@plant
def disk_with_another_batch(copy: Copy) -> Expected:
    batch = _batch(copy)
    copy.change("batches", {"digest": batch["digest"] + 1}, **_where(batch))
    return fails(_offsets_of(batch))


@plant
def disk_with_another_leader_epoch(copy: Copy) -> Expected:
    """KIP-101: the same records with another leader epoch are another history."""
    batch = _batch(copy)
    copy.change("batches", {"leader_epoch": batch["leader_epoch"] + 7}, **_where(batch))
    return fails(_offsets_of(batch))


@plant
def disk_with_a_broken_batch(copy: Copy) -> Expected:
    batch = _batch(copy)
    copy.change("batches", {"crc_ok": False}, **_where(batch))
    return fails(_offsets_of(batch))


@plant
def disk_without_a_batch(copy: Copy) -> Expected:
    batch = _batch(copy)
    copy.drop("batches", **_where(batch))
    return fails(_offsets_of(batch))


@plant
def near_disk_with_other_segments(copy: Copy) -> Expected:
    """Each broker rolls its segments on its own."""
    batch = _batch(copy)
    copy.change("batches", {"segment": batch["base_offset"]}, **_where(batch))
    return passes()


@plant
def near_disk_not_read(copy: Copy) -> Expected:
    """It lacks every batch, which proves nothing; but it could have been read."""
    copy.drop("batches", broker=2)
    return doubtful("no_batches")


def _batch(copy: Copy) -> Row:
    batches = copy.original.rows("batches", topic="plain", partition=0, broker=2, control=None)
    return batches[len(batches) // 2]


def _where(batch: Row) -> Row:
    return {name: batch[name] for name in ("broker", "topic", "partition", "base_offset")}


def _offsets_of(batch: Row) -> list[Broken]:
    offsets = range(batch["base_offset"], batch["last_offset"] + 1)
    return [(Kind.REPLICA_DIVERGENCE.value, batch["topic"], batch["partition"], offset) for offset in offsets]


# --- log_start ---


@plant
def log_start_raised(copy: Copy) -> Expected:
    """Only the reported log start, on all brokers; the contract keeps these records for seven days."""
    _raise_start(copy, "plain", 3)
    return fails(of(Kind.LOG_START, *_ledger(copy, "plain")[:3]))


@plant
def log_start_raised_on_one_replica(copy: Copy) -> Expected:
    with copy.document("cluster") as cluster:
        last_partition(cluster, "plain", 0)["logs"][-1]["log_start"] = 3
    return fails(of(Kind.LOG_START, *_ledger(copy, "plain")[:3]))


@plant
def log_start_raised_and_records_gone(copy: Copy) -> Expected:
    """The records are missing because of the log start: one finding, with that reason."""
    gone = _delete_first_three(copy)
    return fails(of(Kind.LOG_START, *gone))


@plant
def log_start_by_an_undeclared_step(copy: Copy) -> Expected:
    gone = _delete_first_three(copy)
    _deleted_by_step(copy, permitted=False)
    return fails(of(Kind.LOG_START, *gone))


@plant
def near_log_start_by_delete_records(copy: Copy) -> Expected:
    _delete_first_three(copy)
    _deleted_by_step(copy, permitted=True)
    return passes()


@plant
def near_log_start_by_size(copy: Copy) -> Expected:
    """As far as size permits: every replica still keeps retention.bytes."""
    assert has_room(copy.original), "retention left no room below its limit"
    _raise_start(copy, "sized", _lowest_start_left(copy.original))
    return passes()


@plant
def log_start_beyond_size(copy: Copy) -> Expected:
    """One batch further than size permits."""
    permitted = _lowest_start_left(copy.original)
    batches = copy.original.rows("batches", topic="sized", broker=3)
    over = next(row for row in batches if row["base_offset"] == permitted)
    _raise_start(copy, "sized", over["last_offset"] + 1)
    # The bytes that are missing up to the limit, in records of the average size of the kept ones.
    kept = [row for row in batches if row["base_offset"] > over["base_offset"]]
    size, count = sum(row["size_bytes"] for row in kept), sum(row["count"] for row in kept)
    short = ceil((RETENTION_BYTES - size) * count / size)
    gone = [r for r in _ledger(copy, "sized") if over["last_offset"] - short < r.offset <= over["last_offset"]]
    return fails(of(Kind.LOG_START, *gone))


def has_room(original: Original) -> bool:
    """Whether retention stopped before the limit by size: it deletes whole segments and seldom goes exactly so far."""
    return _start(original, "sized") < _lowest_start_left(original)


def _lowest_start_left(original: Original) -> int:
    """The highest base offset of a batch with at least retention.bytes from there on."""
    kept = 0
    for row in reversed(original.rows("batches", topic="sized", broker=3)):
        kept += row["size_bytes"]
        if kept >= RETENTION_BYTES:
            return int(row["base_offset"])
    raise AssertionError("the topic never had as much as its retention keeps")


def _raise_start(copy: Copy, topic: str, start: int) -> None:
    with copy.document("cluster") as cluster:
        for log in last_partition(cluster, topic, 0)["logs"]:
            log["log_start"] = start


def _delete_first_three(copy: Copy) -> list[Record]:
    gone = _ledger(copy, "plain")[:3]
    assert [r.offset for r in gone] == [0, 1, 2]
    _raise_start(copy, "plain", 3)
    with copy.document("reads") as reads:
        for read in reads:
            if (read["topic"], read["partition"]) == ("plain", 0):
                read["start"] = 3
    for record in gone:
        copy.drop("observations", kind=set(AFTER_HEALING), **record.at)
    return gone


def _deleted_by_step(copy: Copy, *, permitted: bool) -> None:
    with copy.document("steps") as steps:
        at_ns = steps[-1]["ended_ns"]
        event = {"kind": "delete_records", "topic": "plain", "partition": 0, "at_ns": at_ns, "before_offset": 3}
        steps[-1]["events"].append(event)
    with copy.document("run") as run:
        run["contract"]["topics"]["plain"]["delete_records"] = permitted


# --- unclean_election ---


@plant
def elected_out_of_sync(copy: Copy) -> Expected:
    """No record is lost by it, as the readers show."""
    elect_outsider(copy, "plain", 0, at_ns=_last_ack_ns(copy))
    return fails([(Kind.UNCLEAN_ELECTION.value, "plain", 0, None)], by_documents=True)


@plant
def elected_out_of_sync_on_an_internal_topic(copy: Copy) -> Expected:
    elect_outsider(copy, TRANSACTIONS, 0, at_ns=_last_ack_ns(copy))
    with copy.document("run") as run:
        run["contract"]["unclean_internal"] = []
    return fails([(Kind.UNCLEAN_ELECTION.value, TRANSACTIONS, 0, None)], by_documents=True)


@plant
def near_unclean_election_of_the_last_known_leader(copy: Copy) -> Expected:
    """ISR and ELR were empty, and it had led before (KIP-966)."""
    leader = elect_outsider(copy, "plain", 0, at_ns=_last_ack_ns(copy))
    with copy.document("history") as history:
        before, elected = history["changes"][-2:]
        before |= {"isr": [], "leader": -1, "last_known_elr": [leader], "leader_epoch": before["leader_epoch"] + 1}
        before["time_ns"] = elected["time_ns"] - 1
        elected["leader_epoch"] += 1
    return passes()


@plant
def near_unclean_election_that_is_permitted(copy: Copy) -> Expected:
    elect_outsider(copy, "plain", 0, at_ns=_last_ack_ns(copy))
    with copy.document("run") as run:
        run["contract"]["topics"]["plain"]["unclean_election"] = True
    return passes()


def _last_ack_ns(copy: Copy) -> int:
    """A time after every acknowledgement."""
    return 1 + max(int(row["returned_ns"]) for row in copy.original.rows("ledger"))


# --- hanging_transaction, not_recovered ---


@plant
def hanging_transaction(copy: Copy) -> Expected:
    """The last stable offset does not advance. The wait for it then fails, which is also a doubt."""
    with copy.document("cluster") as cluster:
        place = last_partition(cluster, "paid", 0)
        place["last_stable_offset"] -= 5
    _unsettled(copy)
    high = place["high_watermark"]
    offsets = range(high - 5, high)
    return fails(
        [(Kind.HANGING_TRANSACTION.value, "paid", 0, offset) for offset in offsets],
        doubts=["transactions_late"],
        by_documents=True,
    )


@plant
def near_hanging_transaction_that_ended_late(copy: Copy) -> Expected:
    """Still open after healing, and ended later."""
    with copy.document("cluster") as cluster:
        healed = next(s for s in cluster["snapshots"] if s["phase"] == "healed")
        for place in healed["partitions"]:
            if place["topic"] == "paid":
                place["last_stable_offset"] -= 5
    return passes()


def _unsettled(copy: Copy) -> None:
    with copy.document("run") as run:
        seen = "paid/0: last stable offset 5 below the high watermark"
        run["transactions_settled"] = {"ok": False, "waited_s": 75.0, "last_seen": seen}


@plant
def not_recovered(copy: Copy) -> Expected:
    _recovered(copy, False, "plain/0: the ISR is [1, 2] of [1, 2, 3]", Pending.ISR_NOT_FULL)
    return fails([(Kind.NOT_RECOVERED.value, None, None, None)], by_documents=True)


@plant
def near_not_recovered_slowly(copy: Copy) -> Expected:
    _recovered(copy, True, "")
    return passes()


@plant
def near_not_recovered_with_a_node_down(copy: Copy) -> Expected:
    """A node was down, so recovery was not required: a doubt."""
    _recovered(copy, False, "broker 2 is not running", Pending.NODES_DOWN)
    return doubtful("not_back")


@plant
def not_recovered_with_a_crashed_node_down(copy: Copy) -> Expected:
    """The node is down because it crashed, which excuses nothing."""
    _recovered(copy, False, "broker 2 is not running", Pending.NODES_DOWN)
    with copy.document("run") as run:
        run["exits"] = [exited(run["ended_ns"])]
    broken = [(kind.value, None, None, None) for kind in (Kind.CRASHED, Kind.NOT_RECOVERED)]
    return fails(broken, by_documents=True)


@plant
def transaction_unfinished(copy: Copy) -> Expected:
    """Its markers are written, so the last stable offset has moved on, and its coordinator still waits."""
    _unended(copy, {"transactional_id": "paid-1", "state": "PrepareCommit", "coordinator": 2})
    return fails([(Kind.TRANSACTION_UNFINISHED.value, None, None, None)], by_documents=True)


def _open_for(copy: Copy, seconds: int) -> None:
    """The last commit of payments comes so long after the first record of its transaction, whose timeout is 1 s."""
    last = max(
        copy.original.rows("transactions", producer="payments", outcome="committed"), key=itemgetter("end_called_ns")
    )
    begun_ns = last["end_called_ns"] - seconds * 10**9
    copy.change("transactions", {"called_ns": begun_ns}, txn_id=last["txn_id"])
    for state in states_of(copy, "transaction", "payments"):
        for value in (state["logged"], state["answered"], *(each["logged"] for each in state["copies"])):
            value["timeout_ms"] = 1000


@plant
def transaction_committed_after_its_timeout(copy: Copy) -> Expected:
    _open_for(copy, 15)
    return fails([(Kind.TRANSACTION_UNFINISHED.value, None, None, None)], by_documents=True)


@plant
def near_transaction_unfinished_and_committed_in_time(copy: Copy) -> Expected:
    """The coordinator may have been late."""
    _open_for(copy, 7)
    return passes()


@plant
def near_transaction_unfinished_and_ended_late(copy: Copy) -> Expected:
    with copy.document("run") as run:
        run["transactions_ended"] = {"ok": True, "waited_s": 71.0, "last_seen": "", "open": []}
    return passes()


@plant
def near_transaction_unfinished_with_a_node_down(copy: Copy) -> Expected:
    """A coordinator that is not there cannot end a transaction: a doubt."""
    _recovered(copy, False, "broker 2 is not running", Pending.NODES_DOWN)
    _unended(copy, {"transactional_id": "paid-1", "state": "PrepareCommit", "coordinator": 1})
    return doubtful("not_back", "transactions_late")


@plant
def doubt_transaction_unfinished_unanswered(copy: Copy) -> Expected:
    _unended(copy)
    return doubtful("transactions_late")


@plant
def transaction_unfinished_for_a_group(copy: Copy) -> Expected:
    """Its coordinator waits for a marker that it got, and returns no stable offset."""
    _unstable(copy, ended=True)
    return fails([(Kind.TRANSACTION_UNFINISHED.value, None, None, None)], by_documents=True)


@plant
def near_transaction_unfinished_for_a_group_without_a_coordinator(copy: Copy) -> Expected:
    """Nobody answered, so nothing is known of its offsets."""
    _unstable(copy, ended=True, offset=None)
    return passes()


@plant
def near_transaction_unfinished_for_a_group_of_an_open_one(copy: Copy) -> Expected:
    """A transaction is open, which is said of the transaction only."""
    _unstable(copy, ended=False)
    _unended(copy, {"transactional_id": "paid-1", "state": "PrepareCommit", "coordinator": 2})
    return fails([(Kind.TRANSACTION_UNFINISHED.value, None, None, None)], by_documents=True)


def _unstable(copy: Copy, *, ended: bool, **to: Any) -> None:
    """The coordinator of a group that commits in transactions answers without stable offsets only."""
    with copy.document("cluster") as cluster:
        for row in cluster["snapshots"][-1]["groups"]:
            if row["group"] == "payments":
                row |= {"stable": False, **to}
    with copy.document("run") as run:
        run["transactions_ended"] = {"ok": ended, "waited_s": 1.0, "last_seen": "", "open": []}


def _unended(copy: Copy, *left: dict[str, Any]) -> None:
    with copy.document("run") as run:
        run["transactions_ended"] = {"ok": False, "waited_s": 105.0, "last_seen": "pending", "open": list(left)}


@plant
def group_unsettled(copy: Copy) -> Expected:
    """A member that has left still has a partition for the coordinator, and nobody else gets it."""
    _restless(copy, state="Stable", of_nobody=1)
    return fails([(Kind.GROUP_UNSETTLED.value, None, None, None)], by_documents=True)


@plant
def near_group_unsettled_for_a_while(copy: Copy) -> Expected:
    with copy.document("run") as run:
        run["groups_at_rest"] = {"ok": True, "waited_s": 44.0, "last_seen": "", "unsettled": []}
    return passes()


@plant
def near_group_unsettled_with_a_node_down(copy: Copy) -> Expected:
    _recovered(copy, False, "broker 2 is not running", Pending.NODES_DOWN)
    _restless(copy, state=None, unassigned=3)
    return doubtful("not_back", "unattributed")


@plant
def doubt_group_unsettled_for_its_members(copy: Copy) -> Expected:
    """The coordinator has assigned everything, and a client reports another assignment: whose fault is unknown."""
    _restless(copy, state="Stable", differing=2)
    return doubtful("unattributed")


@plant
def group_unsettled_assigned_twice(copy: Copy) -> Expected:
    """For a moment the coordinator gave a partition to two members; then the group came to rest."""
    look = {"group": "readers", "state": "Reconciling", "assigned_twice": 1, "by_coordinator": True}
    with copy.document("run") as run:
        run["groups_at_rest"] |= {"ok": True, "unsettled": [], "assigned_twice": [look]}
    return fails([(Kind.GROUP_UNSETTLED.value, None, None, None)], by_documents=True)


def _owned_twice(copy: Copy, *, held_s: float) -> None:
    """A member got a partition before the former one gave it up, which had read it for a while."""
    with copy.document("run") as run:
        from_ns = run["started_ns"]
    row = {"group": "readers", "topic": "plain", "partition": 1, "member": "one", "next_member": "two"}
    times = {"held_ns": from_ns - int(held_s * 10**9), "from_ns": from_ns, "until_ns": from_ns + 10**9}
    with copy.document("cluster") as cluster:
        cluster["owned_twice"] = [row | times]


@plant
def group_unsettled_owned_twice(copy: Copy) -> Expected:
    _owned_twice(copy, held_s=4.5)
    return fails([(Kind.GROUP_UNSETTLED.value, None, None, None)], by_documents=True)


@plant
def near_group_unsettled_owned_twice_at_first(copy: Copy) -> Expected:
    """The former member had only just got it, so that its client may not have reported it yet."""
    _owned_twice(copy, held_s=2.0)
    return passes()


def _excluded(copy: Copy, *facts: Row) -> None:
    """A coordinator excluded a static member, as another one with its group.instance.id. facts: of a step."""
    with copy.document("run") as run:
        at_ns = run["started_ns"]
    with copy.document("cluster") as cluster:
        row = {"group": "readers", "member": "grouped", "error": "fenced", "static": True}
        cluster["members_refused"] = [row | {"since_ns": at_ns, "at_ns": at_ns + 10**9}]
    with copy.document("steps") as steps:
        steps[-1]["facts"] += [fact | {"from_ns": at_ns + 1, "to_ns": at_ns + 2} for fact in facts]


def _held(copy: Copy, api: str) -> None:
    """A request that names no group was delivered late."""
    with copy.document("steps") as steps:
        at_ns = steps[0]["started_ns"]
        frame = {"kind": "held_frame", "link": "client > b2", "api": api, "version": 8, "client": "grouped-1"}
        steps[0]["events"].append(frame | {"at_ns": at_ns, "held_ns": at_ns, "released_ns": at_ns})


@plant
def group_unsettled_without_a_static_member(copy: Copy) -> Expected:
    _excluded(copy)
    return fails([(Kind.GROUP_UNSETTLED.value, None, None, None)], by_documents=True)


@plant
def near_group_unsettled_without_a_member_that_steps_replaced(copy: Copy) -> Expected:
    _excluded(copy, {"kind": "client_restarted", "client": "grouped"})
    return passes()


@plant
def near_group_unsettled_while_a_broker_was_frozen(copy: Copy) -> Expected:
    """It may have received the requests of two clients in the wrong order."""
    _excluded(copy, {"kind": "frozen", "nodes": [1]})
    return passes()


def _member_died(copy: Copy, taken_after_s: int, *facts: Row) -> None:
    """A member with a session of 6 s died after all steps; others had its partitions so much later."""
    with copy.document("steps") as steps:
        died_ns = max(step["healed_ns"] or step["ended_ns"] for step in steps) + 10**9
        taken_ns = died_ns + taken_after_s * 10**9
        died = {"kind": "member_died", "group": "readers", "member": "grouped", "at_ns": died_ns, "session_ms": 6000}
        steps[-1]["events"] = [*steps[-1]["events"], died | {"taken_ns": taken_ns, "until_ns": taken_ns + 10**9}]
        meanwhile = {"from_ns": died_ns, "to_ns": died_ns + 10**9}
        steps[-1]["facts"] = [*steps[-1]["facts"], *(fact | meanwhile for fact in facts)]


@plant
def group_unsettled_with_a_dead_member(copy: Copy) -> Expected:
    _member_died(copy, 26)
    return fails([(Kind.GROUP_UNSETTLED.value, None, None, None)], by_documents=True)


@plant
def near_group_unsettled_with_a_member_that_died_just_now(copy: Copy) -> Expected:
    _member_died(copy, 25)
    return passes()


@plant
def near_group_unsettled_with_a_dead_member_and_a_dead_broker(copy: Copy) -> Expected:
    """Its coordinator may have loaded the group again."""
    _member_died(copy, 26, {"kind": "frozen", "nodes": [1]})
    return passes()


@plant
def group_unsettled_while_commits_are_held(copy: Copy) -> Expected:
    """A commit makes nobody a member."""
    _excluded(copy)
    _held(copy, "OffsetCommit")
    return fails([(Kind.GROUP_UNSETTLED.value, None, None, None)], by_documents=True)


@plant
def near_group_unsettled_while_joins_are_held(copy: Copy) -> Expected:
    _excluded(copy)
    _held(copy, "JoinGroup")
    return passes()


@plant
def near_group_unsettled_assigned_twice_by_a_member(copy: Copy) -> Expected:
    """The member that computed the assignment may be wrong, and it is a client."""
    with copy.document("run") as run:
        look = {"group": "readers", "state": "Stable", "assigned_twice": 1}
        run["groups_at_rest"] |= {"ok": True, "unsettled": [], "assigned_twice": [look]}
    return passes()


def _restless(copy: Copy, **look: Any) -> None:
    with copy.document("run") as run:
        unsettled = [{"group": "readers", **look}]
        run["groups_at_rest"] = {"ok": False, "waited_s": 90.0, "last_seen": "pending", "unsettled": unsettled}


@plant
def unserved(copy: Copy) -> Expected:
    """The leader answers an error at an offset of its log for a minute, and both drains end there."""
    _refused(copy, "UNKNOWN_SERVER_ERROR", 1)
    return _ended_early([(Kind.UNSERVED.value, "plain", 1, None)])


@plant
def unserved_below_the_high_watermark(copy: Copy) -> Expected:
    """Only the sentinel is behind the end of the read, and the leader says that it is committed."""
    _refused(copy, None, 0, above=1)
    return fails([(Kind.UNSERVED.value, "plain", 1, None)], doubts=["not_reached"], by_documents=True)


def _read_refused(copy: Copy, error: str | None) -> None:
    """A leader gives nothing to a read in the middle of its log, and says that it has records."""
    first, *_ = copy.original.rows("probes", topic="plain", partition=1)
    end = _offset_from_end(copy, 0)
    probe = {name: first[name] for name in ("topic", "topic_id", "partition", "reader")}
    sizes = {"min_bytes": 1, "max_bytes": 1000}
    with copy.document("cluster") as cluster:
        cluster["reads_refused"] = [probe | sizes | {"refused": _answered(end - 5, error, end)}]


@plant
def unserved_from_an_offset(copy: Copy) -> Expected:
    _read_refused(copy, None)
    return fails([(Kind.UNSERVED.value, "plain", 1, None)], by_documents=True)


@plant
def near_unserved_from_an_offset_that_is_deleted(copy: Copy) -> Expected:
    _read_refused(copy, "OFFSET_OUT_OF_RANGE")
    return passes()


@plant
def near_unserved_and_nothing_acknowledged_there(copy: Copy) -> Expected:
    """Only the sentinel, of which nothing is promised, is behind the end of the read, which is the high watermark."""
    _refused(copy, None, 0, above=0)
    return doubtful("not_reached")


@plant
def near_unserved_with_a_node_down(copy: Copy) -> Expected:
    _recovered(copy, False, "broker 2 is not running", Pending.NODES_DOWN)
    _refused(copy, "NOT_LEADER_OR_FOLLOWER", 30)
    return doubtful("not_back", "not_reached", "not_read")


def _refused(copy: Copy, error: str | None, count: int, above: int | None = None) -> None:
    """above: how far above the offset the leader says that its high watermark is; None: it does not say."""
    offset = _offset_from_end(copy, count)
    for row in records(copy.original, "plain", 1)[-count:] if count else ():
        copy.drop("observations", kind="drain", **row.at)
    refused = _answered(offset, error, -1 if above is None else offset + above)
    with copy.document("reads") as reads:
        for read in reads:
            if (read["kind"], read["topic"], read["partition"]) == ("drain", "plain", 1):
                read.update(position=offset, reached=False, stuck_reason="after 60 s", refused=refused)


def _answered(offset: int, error: str | None, high_watermark: int) -> Row:
    """What a broker answered for a minute."""
    times = {"first_ns": 10**18, "last_ns": 10**18 + 60 * 10**9}
    return {"offset": offset, "error": error, "high_watermark": high_watermark} | times


@plant
def unserved_by_a_copy_in_sync(copy: Copy) -> Expected:
    """A follower answers an error at the last record of its log for a minute, and its leader served that."""
    offset = _offset_from_end(copy, 1)
    copy.drop("observations", reader=_copy_refused(copy, offset), topic="plain", partition=1, offset=offset)
    return fails([(Kind.UNSERVED.value, "plain", 1, None)], doubts=["not_reached"], by_documents=True)


@plant
def near_unserved_by_a_copy_behind_its_log(copy: Copy) -> Expected:
    """The follower has none of the records that it was asked for."""
    (state,) = (
        one
        for one in copy.original.documents["cluster"]["snapshots"][-1]["partitions"]
        if (one["topic"], one["partition"]) == ("plain", 1)
    )
    _copy_refused(copy, max(log["log_end"] for log in state["logs"]))
    return doubtful("not_reached")


def _copy_refused(copy: Copy, offset: int) -> str:
    """Returns the name of the reader."""
    refused = _answered(offset, "OFFSET_OUT_OF_RANGE", -1)
    with copy.document("reads") as reads:
        read = next(
            one
            for one in reads
            if (one["kind"], one["topic"], one["partition"], one["isolation"])
            == ("replica", "plain", 1, "read_committed")
        )
        read.update(position=offset, reached=False, stuck_reason="after 60 s", refused=refused)
    return str(read["reader"])


def _offset_from_end(copy: Copy, count: int) -> int:
    rows = records(copy.original, "plain", 1)
    return rows[-count].offset if count else rows[-1].offset + 1


def _ended_early(broken: list[Broken]) -> Expected:
    return fails(broken, doubts=["not_reached", "not_read"], by_documents=True)


@plant
def unavailable(copy: Copy) -> Expected:
    """Its first record waited 40 s, while the leader served another partition with the same in-sync replicas."""
    _no_acks(copy, isr=[1, 2])
    return fails([(Kind.UNAVAILABLE.value, "plain", 0, None)], by_documents=True)


@plant
def near_unavailable_with_too_few_in_sync(copy: Copy) -> Expected:
    """One of two required replicas is in sync: the leader must reject writes."""
    _no_acks(copy, isr=[1])
    return doubtful("no_acks")


def _no_acks(copy: Copy, isr: list[int]) -> None:
    first = min(
        copy.original.rows("ledger", topic="plain", partition=0, outcome="acked"), key=itemgetter("returned_ns")
    )
    since_ns = first["returned_ns"] - 40 * 10**9
    copy.change("ledger", {"called_ns": since_ns}, stream=first["stream"], seq=first["seq"])
    reported = {
        "kind": "no_acks",
        "topic": "plain",
        "partition": 0,
        "since_ns": since_ns,
        "at_ns": first["returned_ns"],
    }
    with copy.document("steps") as steps:
        steps[-1]["events"].append({**reported, "leader": 1, "isr": isr, "beside": {"plain/1": 500}})


def _recovered(copy: Copy, ok: bool, last_seen: str, pending: Pending | None = None) -> None:
    with copy.document("run") as run:
        run["recovered"] = {"ok": ok, "waited_s": 119.0, "last_seen": last_seen, "pending": pending}


# --- helpers ---


def _follower(copy: Copy, record: Record) -> int:
    rows: list[dict[str, Any]] = copy.original.documents["reads"]
    replicas = {
        r["replica"]
        for r in rows
        if r["kind"] == "replica" and (r["topic"], r["partition"]) == (record.topic, record.partition)
    }
    return int(min(replicas))


def _start(original: Original, topic: str) -> int:
    return int(last_partition(original.documents["cluster"], topic, 0)["logs"][0]["log_start"])


def _ledger(copy: Copy, topic: str) -> list[Record]:
    rows = copy.original.rows("ledger", topic=topic, partition=0, outcome="acked")
    return [Record(**{name: row[name] for name in Record.__dataclass_fields__}) for row in rows]


def _txns(copy: Copy, outcome: str) -> set[int]:
    return {row["txn_id"] for row in copy.original.rows("transactions", outcome=outcome)}


@plant
def tier_lag(copy: Copy) -> Expected:
    """The leader copied nothing while the run waited for the tier to come to rest."""
    place = _behind_in_the_tier(copy, still_s=59.8)
    return fails([(Kind.TIER_LAG.value, *place, 1_000)], doubts=["tier_unfilled"], by_documents=True)


@plant
def near_tier_lag_with_progress(copy: Copy) -> Expected:
    """The tier was filled too slowly for the wait, which is a doubt."""
    _behind_in_the_tier(copy, still_s=None)
    return doubtful("tier_unfilled")


@plant
def near_tier_lag_with_a_node_down(copy: Copy) -> Expected:
    _recovered(copy, False, "broker 2 is not running", Pending.NODES_DOWN)
    _behind_in_the_tier(copy, still_s=59.8)
    return doubtful("not_back", "tier_unfilled")


def _uncompacted(copy: Copy, *lags: dict[str, Any]) -> None:
    with copy.document("run") as run:
        run["cleaners_at_rest"] = {"ok": False, "waited_s": 45.0, "last_seen": "pending", "behind": [*lags]}


def _cleaner_lag(copy: Copy) -> dict[str, Any]:
    row = copy.original.rows("batches")[0]
    place = {name: row[name] for name in ("topic", "topic_id", "partition", "broker")}
    return place | {"cleaned_end": 0, "closed_end": 100, "still_s": 44.0}


@plant
def cleaner_lag(copy: Copy) -> Expected:
    lag = _cleaner_lag(copy)
    _uncompacted(copy, lag)
    broken = (Kind.CLEANER_LAG.value, lag["topic"], lag["partition"], None)
    return fails([broken], doubts=["uncompacted"], by_documents=True)


@plant
def near_cleaner_lag_with_progress(copy: Copy) -> Expected:
    """The cleaner was too slow for the wait, which is a doubt."""
    _uncompacted(copy)
    return doubtful("uncompacted")


@plant
def near_cleaner_lag_with_a_node_down(copy: Copy) -> Expected:
    _recovered(copy, False, "broker 2 is not running", Pending.NODES_DOWN)
    _uncompacted(copy, _cleaner_lag(copy))
    return doubtful("not_back", "uncompacted")


def _behind_in_the_tier(copy: Copy, still_s: float | None) -> tuple[str, int]:
    """The wait for the tier ended in vain; with `still_s`, a leader copied nothing for that long."""
    row = copy.original.rows("tier_replicas")[0]
    place = {"topic": row["topic"], "topic_id": row["topic_id"], "partition": row["partition"]}
    lag = place | {"leader": row["broker"], "tiered_end": 1_000, "closed_end": 1_001, "still_s": still_s}
    with copy.document("run") as run:
        behind = [] if still_s is None else [lag]
        run["tier_at_rest"] = {"ok": False, "waited_s": 60.0, "last_seen": "pending", "behind": behind}
    return row["topic"], row["partition"]
