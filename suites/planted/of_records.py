"""Plants in what the read after healing shows of single records, each beside its near miss."""

from __future__ import annotations

from typing import Any

from harness.model.finding import Kind
from harness.model.outcome import JAVA_CLIENTS
from harness.model.verdict import Status
from suites.planted.copies import Copy
from suites.planted.expected import Expected, Record, doubtful, fails, of, passes
from suites.planted.plants import (
    AFTERWARDS,
    COMMITTED,
    EVERYBODY,
    append,
    border,
    forget,
    last_partition,
    middle,
    of_its_own,
    plant,
    records,
)

UNANSWERED = {"outcome": "unknown", "offset": None, "error": "_MSG_TIMED_OUT"}


@plant
def unchanged(copy: Copy) -> Expected:
    return passes()


# --- lost ---


@plant
def lost_from_both_drains(copy: Copy) -> Expected:
    """Followers and live readers still show it: that the leader does not is one finding, not four."""
    (gone,) = middle(copy.original)
    forget(copy, gone, kinds=["drain"])
    return fails(of(Kind.LOST, gone))


@plant
def lost_from_every_copy(copy: Copy) -> Expected:
    (gone,) = middle(copy.original)
    forget(copy, gone)
    return fails(of(Kind.LOST, gone))


@plant
def lost_run_of_three(copy: Copy) -> Expected:
    gone = middle(copy.original, count=3)
    forget(copy, *gone)
    return fails(of(Kind.LOST, *gone))


@plant
def lost_to_read_committed_only(copy: Copy) -> Expected:
    (gone,) = middle(copy.original)
    forget(copy, gone, kinds=["drain"], isolation=COMMITTED)
    return fails(of(Kind.LOST, gone))


@plant
def lost_that_was_acked_without_an_offset(copy: Copy) -> Expected:
    (gone,) = middle(copy.original)
    copy.change("ledger", {"offset": None}, **gone.sent)
    forget(copy, gone)
    return fails([(Kind.LOST.value, "plain", 0, None)])


@plant
def lost_first_record_of_a_log(copy: Copy) -> Expected:
    first = records(copy.original, "plain", 1)[0]
    forget(copy, first)
    return fails(of(Kind.LOST, first))


@plant
def lost_above_every_log_end(copy: Copy) -> Expected:
    """Nothing but the log ends: brokers, asked after the read, say that acked offsets lie above every log."""
    gone = _above_every_log_end(copy)
    return fails(of(Kind.LOST, *gone))


@plant
def lost_above_every_log_end_and_unread(copy: Copy) -> Expected:
    gone = _above_every_log_end(copy)
    for record in gone:
        copy.drop("observations", **record.at)
    return fails(of(Kind.LOST, *gone))


def _above_every_log_end(copy: Copy) -> list[Record]:
    gone = records(copy.original, "plain", 1)[-3:]
    with copy.document("cluster") as cluster:
        for log in last_partition(cluster, "plain", 1)["logs"]:
            log["log_end"] = gone[0].offset
    return gone


@plant
def near_lost_log_end_of_one_replica(copy: Copy) -> Expected:
    """One replica behind by its own word, and its copy shows everything: it was asked before it had caught up."""
    with copy.document("cluster") as cluster:
        last_partition(cluster, "plain", 1)["logs"][-1]["log_end"] -= 1
    return passes()


@plant
def near_lost_unknown_and_absent(copy: Copy) -> Expected:
    (gone,) = middle(copy.original)
    copy.change("ledger", UNANSWERED, **gone.sent)
    forget(copy, gone)
    return passes()


@plant
def near_lost_unknown_and_there(copy: Copy) -> Expected:
    (there,) = middle(copy.original)
    copy.change("ledger", UNANSWERED, **there.sent)
    return passes()


@plant
def near_lost_acked_without_an_offset(copy: Copy) -> Expected:
    (there,) = middle(copy.original)
    copy.change("ledger", {"offset": None}, **there.sent)
    return passes()


@plant
def doubt_reserved_and_absent(copy: Copy) -> Expected:
    """The ledger of a run that came to its end has a row for every send before the last one of a stream."""
    (gone,) = middle(copy.original)
    copy.drop("ledger", **gone.sent)
    forget(copy, gone)
    return doubtful("ledger_gap")


