"""When the records of a run went by TLS: what a listener said, and which clients have to have shown it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

REFUSED: Final = "refused"
ANSWERED: Final = "answered"
UNANSWERED: Final = "unanswered"  # which is no refusal
SECURE: Final = "sasl_ssl"  # as clients' statistics have it


def producer_name(producer: str) -> str:
    """Of a client in `clients`: a reader may have the same name."""
    return f"producer {producer}"


def reader_name(reader: str) -> str:
    """Of a live reader in `clients`; those that read afterwards go by their names in reads.json."""
    return f"reader {reader}"


def unproven(secured: Mapping[str, Any] | None, brokers: Iterable[int], clients: Sequence[str]) -> list[str]:
    """Why the `secured` of a run.json does not prove that all records went by TLS; empty when it does.

    clients: all that have to have written or read records; none at all may have gone another way.
    """
    if not secured:
        return ["nothing tells by which way records went"]
    rows = secured["listeners"]
    found = [
        f"nobody looked at the listener of broker {broker}"
        for broker in brokers
        if broker not in {row["broker"] for row in rows}
    ]
    for row in rows:
        listener = f"the listener {row['address']} of broker {row['broker']}"
        if not row["tls"]:
            found.append(f"{listener} spoke no TLS ({row['cipher']})")
        for what, asked in (("plaintext", "a request without TLS"), ("wrong_password", "a wrong password")):
            if row[what] != REFUSED:
                found.append(f"{listener} did not refuse {asked}: {row[what]}")
    for client in dict.fromkeys([*clients, *secured["clients"]]):
        moved = {protocol: n for protocol, n in secured["clients"].get(client, {}).items() if n}
        if client in clients and not moved.get(SECURE):
            found.append(f"no statistics of client {client} tell of {SECURE}")
        if others := sorted(moved.keys() - {SECURE}):
            found.append(f"client {client} went by {', '.join(others)}, too")
    return found
