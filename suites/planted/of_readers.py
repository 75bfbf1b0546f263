"""Plants in what single readers and replicas received, each with its near miss."""

from __future__ import annotations

from harness.model.finding import Kind
from harness.model.recorded import PREVIOUS
from suites.planted.copies import Copy, Row
from suites.planted.expected import Expected, Record, doubtful, fails, of, passes
from suites.planted.of_coordinators import PAYMENTS, states_of
from suites.planted.plants import (
    AFTER_HEALING,
    COMMITTED,
    UNCOMMITTED,
    elect_outsider,
    forget,
    last_partition,
    middle,
    partition_added,
    plant,
    records,
    transaction,
)

DRAIN = "leader-committed"


def _rows_of(copy: Copy, reader: str, topic: str = "plain", partition: int = 0) -> list[Row]:
    return copy.original.rows("observations", reader=reader, topic=topic, partition=partition)


def _unanswered(copy: Copy, record: Record) -> None:
    copy.change("ledger", {"outcome": "unknown", "offset": None}, **record.sent)


# --- skipped_read ---


@plant
def skipped_read_by_an_assigned_reader(copy: Copy) -> Expected:
    (skipped,) = middle(copy.original)
    copy.drop("observations", reader="committed", **skipped.at)
    return fails(of(Kind.SKIPPED_READ, skipped))


@plant
def skipped_read_by_a_group(copy: Copy) -> Expected:
    (skipped,) = middle(copy.original)
    copy.drop("observations", reader="grouped", **skipped.at)
    return fails(of(Kind.SKIPPED_READ, skipped))


@plant
def skipped_read_by_a_group_between_two_sessions(copy: Copy) -> Expected:
    """A group continues where it had committed, so a new session is no permission to skip."""
    skipped = middle(copy.original, count=5)
    _new_session_from(copy, "grouped", skipped[-1].offset + 1)
    for record in skipped:
        copy.drop("observations", reader="grouped", **record.at)
    return fails(of(Kind.SKIPPED_READ, *skipped))


@plant
def skipped_read_of_an_added_partition(copy: Copy) -> Expected:
    """With auto.offset.reset=earliest a group that has no offset there must begin at its first record."""
    return fails(of(Kind.SKIPPED_READ, *_began_behind(copy, "earliest")))


@plant
def near_skipped_read_of_an_added_partition(copy: Copy) -> Expected:
    """auto.offset.reset=latest permits it."""
    return passes(excused=of(Kind.SKIPPED_READ, *_began_behind(copy, "latest")))


def _began_behind(copy: Copy, reset: str) -> list[Record]:
    """The group begins behind these records of a partition that a step added."""
    place = {"topic": "plain", "partition": 1}
    *skipped, first = records(copy.original, "plain", 1)[:6]
    for record in skipped:
        copy.drop("observations", reader="grouped", **record.at)
    partition_added(copy, "plain", 1, step=0)
    done_ns = min(row["returned_ns"] for row in copy.original.rows("offset_commits", group="readers", **place))
    with copy.document("run") as run, copy.document("cluster") as cluster:
        run["contract"]["readers"]["grouped"]["reset"] = reset
        row = {"group": "readers", "reader": "grouped", **place, "committed": None, "began": first.offset}
        cluster["group_resets"] = [row | {"at_ns": done_ns - 1}]
    return skipped


@plant
def skipped_read_of_an_aborted_record(copy: Copy) -> Expected:
    """A read_uncommitted reader must receive aborted records, too."""
    record = transaction(copy.original, "aborted")[1][1]
    copy.drop("observations", reader="uncommitted", **record.at)
    return fails(of(Kind.SKIPPED_READ, record))


@plant
def skipped_read_by_the_uncommitted_drain(copy: Copy) -> Expected:
    """read_committed returns it at its offset, so it exists."""
    (skipped,) = middle(copy.original)
    forget(copy, skipped, kinds=["drain"], isolation=UNCOMMITTED)
    return fails(of(Kind.SKIPPED_READ, skipped))


