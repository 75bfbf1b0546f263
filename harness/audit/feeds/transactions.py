"""Transactions that have been open for long, from their coordinators. Each holds back the last stable offset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.wire import ANSWER_S, Call, Unanswered, call, error_name
from harness.model.place import Place

_DURATION_SINCE: Final = 1  # the first version in which the coordinator selects by duration (KIP-994)
_NEWEST: Final = 1
# A transaction that is being completed is listed too: if that lasts, its markers cannot be written.
_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


class TransactionSeen(NamedTuple):
    """A transaction at its coordinator. started_ms: on the coordinator's clock. state: Kafka's name."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    started_ms: int
    timeout_ms: int
    partitions: tuple[Place, ...]


def long_transactions(
    brokers: Brokers, coordinator: int, longer_than_ms: int, timeout_s: float = ANSWER_S
) -> Iterator[TransactionSeen]:
    """The transactions of one coordinator that are open for longer than that. Needs DESCRIBE on their ids.

    Coordinators before 3.8 do not select by duration, so all of theirs that are open are returned. Unanswered when it
    is silent, or still loads its transactions.
    """
    listed = brokers.ask(coordinator, Call(ListTransactionsRequest, _listing(longer_than_ms), _NEWEST), timeout_s)
    if error := error_name(listed.error_code):
        raise Unanswered(f"broker {coordinator}: {error}")
    ids = [found.transactional_id for found in listed.transaction_states]
    if not ids:
        return
    described = brokers.ask(coordinator, call(DescribeTransactionsRequest, transactional_ids=ids), timeout_s)
    for t in described.transaction_states:
        if t.error_code or t.transaction_state not in _OPEN:
            continue  # it ended, or moved to another coordinator, since it was listed
        yield TransactionSeen(
            t.transactional_id,
            coordinator,
            t.transaction_state,
            t.producer_id,
            t.producer_epoch,
            t.transaction_start_time_ms,
            t.transaction_timeout_ms,
            tuple((topic.topic, p) for topic in t.topics for p in topic.partitions),
        )


def _listing(longer_than_ms: int) -> Callable[[int], ApiMessage]:
    def build(version: int) -> ApiMessage:
        selected = {"duration_filter": longer_than_ms} if version >= _DURATION_SINCE else {}
        return ListTransactionsRequest(state_filters=list(_OPEN), producer_id_filters=[], **selected)

    return build
