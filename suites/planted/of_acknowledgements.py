"""Plants in which two records were acknowledged at one offset, each with its near miss."""

from __future__ import annotations

from harness.model.finding import Kind
from harness.model.outcome import JAVA_CLIENTS
from suites.planted.copies import Copy
from suites.planted.expected import Expected, Record, fails, of, passes
from suites.planted.plants import forget, last_partition, middle, plant, record_of

TOPIC = "sized"  # its first records are deleted, so nothing but the ledger knows them


@plant
def acked_twice_and_deleted(copy: Copy) -> Expected:
    """The release's own client reported both, and neither is in the log any more."""
    first = _both_at_one_offset(copy)
    _by_own_client(copy, first)
    return fails(of(Kind.CONFLICTING, first))


@plant
def near_conflicting_acked_twice_to_another_client(copy: Copy) -> Expected:
    """librdkafka reported both, and may have named a wrong offset."""
    _both_at_one_offset(copy)
    return passes()


@plant
def near_conflicting_acked_once(copy: Copy) -> Expected:
    """The send of the other one was not answered."""
    first, second = _deleted(copy)
    copy.change("ledger", {"outcome": "unknown", "offset": None}, **second.sent)
    _by_own_client(copy, first)
    return passes()


@plant
def acked_twice_and_lost(copy: Copy) -> Expected:
    """The log has the other one there: the contradiction is named beside the loss."""
    there, gone = middle(copy.original, count=2)
    copy.change("ledger", {"offset": there.offset}, **gone.sent)
    forget(copy, gone)
    _by_own_client(copy, gone)
    lost = gone.moved(there.offset)
    return fails(of(Kind.CONFLICTING, lost), of(Kind.LOST, lost))


def _both_at_one_offset(copy: Copy) -> Record:
    first, second = _deleted(copy)
    copy.change("ledger", {"offset": first.offset}, **second.sent)
    return first


def _deleted(copy: Copy) -> tuple[Record, Record]:
    """Two adjacent records below the log start, from the middle."""
    place = last_partition(copy.original.documents["cluster"], TOPIC, 0)
    start = min(log["log_start"] for log in place["logs"])
    rows = [row for row in copy.original.rows("ledger", topic=TOPIC, outcome="acked") if row["offset"] < start]
    first, second = rows[len(rows) // 2 :][:2]
    return record_of(first), record_of(second)


def _by_own_client(copy: Copy, record: Record) -> None:
    copy.reserved_by(f"{JAVA_CLIENTS} 4.3.1", record.stream)