@plant
def skipped_read_by_one_of_two_drains(copy: Copy) -> Expected:
    """One read of the leader after healing lacks the last record, which the drain has."""
    rows = _second_drain(copy)
    last = max(row["offset"] for row in rows)
    copy.add("observations", [row for row in rows if row["offset"] < last])
    return fails([(Kind.SKIPPED_READ.value, "plain", 0, last)])


@plant
def near_skipped_read_at_the_end(copy: Copy) -> Expected:
    """The load stopped, and so did the reader: after its last record nothing is due."""
    _short_of_the_end(copy, "committed")
    with copy.document("run") as run:
        run["readers_waited"] = None
    return passes()


@plant
def doubt_reader_short_of_the_end(copy: Copy) -> Expected:
    """The run waited for the reader before it was stopped."""
    _short_of_the_end(copy, "committed")
    return doubtful("reader_behind")


@plant
def doubt_group_short_of_the_end(copy: Copy) -> Expected:
    _short_of_the_end(copy, "grouped")
    return doubtful("reader_behind")


def _short_of_the_end(copy: Copy, reader: str) -> None:
    last = [row["offset"] for row in _rows_of(copy, reader)][-3:]
    copy.drop("observations", reader=reader, topic="plain", partition=0, offset=last)


@plant
def skipped_read_by_an_assigned_reader_between_two_sessions(copy: Copy) -> Expected:
    """A reader without a group goes back to the log start whenever it has lost its position."""
    return fails(of(Kind.SKIPPED_READ, *_sought(copy)))


@plant
def near_skipped_read_between_two_sessions(copy: Copy) -> Expected:
    """A reader that seeks may skip between its sessions."""
    _sought(copy)
    _may_seek(copy)
    return passes()


@plant
def skipped_read_before_the_first_record(copy: Copy) -> Expected:
    return fails(of(Kind.SKIPPED_READ, *_begun_late(copy)))


@plant
def near_skipped_read_before_the_first_record(copy: Copy) -> Expected:
    """The reader seeks before it reads."""
    _begun_late(copy)
    _may_seek(copy)
    return passes()


def _sought(copy: Copy) -> list[Record]:
    skipped = middle(copy.original, count=5)
    _new_session_from(copy, "committed", skipped[-1].offset + 1)
    for record in skipped:
        copy.drop("observations", reader="committed", **record.at)
    return skipped


def _begun_late(copy: Copy) -> list[Record]:
    """A reader received nothing of what stands first in a log."""
    seen = copy.original.rows("observations", reader="committed", topic="plain", partition=0)
    first = seen[3]["offset"]
    copy.drop("observations", reader="committed", topic="plain", partition=0, offset=set(range(first)))
    copy.change("observations", {"previous_offset": None}, reader="committed", topic="plain", partition=0, offset=first)
    return [record for record in records(copy.original, "plain", 0) if record.offset < first]


def _may_seek(copy: Copy) -> None:
    with copy.document("run") as run:
        run["begin_at_start"] = False


@plant
def near_skipped_read_of_what_is_aborted(copy: Copy) -> Expected:
    """Offsets of aborted records and markers are holes for read_committed; here one more transaction is aborted."""
    parts = transaction(copy.original, "committed")
    gone = [record for part in parts.values() for record in part]
    copy.change("transactions", {"outcome": "aborted"}, txn_id=gone[0].txn_id)
    (state,) = states_of(copy, "transaction", PAYMENTS)
    state |= {name: state[name] - 1 for name in ("commits", "commit_records")}
    forget(copy, *gone, isolation=COMMITTED)
    return passes()


@plant
def near_skipped_read_given_twice(copy: Copy) -> Expected:
    """A new session that goes back receives records again."""
    again = _rows_of(copy, "committed")[10:50]
    copy.add("observations", [row | {"session": row["session"] + 1000} for row in again])
    return passes()


def _second_drain(copy: Copy) -> list[Row]:
    """One more read of plain/0 as read_committed, before that of the drain: its observations, which are to be added."""
    with copy.document("reads") as reads:
        wanted = {"kind": "drain", "isolation": COMMITTED, "topic": "plain", "partition": 0}
        at, read = next((n, read) for n, read in enumerate(reads) if wanted.items() <= read.items())
        reads.insert(at, read | {"reader": "first"})
    return [row | {"reader": "first"} for row in copy.original.rows("observations", **wanted)]


