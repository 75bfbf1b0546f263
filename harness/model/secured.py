"""The proof that all records of a run used TLS: the answers of listeners, and the statistics of clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from harness.model.documents.run import Secured

REFUSED: Final = "refused"
ANSWERED: Final = "answered"
UNANSWERED: Final = "unanswered"  # no answer is no refusal
SECURE: Final = "sasl_ssl"  # the name in clients' statistics


def producer_name(producer: str) -> str:
    """The key of a producer in `clients` of run.json's `secured`; with a prefix, because a reader may have its name."""
    return f"producer {producer}"


def reader_name(reader: str) -> str:
    """The name of a live reader in `clients`. Readers of the drain have their names of reads.json."""
    return f"reader {reader}"


def unproven(secured: Secured | None, brokers: Iterable[int], clients: Sequence[str]) -> list[str]:
    """The reasons why `secured` of run.json does not prove that all records used TLS; empty if it does.

    clients: those that must have moved records by TLS. No client at all may have used another protocol.
    """
    if not secured:
        return ["the bundle has no proof that records used TLS"]
    rows = secured.listeners
    found = [
        f"the listener of broker {broker} was not checked"
        for broker in brokers
        if broker not in {row.broker for row in rows}
    ]
    for row in rows:
        listener = f"the listener {row.address} of broker {row.broker}"
        if not row.tls:
            found.append(f"{listener} does not use TLS ({row.cipher})")
        for answer, asked in ((row.plaintext, "a request without TLS"), (row.wrong_password, "a wrong password")):
            if answer != REFUSED:
                found.append(f"{listener} did not refuse {asked}: {answer}")
    for client in dict.fromkeys([*clients, *secured.clients]):
        moved = {protocol: n for protocol, n in secured.clients.get(client, {}).items() if n}
        if client in clients and not moved.get(SECURE):
            found.append(f"the statistics of client {client} show no {SECURE}")
        if others := sorted(moved.keys() - {SECURE}):
            found.append(f"client {client} also used {', '.join(others)}")
    return found