# --- corrupt ---


@plant
def corrupt_in_both_drains(copy: Copy) -> Expected:
    (bad,) = middle(copy.original)
    copy.change("observations", {"intact": False}, kind="drain", **bad.at)
    return fails(of(Kind.CORRUPT, bad))


@plant
def corrupt_beyond_decoding(copy: Copy) -> Expected:
    """Nobody can say which record it is; the ledger can say which stood there."""
    (bad,) = middle(copy.original)
    copy.change("observations", {"intact": False, "stream": -1, "seq": -1}, kind=set(AFTERWARDS), **bad.at)
    return fails(of(Kind.CORRUPT, bad))


@plant
def corrupt_on_one_replica(copy: Copy) -> Expected:
    (bad,) = middle(copy.original)
    copy.change("observations", {"intact": False}, kind="replica", replica=3, **bad.at)
    return fails(of(Kind.CORRUPT, bad))


@plant
def corrupt_for_one_live_reader(copy: Copy) -> Expected:
    (bad,) = middle(copy.original)
    copy.change("observations", {"intact": False}, reader="grouped", **bad.at)
    return fails(of(Kind.CORRUPT, bad))


# --- reordered ---


@plant
def reordered_for_everybody(copy: Copy) -> Expected:
    first, second = middle(copy.original, count=2)
    _exchange(copy, first, second, EVERYBODY)
    return fails(of(Kind.REORDERED, second.moved(first.offset)), wrong_ack_offset=2)


@plant
def reordered_in_the_drains(copy: Copy) -> Expected:
    """By necessity live readers and followers show something else at both offsets."""
    first, second = middle(copy.original, count=2)
    _exchange(copy, first, second, ["drain"])
    return fails(
        of(Kind.REORDERED, second.moved(first.offset)), of(Kind.CONFLICTING, first, second), wrong_ack_offset=2
    )


@plant
def near_reordered_two_streams(copy: Copy) -> Expected:
    """There is no order between streams. That each stands where the other was acked is for the note to say."""
    first, second = border(copy.original)
    _exchange(copy, first, second, EVERYBODY)
    return passes(wrong_ack_offset=2)


def _exchange(copy: Copy, first: Record, second: Record, kinds: Any) -> None:
    """Each stands where the other stood. One that is moved away for a moment must not be taken for the other."""
    aside = {"stream": -2, "seq": -2}
    one, other = (of_its_own(copy.original, record) for record in (first, second))
    copy.change("observations", aside, kind=set(kinds), **first.at, **first.sent)
    copy.change("observations", one, kind=set(kinds), **second.at, **second.sent)
    copy.change("observations", other, kind=set(kinds), **first.at, **aside)


# --- duplicated ---


@plant
def duplicated_by_the_broker(copy: Copy) -> Expected:
    """Both batches carry one producer id and epoch: the broker took a repetition for something new."""
    (record,) = middle(copy.original)
    return fails(of(Kind.DUPLICATED, append(copy, record)))


@plant
def duplicated_without_batches(copy: Copy) -> Expected:
    """Nobody could read the disks, so nothing explains it."""
    (record,) = middle(copy.original)
    new = append(copy, record)
    copy.drop("batches")
    with copy.document("run") as run:
        run["capabilities"].remove("disk.read")
    return fails(of(Kind.DUPLICATED, new), doubts=["unjudged"])


@plant
def near_duplicated_by_the_client(copy: Copy) -> Expected:
    """A higher producer epoch: no broker can tell that it is a repetition."""
    (record,) = middle(copy.original)
    return passes(explained=of(Kind.DUPLICATED, append(copy, record, epoch_higher_by=1)))


@plant
def duplicated_by_the_release_s_own_client(copy: Copy) -> Expected:
    """A higher producer epoch excuses librdkafka alone."""
    (record,) = middle(copy.original)
    _by_own_client(copy, record)
    return fails(of(Kind.DUPLICATED, append(copy, record, epoch_higher_by=1)))


