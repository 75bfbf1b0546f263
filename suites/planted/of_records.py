"""Plants in single records of the read after healing, each with its near miss."""

from __future__ import annotations

from typing import Any

from harness.model.finding import Kind
from harness.model.outcome import JAVA_CLIENTS
from harness.model.verdict import Status
from suites.planted.copies import Copy
from suites.planted.expected import Expected, Record, doubtful, fails, of, passes
from suites.planted.plants import (
    AFTER_HEALING,
    ALL_KINDS,
    COMMITTED,
    append,
    borders,
    forget,
    last_partition,
    middle,
    own_values,
    plant,
    record_of,
    records,
)

UNANSWERED = {"outcome": "unknown", "offset": None, "error": "_MSG_TIMED_OUT"}


@plant
def unchanged(copy: Copy) -> Expected:
    return passes()


# --- lost ---


@plant
def lost_from_both_drains(copy: Copy) -> Expected:
    """Followers and live readers still show it: one finding that the leader does not, not four."""
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
    """Only the log ends: brokers that were asked after the read report acknowledged offsets above every log."""
    gone = _above_every_log_end(copy)
    return fails(of(Kind.LOST, *gone))


@plant
def lost_above_every_log_end_and_not_read(copy: Copy) -> Expected:
    gone = _above_every_log_end(copy)
    for record in gone:
        copy.drop("observations", **record.at)
    with copy.document("run") as run:
        run["readers_waited"] = None  # they could not wait for what is gone
    return fails(of(Kind.LOST, *gone))


def _above_every_log_end(copy: Copy) -> list[Record]:
    gone = records(copy.original, "plain", 1)[-3:]
    with copy.document("cluster") as cluster:
        for log in last_partition(cluster, "plain", 1)["logs"]:
            log["log_end"] = gone[0].offset
    return gone


@plant
def near_lost_log_end_of_one_replica(copy: Copy) -> Expected:
    """One replica reports a lower log end, and its copy is complete: it was asked before it had caught up."""
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
def near_lost_unknown_and_present(copy: Copy) -> Expected:
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
    """The ledger of a finished run has a row for every send before the last one of a stream."""
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
    """The payload does not identify the record; the ledger knows which record was there."""
    (bad,) = middle(copy.original)
    copy.change("observations", {"intact": False, "stream": -1, "seq": -1}, kind=set(AFTER_HEALING), **bad.at)
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
def reordered_for_all_readers(copy: Copy) -> Expected:
    first, second = middle(copy.original, count=2)
    _exchange(copy, first, second, ALL_KINDS)
    return fails(of(Kind.REORDERED, second.moved(first.offset)), wrong_ack_offset=2)


@plant
def reordered_in_the_drains(copy: Copy) -> Expected:
    """Live readers and followers then show other records at both offsets."""
    first, second = middle(copy.original, count=2)
    _exchange(copy, first, second, ["drain"])
    return fails(
        of(Kind.REORDERED, second.moved(first.offset)), of(Kind.CONFLICTING, first, second), wrong_ack_offset=2
    )