def _new_session_from(copy: Copy, reader: str, offset: int) -> None:
    later = {row["offset"] for row in _rows_of(copy, reader) if row["offset"] >= offset}
    session = 1 + max(row["session"] for row in _rows_of(copy, reader))
    copy.change("observations", {"session": session}, reader=reader, topic="plain", partition=0, offset=later)


# --- reread ---


def _again(copy: Copy, given: list[Record], **changes: object) -> list[Row]:
    """The assigned reader receives these records of plain/0 once more, in one poll after all others."""
    rows = _rows_of(copy, "committed")
    last = max(rows, key=lambda row: (row["session"], row["poll"], row["offset"]))
    there = {row["offset"]: row for row in rows}
    previous = [last["offset"], *(record.offset for record in given)]
    moved = {"poll": last["poll"] + 1, "session": last["session"], **changes}
    return [
        there[record.offset] | {"previous_offset": before} | moved
        for record, before in zip(given, previous, strict=False)
    ]


@plant
def reread_of_a_batch(copy: Copy) -> Expected:
    """The position of a reader went back within its session."""
    batch = middle(copy.original, count=5)
    copy.add("observations", _again(copy, batch))
    return fails(of(Kind.REREAD, *batch))


@plant
def reread_by_the_drain(copy: Copy) -> Expected:
    """The answer to one fetch has a batch twice."""
    batch = middle(copy.original, count=3)
    rows = [row for record in batch for row in copy.original.rows("observations", reader=DRAIN, **record.at)]
    copy.add("observations", rows)
    return fails(of(Kind.REREAD, *batch))


@plant
def reread_of_what_was_missed(copy: Copy) -> Expected:
    """The reader received a record after the next one."""
    before, missed, after, last = middle(copy.original, count=4)
    for record, previous in ((missed, after), (after, before), (last, missed)):
        copy.change("observations", {"previous_offset": previous.offset}, reader="committed", **record.at)
    return fails(of(Kind.REREAD, missed))


@plant
def near_reread_in_a_new_session(copy: Copy) -> Expected:
    """The reader was moved back, as a new session."""
    batch = middle(copy.original, count=5)
    session = copy.next("observations", "session")
    again = _again(copy, batch, session=session)
    copy.add("observations", [again[0] | {"previous_offset": None}, *again[1:]])
    return passes()


@plant
def near_reread_without_an_order_in_a_poll(copy: Copy) -> Expected:
    """A client of which only the polls are known."""
    copy.change("observations", {"previous_offset": None}, reader="committed")
    with copy.document("run") as run:
        run["recorded"].remove(PREVIOUS)
    return passes()


# --- vanished ---


@plant
def vanished_of_unknown_outcome(copy: Copy) -> Expected:
    """Never acknowledged, but one reader received it."""
    (gone,) = middle(copy.original)
    _unanswered(copy, gone)
    forget(copy, gone, kinds=AFTER_HEALING)
    copy.drop("observations", reader={"committed", "uncommitted"}, **gone.at)
    return fails(of(Kind.VANISHED, gone))


@plant
def vanished_above_every_log(copy: Copy) -> Expected:
    """A reader received an unanswered send at an offset above every log."""
    (like,) = middle(copy.original)
    sent = copy.original.rows("ledger", stream=like.stream)
    with copy.document("cluster") as cluster:
        above = last_partition(cluster, "plain", 0)["high_watermark"] + 3
    row = _rows_of(copy, "uncommitted")[-1]
    # After all samples of brokers: one of a leader would show that it was above the high watermark.
    row |= {"poll": row["poll"] + 1, "given_ns": copy.next("positions", "at_ns")}
    seq = max(row["seq"] for row in sent) + 1
    copy.add("observations", [row | {"offset": above, "stream": like.stream, "seq": seq}])
    # Between the reader's last record and this one only what the drain returns is due.
    between = [r for r in records(copy.original, "plain", 0) if row["offset"] < r.offset]
    copy.add("observations", [row | {"offset": r.offset, **r.sent} for r in between])
    return fails([(Kind.VANISHED.value, "plain", 0, above)])


