"""Ends of transactions that came a second time, amid the next one of their producer.

A broker knows which of the two is meant by the epoch, where each transaction has one of its own (KIP-890: EndTxn 5,
transaction.version 2). Else it ends the one that is open, and the client, which was not told, goes on with another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.model.finding import Kind
from harness.verify.engine.case import Case

# What the client goes on to end differently: an old commit keeps it, an old abort drops it.
KINDS: Final = (Kind.ABORTED_READ, Kind.LOST, Kind.TORN_TRANSACTION)
_END: Final = "EndTxn"
_TOLD_APART: Final = 5  # from this version on


@dataclass(frozen=True, slots=True, kw_only=True)
class LateEnd:
    """What `producer` was acknowledged in [since_ns, until_ns] may have ended with what it had ended before."""

    producer: str
    since_ns: int
    until_ns: int
    why: str


def late_ends(case: Case) -> Iterator[LateEnd]:
    """Of producers without an epoch for each transaction, where the broker took the end for one."""
    for event, _ in case.events("held_frame"):
        taken = event.get("errors") == [] and event.get("answered_ns") is not None and event.get("held_ns") is not None
        if event["api"] != _END or event["version"] >= _TOLD_APART or not taken:
            continue
        for name, producer in case.contract.producers.items():
            if producer.transactional and not producer.epoch_each and event["client"].startswith(f"{name}-"):
                why = (
                    f"an end of {name}'s transaction before came a second time, amid the next: without an epoch for "
                    "each (KIP-890, transaction.version 2) a broker cannot tell, and ends that one"
                )
                yield LateEnd(producer=name, since_ns=event["held_ns"], until_ns=event["answered_ns"], why=why)
