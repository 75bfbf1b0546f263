"""Plants in what a client did that its transactional id or its group had left behind, each with its near miss."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Expected, Record, fails, of, passes
from suites.planted.plants import plant, transaction


def _committed(copy: Copy) -> tuple[list[Record], Row, list[Row]]:
    """A committed transaction: its acknowledged records, its row, and its sends in the order of their calls."""
    records = [record for part in transaction(copy.original, "committed").values() for record in part]
    (row,) = copy.original.rows("transactions", txn_id=records[0].txn_id)
    sends = copy.original.rows("ledger", txn_id=row["txn_id"], outcome="acked")
    return records, row, sorted(sends, key=lambda send: send["called_ns"])


def _replaced(copy: Copy, row: Row, at_ns: int, end_called_ns: int) -> None:
    """The producer had one client up to and with this transaction, and got another at a time."""
    begun = copy.original.documents["run"]["started_ns"]
    rows = copy.original.rows("transactions", producer=row["producer"])
    mine = {one["txn_id"] for one in rows if one["called_ns"] <= row["called_ns"]}
    later = {one["txn_id"] for one in rows} - mine
    assert later, "it is the last transaction of its producer"
    copy.change("transactions", {"initialised_ns": begun}, txn_id=mine)
    copy.change("transactions", {"initialised_ns": at_ns}, txn_id=later)
    copy.change("transactions", {"end_called_ns": end_called_ns}, txn_id=row["txn_id"])


@plant
def unfenced_send(copy: Copy) -> Expected:
    """The client sent and committed after the next one had been initialised, and both were acknowledged."""
    records, row, sends = _committed(copy)
    _replaced(copy, row, sends[0]["called_ns"] - 1, row["ended_ns"] - 1)
    return fails(of(Kind.UNFENCED, *records), _offsets(copy, row))


@plant
def unfenced_commit(copy: Copy) -> Expected:
    """Everything was sent before the next client was initialised, and the commit was called after that."""
    records, row, sends = _committed(copy)
    _replaced(copy, row, max(sends[-1]["called_ns"], *_offsets_called(copy, row)), row["ended_ns"] - 1)
    return fails(of(Kind.UNFENCED, *records), _offsets(copy, row))


@plant
def near_unfenced_commit_in_flight(copy: Copy) -> Expected:
    """The commit was called before the next client was initialised, and acknowledged afterwards."""
    _, row, _ = _committed(copy)
    _replaced(copy, row, row["ended_ns"] - 1, row["ended_ns"] - 1)
    return passes()


@plant
def near_unfenced_sent_before(copy: Copy) -> Expected:
    """The sends were in flight when the next client was initialised; the transaction was not committed."""
    _, row, sends = _committed(copy)
    _replaced(copy, row, max(sends[-1]["called_ns"], *_offsets_called(copy, row)), row["ended_ns"] - 1)
    copy.change("transactions", {"outcome": "unknown"}, txn_id=row["txn_id"])
    return passes()


@plant
def near_unfenced_of_an_empty_transaction(copy: Copy) -> Expected:
    """A client reports the commit of a transaction without records to no broker."""
    _, row, _ = _committed(copy)
    _replaced(copy, row, row["ended_ns"], row["ended_ns"] - 1)
    late = {"called_ns": row["ended_ns"] + 1, "ended_ns": row["ended_ns"] + 3, "end_called_ns": row["ended_ns"] + 2}
    begun = copy.original.documents["run"]["started_ns"]
    copy.add("transactions", [row | late | {"txn_id": copy.next("transactions", "txn_id"), "initialised_ns": begun}])
    return passes()


def _offsets_called(copy: Copy, row: Row) -> list[int]:
    return [0, *(one["called_ns"] for one in copy.original.rows("offset_commits", txn_id=row["txn_id"]))]


def _offsets(copy: Copy, row: Row) -> list[tuple[str, str, int, int]]:
    """Breaches for the offsets of a group in the transaction."""
    commits = copy.original.rows("offset_commits", txn_id=row["txn_id"], outcome="acked")
    return [(Kind.UNFENCED.value, one["topic"], one["partition"], one["offset"]) for one in commits]


# --- of a group ---


@plant
def unfenced_commit_of_an_old_generation(copy: Copy) -> Expected:
    _held_commit(copy)
    return fails([(Kind.UNFENCED.value, None, None, None)], by_documents=True)


@plant
def near_unfenced_commit_of_the_newest_generation(copy: Copy) -> Expected:
    """Its group moved on while the commit was already there, and its answer was held."""
    _held_commit(copy, newer_s=3)
    return passes()


@plant
def near_unfenced_commit_that_is_refused(copy: Copy) -> Expected:
    _held_commit(copy, errors=["ILLEGAL_GENERATION"])
    return passes()


def _held_commit(copy: Copy, *, newer_s: int = 1, errors: Sequence[str] = ()) -> None:
    """A commit of a group arrived 2 s after it was sent."""
    with copy.document("steps") as steps:
        first = steps[0]
        at_ns = [first["started_ns"] + second * 10**9 for second in range(5)]
        frame = {"kind": "held_frame", "link": "client > b2", "api": "OffsetCommit", "version": 8}
        frame |= {
            "client": "grouped-1",
            "group": "readers",
            "group_type": "classic",
            "generation": 1,
            "errors": list(errors),
        }
        times = {"held_ns": at_ns[0], "newer_ns": at_ns[newer_s], "released_ns": at_ns[2], "answered_ns": at_ns[4]}
        first["events"].append(frame | times | {"at_ns": at_ns[4]})


@plant
def unfenced_commit_from_outside(copy: Copy) -> Expected:
    _asked_from_outside(copy)
    return fails([(Kind.UNFENCED.value, None, None, None)], by_documents=True)


@plant
def near_unfenced_commit_from_outside_a_group_without_members(copy: Copy) -> Expected:
    """Its members may have left before the request or after it."""
    _asked_from_outside(copy, members=())
    return passes()


@plant
def near_unfenced_commit_from_outside_that_is_refused(copy: Copy) -> Expected:
    _asked_from_outside(copy, error="UNKNOWN_MEMBER_ID")
    return passes()


def _asked_from_outside(copy: Copy, *, members: Sequence[str] = ("grouped-1",), error: str | None = None) -> None:
    with copy.document("steps") as steps:
        first = steps[0]
        asked = {"kind": "asked_from_outside", "group": "readers", "api": "OffsetCommit", "error": error}
        times = {"asked_ns": first["started_ns"], "at_ns": first["started_ns"] + 1}
        first["events"].append(asked | times | {"members": list(members)})
