"""Plants in what made a client send records again under a new producer epoch, each with its near miss."""

from __future__ import annotations

from harness.model.contract.contract import SENTINEL
from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Expected, Record, doubtful, fails, of, passes
from suites.planted.plants import append, plant, records

_GAP = "OUT_OF_ORDER_SEQUENCE_NUMBER"


@plant
def duplicated_after_a_wrong_denial(copy: Copy) -> Expected:
    """The leader refused a batch that its log had: later records were acknowledged before the batch was sent again."""
    record, batch = _last_of_a_client(copy)
    _failed(copy, batch, _GAP, batch["base_sequence"], sent_ns=_acked_ns(copy) + 1)
    return fails(of(Kind.DUPLICATED, append(copy, record, epoch_higher_by=1)))


@plant
def duplicated_after_a_denial_of_the_next_batch(copy: Copy) -> Expected:
    """The leader refused the sequence number that follows the last batch of the client in its log."""
    record, batch = _last_of_a_client(copy)
    _failed(copy, batch, _GAP, batch["base_sequence"] + batch["count"], sent_ns=_acked_ns(copy) + 1)
    return fails(of(Kind.DUPLICATED, append(copy, record, epoch_higher_by=1)))


@plant
def near_duplicated_after_a_lost_connection(copy: Copy) -> Expected:
    record, batch = _last_of_a_client(copy)
    _failed(copy, batch, "_TRANSPORT", batch["base_sequence"], sent_ns=_acked_ns(copy) + 1)
    return passes(explained=of(Kind.DUPLICATED, append(copy, record, epoch_higher_by=1)))


@plant
def near_duplicated_after_a_denial_with_a_gap(copy: Copy) -> Expected:
    """The leader refused a batch after one that it did not get, as it must."""
    record, batch = _last_of_a_client(copy)
    _failed(copy, batch, _GAP, batch["base_sequence"] + 2 * batch["count"], sent_ns=_acked_ns(copy) + 1)
    return passes(explained=of(Kind.DUPLICATED, append(copy, record, epoch_higher_by=1)))


@plant
def doubt_duplicated_after_an_early_denial(copy: Copy) -> Expected:
    """Nothing shows that the leader had the batch when it refused it."""
    record, batch = _last_of_a_client(copy)
    _failed(copy, batch, _GAP, batch["base_sequence"], sent_ns=copy.original.documents["run"]["started_ns"])
    append(copy, record, epoch_higher_by=1)
    return doubtful("unattributed")


@plant
def doubt_duplicated_without_a_failed_try(copy: Copy) -> Expected:
    """The client reports its failed tries, and had none."""
    if copy.original.rows("failed_sends"):
        copy.drop("failed_sends")
    record, _ = _last_of_a_client(copy)
    append(copy, record, epoch_higher_by=1)
    return doubtful("unattributed")


@plant
def doubt_duplicated_without_batches_after_a_lost_connection(copy: Copy) -> Expected:
    """The run was interrupted before it read the disks: nothing shows whether the client began a new epoch."""
    record, batch = _last_of_a_client(copy)
    append(copy, record)
    producer = next(row["producer"] for row in copy.original.reservations() if row["stream"] == record.stream)
    _failed(copy, batch, "_TRANSPORT", batch["base_sequence"], sent_ns=_acked_ns(copy) + 1, producer=producer)
    copy.without_disks()
    return doubtful("unattributed", "unjudged")


def _last_of_a_client(copy: Copy) -> tuple[Record, Row]:
    """A record in the last batch that a client wrote to plain/0, and that batch. The client records its tries."""
    of_sentinels = {row["stream"] for row in copy.original.reservations() if row["producer"] == SENTINEL}
    written = [one for one in records(copy.original, "plain", 0, txn_id=None) if one.stream not in of_sentinels]
    batches = copy.original.rows("batches", topic="plain", partition=0, control=None)
    last = {(row["producer_id"], row["producer_epoch"]): row for row in batches if row["producer_id"] >= 0}
    for batch in last.values():
        for record in written:
            if batch["base_offset"] <= record.offset <= batch["last_offset"]:
                copy.reserved(record.stream, tries_recorded=True)
                return record, batch
    raise AssertionError("no record of plain/0 is in the last batch of its client")


def _acked_ns(copy: Copy) -> int:
    """When the last record of plain/0 was acknowledged."""
    acked = copy.original.rows("ledger", topic="plain", partition=0, outcome="acked")
    return max(int(row["returned_ns"]) for row in acked)


def _failed(copy: Copy, batch: Row, error: str, base_sequence: int, *, sent_ns: int, producer: str = "plain") -> None:
    """The one failed try of this client's epoch: of the batch with that sequence number, by the leader that appended
    the batch."""
    same = {"producer_id": batch["producer_id"], "producer_epoch": batch["producer_epoch"]}
    if copy.original.rows("failed_sends", **same):
        copy.drop("failed_sends", **same)
    place = {name: batch[name] for name in ("topic", "topic_id", "partition")}
    copy.add(
        "failed_sends",
        [
            place
            | same
            | {
                "producer": producer,
                "count": batch["count"],
                "base_sequence": base_sequence,
                "broker": _leader(copy, batch),
                "error": error,
                "sent_ns": sent_ns,
                "failed_ns": sent_ns + 1,
            }
        ],
    )


def _leader(copy: Copy, batch: Row) -> int:
    """The leader of the epoch in which the batch was appended."""
    changes = copy.original.documents["history"]["changes"]
    of_place = [
        row for row in changes if (row["type"], row.get("topic"), row.get("partition")) == ("partition", "plain", 0)
    ]
    return next(int(row["leader"]) for row in of_place if row["leader_epoch"] == batch["leader_epoch"])