@plant
def near_reordered_two_streams(copy: Copy) -> Expected:
    """Streams have no order between them. The note reports that each is at the other's acknowledged offset."""
    pairs = borders(copy.original)
    first, second = pairs[len(pairs) // 2]
    _exchange(copy, first, second, ALL_KINDS)
    return passes(wrong_ack_offset=2)


def _exchange(copy: Copy, first: Record, second: Record, kinds: Any) -> None:
    """Exchanges two records. A record that is moved aside for a moment must not be taken for the other."""
    aside = {"stream": -2, "seq": -2}
    one, other = (own_values(copy.original, record) for record in (first, second))
    copy.change("observations", aside, kind=set(kinds), **first.at, **first.sent)
    copy.change("observations", one, kind=set(kinds), **second.at, **second.sent)
    copy.change("observations", other, kind=set(kinds), **first.at, **aside)


# --- duplicated ---


@plant
def duplicated_by_the_broker(copy: Copy) -> Expected:
    """Both batches have the same producer id and epoch: the broker accepted a repeated batch as new."""
    (record,) = middle(copy.original)
    return fails(of(Kind.DUPLICATED, append(copy, record)))


@plant
def duplicated_without_batches(copy: Copy) -> Expected:
    """The disks could not be read, so nothing explains it: no try of its client failed."""
    (record,) = middle(copy.original)
    new = append(copy, record)
    copy.without_disks()
    if copy.original.rows("failed_sends", topic="plain"):
        copy.drop("failed_sends", topic="plain")
    return fails(of(Kind.DUPLICATED, new), doubts=["unjudged"])


def _first_copy_below_the_start(copy: Copy, epoch_lower_by: int = 0) -> list[Record]:
    """A disk has the last batch of a shortened log a second time, just below the log start. Returns its records."""
    place = {"topic": "sized", "partition": 0}
    (logs,) = [
        p["logs"] for p in copy.original.documents["cluster"]["snapshots"][-1]["partitions"] if p["topic"] == "sized"
    ]
    start = max(log["log_start"] for log in logs)
    acked = copy.original.rows("ledger", outcome="acked", **place)
    last = max(row["offset"] for row in acked)
    batches = copy.original.rows("batches", broker=logs[0]["broker"], control=None, **place)
    batch = next(row for row in batches if row["base_offset"] <= last <= row["last_offset"])
    size = batch["last_offset"] - batch["base_offset"] + 1
    below = {"base_offset": start - size, "last_offset": start - 1, "segment": None}
    copy.add("batches", [batch | below | {"producer_epoch": batch["producer_epoch"] - epoch_lower_by}])
    return [record_of(row) for row in acked if batch["base_offset"] <= row["offset"] <= batch["last_offset"]]


@plant
def duplicated_below_the_log_start(copy: Copy) -> Expected:
    return fails(of(Kind.DUPLICATED, *_first_copy_below_the_start(copy)))


@plant
def near_duplicated_below_the_log_start_in_another_epoch(copy: Copy) -> Expected:
    _first_copy_below_the_start(copy, epoch_lower_by=1)
    return passes()


@plant
def near_duplicated_by_the_client(copy: Copy) -> Expected:
    """A higher producer epoch: no broker can recognise the repetition. Its failed tries are not known."""
    (record,) = middle(copy.original)
    copy.reserved(record.stream, tries_recorded=None)
    return passes(explained=of(Kind.DUPLICATED, append(copy, record, epoch_higher_by=1)))


@plant
def duplicated_by_the_own_client(copy: Copy) -> Expected:
    """A higher producer epoch excuses only librdkafka."""
    (record,) = middle(copy.original)
    _by_own_client(copy, record)
    return fails(of(Kind.DUPLICATED, append(copy, record, epoch_higher_by=1)))


@plant
def near_duplicated_without_idempotence(copy: Copy) -> Expected:
    (record,) = middle(copy.original)
    with copy.document("run") as run:
        for producer in run["contract"]["producers"].values():
            producer["idempotent"] = producer["transactional"]
    # The clients' reservations say that they were idempotent: the excuse holds, and the contract is weaker.
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
    """Still in its own partition as well: the record elsewhere is no second copy there."""
    (record,) = middle(copy.original)
    return fails(of(Kind.MISROUTED, append(copy, record.moved(0, partition=1))))


@plant
def near_misrouted_to_another_offset(copy: Copy) -> Expected:
    """The last record of a partition, one offset above the acknowledged one: librdkafka reports such offsets."""
    last = records(copy.original, "plain", 1)[-1]
    append(copy, last)
    forget(copy, last, kinds=AFTER_HEALING)
    return passes(wrong_ack_offset=1)


# --- wrong_ack_offset ---


@plant
def wrong_ack_offset_of_the_own_client(copy: Copy) -> Expected:
    """The last record of a partition, one offset above the acknowledged one."""
    last = records(copy.original, "plain", 1)[-1]
    there = append(copy, last)
    forget(copy, last, kinds=AFTER_HEALING)
    _by_own_client(copy, last)
    return fails(of(Kind.WRONG_ACK_OFFSET, there))


@plant
def near_wrong_ack_offset_none_reported(copy: Copy) -> Expected:
    """A broker that recognises a repeated batch and no longer knows its offset reports none."""
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
    """Its sender died before it wrote the row of the ledger: unknown outcome, and the record was written."""
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