@plant
def vanished_at_a_marker(copy: Copy) -> Expected:
    """A live reader received a record where the log has a transaction marker."""
    marker = transaction(copy.original, "committed")[0][-1].offset + 1
    assert copy.original.rows("batches", topic="paid", partition=0, base_offset=marker, control="commit")
    sent = transaction(copy.original, "committed")[0][-1]
    seq = max(row["seq"] for row in copy.original.rows("ledger", stream=sent.stream)) + 1
    row = next(r for r in _rows_of(copy, "committed", "paid") if r["offset"] == sent.offset)
    copy.add("observations", [row | {"offset": marker, "seq": seq}])
    return fails([(Kind.VANISHED.value, "paid", 0, marker)])


@plant
def vanished_and_written_again(copy: Copy) -> Expected:
    """A reader received a record in a batch of an older leader than the one that wrote the current batch."""
    (seen,) = middle(copy.original)
    (row,) = copy.original.rows("observations", reader="committed", **seen.at)
    copy.change("observations", {"leader_epoch": row["leader_epoch"] + 1}, kind=set(AFTER_HEALING), **seen.at)
    copy.drop("epoch_ends", topic=seen.topic, partition=seen.partition)  # one record alone does not make an epoch
    return fails(of(Kind.VANISHED, seen), doubts=["evidence_differs"])  # of the lookups that are dropped, too


@plant
def near_vanished_without_an_epoch(copy: Copy) -> Expected:
    """A client that does not report the leader epochs of batches."""
    (seen,) = middle(copy.original)
    copy.change("observations", {"leader_epoch": None}, kind="live", **seen.at)
    return passes()


@plant
def near_vanished_below_the_log_start(copy: Copy) -> Expected:
    """Retention deleted a record that a live reader had received, whatever the outcome of its send."""
    (first,) = copy.original.rows("ledger", topic="sized", offset=0)
    assert copy.original.rows("observations", topic="sized", reader="committed", offset=0)
    copy.change("ledger", {"outcome": "unknown", "offset": None}, stream=first["stream"], seq=first["seq"])
    return passes()


@plant
def near_vanished_unknown_and_unseen(copy: Copy) -> Expected:
    """A record of unknown outcome that a reader could have received, and did not."""
    gone = records(copy.original, "plain", 0)[-2]
    _unanswered(copy, gone)
    copy.drop("observations", **gone.at)
    return passes()


@plant
def vanished_between_two_drains(copy: Copy) -> Expected:
    """One of two reads of the leader after healing received a record of unknown outcome, and the drain did not."""
    (gone,) = middle(copy.original)
    rows = _second_drain(copy)
    _unanswered(copy, gone)
    copy.drop("observations", **gone.at)
    copy.add("observations", rows)
    return fails(of(Kind.VANISHED, gone))


# --- conflicting ---


@plant
def conflicting_with_a_live_reader(copy: Copy) -> Expected:
    one, other = middle(copy.original, count=2)
    copy.change("observations", other.sent, reader="committed", **one.at)
    return fails(of(Kind.CONFLICTING, one))


@plant
def conflicting_with_an_earlier_unanswered_record(copy: Copy) -> Expected:
    """Another stream's record of unknown outcome was at that offset when the reader received it."""
    (there,) = middle(copy.original)
    other = next(r for r in records(copy.original, "plain", 0) if r.stream != there.stream)
    seq = max(row["seq"] for row in copy.original.rows("ledger", stream=other.stream)) + 1
    copy.change("observations", {"stream": other.stream, "seq": seq}, reader="uncommitted", **there.at)
    return fails(of(Kind.CONFLICTING, there))


