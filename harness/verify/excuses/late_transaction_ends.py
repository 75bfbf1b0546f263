"""EndTxn requests that arrived a second time, during the producer's next transaction.

A broker distinguishes them by the producer epoch if each transaction has its own (KIP-890: EndTxn 5,
transaction.version 2). Otherwise it ends the current transaction, and the client, which does not learn of it, continues
with another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.model.documents.steps import HeldFrame
from harness.model.excuse import Evidence
from harness.model.finding import Kind
from harness.verify.engine.case import Case
from harness.verify.excuse import Excuse, of_event
from harness.verify.excuses.clauses import Clause, clauses

# Differences from the client's view: an old commit keeps what it aborts, an old abort drops what it commits.
_KINDS: Final = (Kind.ABORTED_READ, Kind.LOST, Kind.TORN_TRANSACTION)
_END: Final = "EndTxn"
_EPOCH_IN_REQUEST: Final = 5  # from this version on the epoch distinguishes them


@dataclass(frozen=True, slots=True, kw_only=True)
class LateEnd:
    """The late end may have ended records of `producer` that were acknowledged in [since_ns, until_ns] with the
    earlier outcome."""

    producer: str
    since_ns: int
    until_ns: int
    why: str
    evidence: Evidence


def late_ends(case: Case) -> Iterator[LateEnd]:
    """Late ends of producers without an epoch for each transaction, where the broker accepted the request."""
    for event, step in case.events(HeldFrame):
        if event.errors != () or event.answered_ns is None or event.held_ns is None:
            continue
        if event.api != _END or event.version >= _EPOCH_IN_REQUEST:
            continue
        for name, producer in case.contract.producers.items():
            if producer.transactional and not producer.epoch_each and event.client.startswith(f"{name}-"):
                why = (
                    f"an EndTxn of {name} arrived a second time, during its next transaction: without an epoch for "
                    "each transaction (KIP-890, transaction.version 2) the broker ends the current one"
                )
                yield LateEnd(
                    producer=name,
                    since_ns=event.held_ns,
                    until_ns=event.answered_ns,
                    why=why,
                    evidence=of_event(event, step, event.at_ns),
                )


def _clauses(number: int, case: Case) -> Iterator[Clause]:
    for late in late_ends(case):
        during = (late.since_ns, late.until_ns)
        yield from clauses(number, _KINDS, late.why, evidence=late.evidence, producer=late.producer, acked_ns=during)


EXCUSES: Final = (
    Excuse(
        name="late_transaction_end",
        permits="An EndTxn arrived a second time, and no producer epoch for each transaction distinguishes them.",
        kinds=_KINDS,
        clauses=_clauses,
    ),
)
