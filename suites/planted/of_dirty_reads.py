"""Plants in what readers and an application received of transactions that nothing had committed, with near misses."""

from __future__ import annotations

from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Expected, Record, fails, of, passes
from suites.planted.plants import COMMITTED, forget, plant, record_of, transaction

TOPIC, MADE = "orders", "made"  # input and output of the application


# --- live readers ---


@plant
def aborted_read_before_the_commit(copy: Copy) -> Expected:
    """Live readers had received all records of a transaction when it was asked to commit."""
    parts, last_ns = _received(copy)
    _call_end(copy, parts[0].txn_id, last_ns + 1)
    return fails(of(Kind.ABORTED_READ, *parts))


@plant
def near_aborted_read_after_the_commit(copy: Copy) -> Expected:
    """It was asked to commit when the first reader received a record of it."""
    parts, _ = _received(copy)
    first_ns = min(row["given_ns"] for record in parts for row in _given(copy, record))
    _call_end(copy, parts[0].txn_id, first_ns)
    return passes()


def _received(copy: Copy) -> tuple[list[Record], int]:
    """The records of a committed transaction, and when the last of its read_committed readers had received them."""
    parts = [record for part in transaction(copy.original, "committed").values() for record in part]
    return parts, max(row["given_ns"] for record in parts for row in _given(copy, record))


def _given(copy: Copy, record: Record) -> list[Row]:
    rows = copy.original.rows("observations", kind="live", isolation=COMMITTED, **record.at)
    return [row for row in rows if row["given_ns"] is not None]


def _call_end(copy: Copy, txn_id: int | None, called_ns: int) -> None:
    copy.change("transactions", {"end_called_ns": called_ns}, txn_id=txn_id)


# --- an application ---


@plant
def aborted_read_by_an_application(copy: Copy) -> Expected:
    """It processed a record of a transaction that was aborted, which no other read_committed reader received."""
    record, output = _used(copy)
    _write_in_transaction(copy, record, "aborted", output["called_ns"])
    forget(copy, record, isolation=COMMITTED)
    return fails(of(Kind.ABORTED_READ, record))


@plant
def aborted_read_by_an_application_before_the_commit(copy: Copy) -> Expected:
    record, output = _used(copy)
    _write_in_transaction(copy, record, "committed", output["called_ns"] + 1)
    return fails(of(Kind.ABORTED_READ, record))


@plant
def near_aborted_read_by_an_application_after_the_commit(copy: Copy) -> Expected:
    record, output = _used(copy)
    _write_in_transaction(copy, record, "committed", output["called_ns"])
    return passes()


@plant
def aborted_read_of_its_own_output(copy: Copy) -> Expected:
    """The transaction with the output wrote the input as well."""
    record, output = _used(copy)
    copy.change("ledger", {"txn_id": output["txn_id"]}, **record.sent)
    return fails(of(Kind.ABORTED_READ, record))


@plant
def near_aborted_read_of_the_output_of_another(copy: Copy) -> Expected:
    """An earlier transaction of the application wrote the input."""
    record, output = _used(copy)
    ended = copy.original.rows("transactions", producer="worker", outcome="committed")
    earlier = next(row["txn_id"] for row in ended if row["txn_id"] != output["txn_id"])
    copy.change("ledger", {"txn_id": earlier}, **record.sent)
    copy.change("transactions", {"end_called_ns": output["called_ns"] - 1}, txn_id=earlier)
    return passes()


def _used(copy: Copy) -> tuple[Record, Row]:
    """An input that the application processed once, and the ledger's row of its output."""
    made = {(row["stream"], row["seq"]): row for row in copy.original.rows("ledger", topic=MADE, outcome="acked")}
    committed = {row["txn_id"] for row in copy.original.rows("transactions", producer="worker", outcome="committed")}
    tries: dict[int, list[Row]] = {}
    for row in copy.original.rows("processed", processor="worker"):
        tries.setdefault(row["offset"], []).append(row)
    for sent in copy.original.rows("ledger", topic=TOPIC, partition=0, outcome="acked")[5:]:
        outputs = [made.get((row["stream"], row["seq"])) for row in tries.get(sent["offset"], ())]
        if len(outputs) == 1 and outputs[0] is not None and outputs[0]["txn_id"] in committed:
            return record_of(sent), outputs[0]
    raise AssertionError("the application processed no record exactly once")


def _write_in_transaction(copy: Copy, record: Record, outcome: str, called_ns: int) -> None:
    """The record is all that a transaction wrote, which was asked to end at `called_ns`."""
    txn_id = copy.next("transactions", "txn_id")
    copy.change("ledger", {"txn_id": txn_id}, **record.sent)
    (sent,) = copy.original.rows("ledger", **record.sent)
    times = {"called_ns": sent["called_ns"], "end_called_ns": called_ns, "ended_ns": called_ns + 10**6}
    copy.add("transactions", [{"txn_id": txn_id, "producer": "payments", "outcome": outcome, **times}])
