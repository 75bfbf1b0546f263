"""Client settings for secure listeners, and the statistics that prove which protocol each client used."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

_PLAIN: Final = "plaintext"  # the statistics of librdkafka name no protocol then
# A second entry for a broker that has an entry with its protocol, such as GroupCoordinator.
_LOGICAL: Final = "logical"


class TrafficByProtocol:
    """Bytes that each client sent and received, by security protocol, from the client's statistics. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: dict[str, dict[str, int]] = defaultdict(dict)

    def note(self, client: str, statistics: str) -> None:
        """Adds the statistics of a client. Each incarnation counts from zero; the highest figure is kept."""
        reported = bytes_by_protocol(statistics)
        with self._lock:
            seen = self._bytes[client]
            for protocol, count in reported.items():
                seen[protocol] = max(count, seen.get(protocol, 0))

    def of(self, client: str) -> dict[str, int]:
        """Bytes of one client by protocol; empty until its first statistics."""
        with self._lock:
            return dict(self._bytes.get(client, {}))

    def seen(self) -> dict[str, dict[str, int]]:
        """Bytes by protocol, of every client by its name."""
        with self._lock:
            return {client: dict(reported) for client, reported in sorted(self._bytes.items())}


@dataclass(frozen=True, slots=True)
class Access:
    """`settings`: settings of librdkafka for clients that write or read records; empty for plaintext listeners.

    `prefix`: of the group ids of readers that belong to no group of the scenario. They commit nothing.
    """

    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    traffic: TrafficByProtocol = field(default_factory=TrafficByProtocol)
    prefix: str = ""

    def of(self, client: str) -> dict[str, object]:
        """Settings for a client that uses its statistics for nothing else."""
        return {**self.settings, "stats_cb": partial(self.note, client)} if self.settings else {}

    def note(self, client: str, statistics: str) -> None:
        """Takes the statistics of a client that has its own `stats_cb`."""
        if self.settings:
            self.traffic.note(client, statistics)


def bytes_by_protocol(statistics: str) -> dict[str, int]:
    """Bytes sent and received, from a client's statistics. A broker's name there: "sasl_ssl://127.0.0.1:9092/1"."""
    found: Counter[str] = Counter()
    for name, broker in json.loads(statistics)["brokers"].items():
        moved = int(broker["txbytes"]) + int(broker["rxbytes"])
        if broker.get("source") != _LOGICAL and moved:
            protocol, scheme, _ = name.partition("://")
            found[protocol if scheme else _PLAIN] += moved
    return dict(found)
