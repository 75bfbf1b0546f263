"""Plants in the calls of transactional clients that coordinators refused, each with its near miss."""

from __future__ import annotations

from typing import Any, Final

from harness.model.finding import Kind
from harness.model.outcome import JAVA_CLIENTS
from harness.model.pending import Pending
from suites.planted.copies import Copy
from suites.planted.expected import Expected, doubtful, fails, passes
from suites.planted.plants import plant

MAPPING: Final = "INVALID_PRODUCER_ID_MAPPING"
_S: Final = 10**9
_FIRST_S: Final = 12.0  # after the end of the load, when nothing has disturbed the cluster for so long
_EVERY_S: Final = 3.0
_FOUND: Final = [(Kind.TRANSACTION_REFUSED.value, None, None, None)]


def _ended_ns(copy: Copy) -> int:
    return int(copy.original.documents["run"]["ended_ns"])


def _refuse(copy: Copy, call: str, *errors: str, young_s: float = 0.4, took_s: float = 0.1, **to: Any) -> None:
    """Further calls of the transactional producer, each by a client that was initialised so shortly before."""
    rows = []
    for nth, error in enumerate(errors):
        called_ns = _ended_ns(copy) + int((_FIRST_S + nth * max(_EVERY_S, took_s + 1)) * _S)
        row = {"producer": "payments", "call": call, "error": error, "transaction_timeout_ms": 30_000}
        row |= {"called_ns": called_ns, "returned_ns": called_ns + int(took_s * _S)}
        rows.append(row | {"initialised_ns": None if call == "init" else called_ns - int(young_s * _S)} | to)
    copy.add("failed_calls", rows)


@plant
def transaction_refused(copy: Copy) -> Expected:
    """Every commit after the load is refused."""
    _refuse(copy, "commit", *[MAPPING] * 6)
    return fails(_FOUND, by_documents=True)


@plant
def transaction_refused_abort(copy: Copy) -> Expected:
    _refuse(copy, "abort", *["INVALID_TXN_STATE"] * 6)
    return fails(_FOUND, by_documents=True)


@plant
def transaction_refused_offsets(copy: Copy) -> Expected:
    _refuse(copy, "offsets", *["InvalidTxnStateException"] * 6)
    return fails(_FOUND, by_documents=True)


@plant
def transaction_refused_init(copy: Copy) -> Expected:
    _refuse(copy, "init", *["INVALID_PRODUCER_EPOCH"] * 6)
    return fails(_FOUND, by_documents=True)


@plant
def transaction_refused_late(copy: Copy) -> Expected:
    """Every commit is tried again until it times out."""
    _refuse(copy, "commit", *["_TIMED_OUT"] * 6, took_s=5.0)
    return fails(_FOUND, by_documents=True)


@plant
def transaction_refused_once_fenced(copy: Copy) -> Expected:
    """While an answer was lost, and no other client was there."""
    _written_by(copy, JAVA_CLIENTS)
    _refuse(copy, "abort", "ProducerFencedException")
    return fails(_FOUND, by_documents=True)


@plant
def near_transaction_refused_fenced_by_another_client(copy: Copy) -> Expected:
    _written_by(copy, JAVA_CLIENTS)
    _refuse(copy, "abort", "ProducerFencedException", "InvalidTxnStateException", young_s=1.5 * _EVERY_S)
    return passes()


@plant
def near_transaction_refused_fenced_after_its_timeout(copy: Copy) -> Expected:
    _written_by(copy, JAVA_CLIENTS)
    _refuse(copy, "abort", "ProducerFencedException", transaction_timeout_ms=400)
    return passes()


@plant
def near_transaction_refused_once_to_librdkafka(copy: Copy) -> Expected:
    """It may have asked for a new epoch itself, and not have heard of it."""
    _refuse(copy, "abort", "_FENCED")
    return passes()


def _written_by(copy: Copy, client: str) -> None:
    """The transactional producer used this client."""
    for stream in {row["stream"] for row in copy.original.reservations() if row["producer"] == "payments"}:
        copy.reserved_by(f"{client} 1.0", stream)


@plant
def near_transaction_refused_by_another_client(copy: Copy) -> Expected:
    """Each client was fenced by the next one."""
    _refuse(copy, "commit", *["_FENCED"] * 6, young_s=1.5 * _EVERY_S)
    return passes()


@plant
def near_transaction_refused_after_its_timeout(copy: Copy) -> Expected:
    """The coordinator had aborted each transaction, as its client had asked it to."""
    _refuse(copy, "commit", *["INVALID_PRODUCER_EPOCH"] * 6, transaction_timeout_ms=400)
    return passes()


@plant
def near_transaction_refused_of_an_expired_id(copy: Copy) -> Expected:
    _refuse(copy, "commit", *[MAPPING] * 6)
    with copy.document("cluster") as cluster:
        for settings in cluster["snapshots"][-1]["broker_configs"].values():
            settings["transactional.id.expiration.ms"] = "450"
    return passes()


@plant
def near_transaction_refused_while_it_moves(copy: Copy) -> Expected:
    """An operation moves the coordinator all the time."""
    _refuse(copy, "commit", *[MAPPING] * 6)
    with copy.document("steps") as steps:
        last, to_ns = steps[-1], _ended_ns(copy) + 60 * _S
        last["facts"] = [*last["facts"], {"kind": "leaders_moved", "from_ns": last["started_ns"], "to_ns": to_ns}]
        last["ended_ns"] = to_ns
    return passes()


@plant
def near_transaction_refused_without_the_right(copy: Copy) -> Expected:
    _refuse(copy, "commit", *["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"] * 6)
    return passes()


@plant
def near_transaction_refused_and_then_committed(copy: Copy) -> Expected:
    """A commit succeeds after three refusals, and three more follow."""
    _refuse(copy, "commit", *[MAPPING] * 6)
    like = copy.original.rows("transactions", producer="payments", outcome="committed")[-1]
    ended_ns = _ended_ns(copy) + int((_FIRST_S + 2.5 * _EVERY_S) * _S)
    times = {"called_ns": ended_ns - _S, "end_called_ns": ended_ns - _S // 2, "ended_ns": ended_ns}
    copy.add("transactions", [like | times | {"txn_id": copy.next("transactions", "txn_id")}])
    return passes()


@plant
def near_transaction_refused_with_a_node_down(copy: Copy) -> Expected:
    """A node was down, so little is known of the cluster: a doubt."""
    _refuse(copy, "commit", *[MAPPING] * 6)
    with copy.document("run") as run:
        seen = "broker 2 is not running"
        run["recovered"] = {"ok": False, "waited_s": 90.0, "last_seen": seen, "pending": Pending.NODES_DOWN.value}
    return doubtful("not_back")


@plant
def doubt_transaction_refused_to_an_unknown_client(copy: Copy) -> Expected:
    """Its requests may be wrong."""
    _refuse(copy, "commit", *[MAPPING] * 6)
    _written_by(copy, "somebody")
    return doubtful("unattributed")
