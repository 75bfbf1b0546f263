"""When the records of a run went by TLS: what a listener said, and which clients have to have shown it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

REFUSED: Final = "refused"
ANSWERED: Final = "answered"
UNANSWERED: Final = "unanswered"  # which is no refusal
SECURE: Final = "sasl_ssl"  # as clients' statistics have it


def unproven(secured: Mapping[str, Any] | None, brokers: Iterable[int], clients: Sequence[str]) -> list[str]:
    """Why the `secured` of a run.json does not prove that all records went by TLS; empty when it does.

    clients: all that wrote or read records.
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
    for client in clients:
        moved = {protocol: n for protocol, n in secured["clients"].get(client, {}).items() if n}
        if not moved.get(SECURE):
            found.append(f"no statistics of client {client} tell of {SECURE}")
        if others := sorted(moved.keys() - {SECURE}):
            found.append(f"client {client} went by {', '.join(others)}, too")
    return found