@plant
def near_duplicated_without_idempotence(copy: Copy) -> Expected:
    (record,) = middle(copy.original)
    with copy.document("run") as run:
        for producer in run["contract"]["producers"].values():
            producer["idempotent"] = producer["transactional"]
    # By the clients' own reservations they were: so the excuse holds, and is no reason for trust.
    excused = frozenset(of(Kind.DUPLICATED, append(copy, record)))
    return Expected(status=Status.INCONCLUSIVE, excused=excused, doubts=frozenset({"contract_weaker"}))


# --- misrouted ---


@plant
def misrouted_to_another_partition(copy: Copy) -> Expected:
    (record,) = middle(copy.original)
    forget(copy, record)
    with copy.document("cluster") as cluster:
        there = record.moved(last_partition(cluster, "plain", 1)["high_watermark"], partition=1)
    return fails(of(Kind.MISROUTED, append(copy, there)))


@plant
def misrouted_copy(copy: Copy) -> Expected:
    """Still at home as well: what stands elsewhere is no second copy of its partition."""
    (record,) = middle(copy.original)
    return fails(of(Kind.MISROUTED, append(copy, record.moved(0, partition=1))))


@plant
def near_misrouted_to_another_offset(copy: Copy) -> Expected:
    """The last record of a partition, one offset above the one that was acked: librdkafka reports such offsets."""
    last = records(copy.original, "plain", 1)[-1]
    append(copy, last)
    forget(copy, last, kinds=AFTERWARDS)
    return passes(wrong_ack_offset=1)


# --- wrong_ack_offset ---


@plant
def displaced_for_the_release_s_own_client(copy: Copy) -> Expected:
    """The last record of a partition, one offset above the one that was acked."""
    last = records(copy.original, "plain", 1)[-1]
    there = append(copy, last)
    forget(copy, last, kinds=AFTERWARDS)
    _by_own_client(copy, last)
    return fails(of(Kind.WRONG_ACK_OFFSET, there))


@plant
def near_displaced_and_told_no_offset(copy: Copy) -> Expected:
    """A broker that recognises a batch and no longer knows its place tells none."""
    last = records(copy.original, "plain", 1)[-1]
    copy.change("ledger", {"offset": None}, **last.sent)
    _by_own_client(copy, last)
    return passes()


def _by_own_client(copy: Copy, record: Record) -> None:
    copy.reserved_by(f"{JAVA_CLIENTS} 4.3.1", record.stream)


# --- phantom ---


@plant
def phantom_of_an_unreserved_sequence(copy: Copy) -> Expected:
    (record,) = middle(copy.original)
    ghost = _with_seq(record, 10**9)
    return fails(of(Kind.PHANTOM, append(copy, ghost)))


@plant
def phantom_of_an_unknown_stream(copy: Copy) -> Expected:
    (record,) = middle(copy.original)
    ghost = _with_seq(record, 0, stream=4711)
    return fails(of(Kind.PHANTOM, append(copy, ghost)))


@plant
def phantom_of_a_refused_send(copy: Copy) -> Expected:
    (there,) = middle(copy.original)
    copy.change("ledger", {"outcome": "refused", "offset": None, "error": "_QUEUE_FULL"}, **there.sent)
    return fails(of(Kind.PHANTOM, there))


@plant
def near_phantom_reserved_and_unwritten(copy: Copy) -> Expected:
    """Its sender died before it could write the row: unknown, and it landed."""
    (record,) = middle(copy.original)
    sent = copy.original.rows("ledger", stream=record.stream)
    append(copy, _with_seq(record, max(row["seq"] for row in sent) + 1))
    return passes()


@plant
def near_phantom_refused_and_absent(copy: Copy) -> Expected:
    (gone,) = middle(copy.original)
    copy.change("ledger", {"outcome": "refused", "offset": None, "error": "_QUEUE_FULL"}, **gone.sent)
    forget(copy, gone)
    return passes()


def _with_seq(record: Record, seq: int, stream: int | None = None) -> Record:
    fields = {name: getattr(record, name) for name in Record.__dataclass_fields__}
    return Record(**fields | {"seq": seq, "stream": record.stream if stream is None else stream})