@plant
def conflicting_within_one_read(copy: Copy) -> Expected:
    """The read of one replica returns two records at one offset; nothing is known of the other one."""
    (there,) = middle(copy.original)
    other = next(r for r in records(copy.original, "plain", 0) if r.stream != there.stream)
    seq = max(row["seq"] for row in copy.original.rows("ledger", stream=other.stream)) + 1
    row = copy.original.rows("observations", kind="replica", isolation=COMMITTED, **there.at)[0]
    copy.add("observations", [row | {"stream": other.stream, "seq": seq}])
    return fails(of(Kind.CONFLICTING, there))


@plant
def conflicting_between_two_drains(copy: Copy) -> Expected:
    """One of two reads of the leader after healing returns another record of unknown outcome."""
    (there,) = middle(copy.original)
    other = next(r for r in records(copy.original, "plain", 0) if r.stream != there.stream)
    seq = max(row["seq"] for row in copy.original.rows("ledger", stream=other.stream)) + 1
    rows = _second_drain(copy)
    changed = {"stream": other.stream, "seq": seq}
    copy.add("observations", [row | changed if row["offset"] == there.offset else row for row in rows])
    return fails(of(Kind.CONFLICTING, there))


@plant
def unlisted_second_drain(copy: Copy) -> Expected:
    """A second read of the leader after healing, whose start and end are unknown."""
    rows = copy.original.rows("observations", reader=DRAIN, topic="plain", partition=0)
    copy.add("observations", [row | {"reader": "first"} for row in rows])
    return doubtful("unlisted_read")


@plant
def near_conflicting_two_equal_drains(copy: Copy) -> Expected:
    copy.add("observations", _second_drain(copy))
    return passes()


@plant
def near_conflicting_after_a_permitted_election(copy: Copy) -> Expected:
    """Records above the surviving log end were replaced in an unclean election that the contract permits."""
    one, other = middle(copy.original, count=2)
    copy.change("observations", other.sent, reader="committed", **one.at)
    elect_uncleanly(copy, one, permitted=True)
    return passes(excused=of(Kind.CONFLICTING, one))


def elect_uncleanly(copy: Copy, first: Record, *, permitted: bool) -> None:
    """An unclean election at the end of the first step, with the log surviving below `first`."""
    # Sends that the election may lose come before the step; here it is placed after all of them.
    at_ns, epoch = max(row["returned_ns"] for row in copy.original.rows("ledger")) + 1, 99
    leader = elect_outsider(copy, first.topic, first.partition, at_ns=at_ns, epoch=epoch)
    with copy.document("run") as run:
        run["floors"]["during"] = 0  # nothing is sent any more at that time
    with copy.document("steps") as steps:
        step = steps[0]
        step["started_ns"] = step["ended_ns"] = step["healed_ns"] = at_ns
        step["events"].append(
            {
                "kind": "unclean_election",
                "topic": first.topic,
                "topic_id": first.topic_id,
                "partition": first.partition,
                "at_ns": at_ns,
                "leader": leader,
                "leader_epoch": epoch,
                "log_end": first.offset,
            }
        )
    with copy.document("run") as run:
        run["contract"]["topics"][first.topic]["unclean_election"] = permitted


@plant
def lost_in_an_election_that_is_not_permitted(copy: Copy) -> Expected:
    gone = middle(copy.original, count=3)
    forget(copy, *gone)
    elect_uncleanly(copy, gone[0], permitted=False)
    return fails(of(Kind.LOST, *gone), also=[(Kind.UNCLEAN_ELECTION.value, "plain", 0, None)])


@plant
def lost_below_a_permitted_election(copy: Copy) -> Expected:
    """The log survived up to the second record: losses are excused only from there on."""
    gone = middle(copy.original, count=3)
    forget(copy, *gone)
    elect_uncleanly(copy, gone[1], permitted=True)
    expected = fails(of(Kind.LOST, gone[0]))
    return expected.with_excused(of(Kind.LOST, *gone[1:]))


@plant
def near_lost_in_a_permitted_election(copy: Copy) -> Expected:
    gone = middle(copy.original, count=3)
    forget(copy, *gone)
    elect_uncleanly(copy, gone[0], permitted=True)
    return passes(excused=of(Kind.LOST, *gone))
