"""How clients come in where listeners are secure, and what shows that they did."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

_PLAIN: Final = "plaintext"  # librdkafka names no protocol then
_LOGICAL: Final = "logical"  # another name of a broker that has one with its protocol, such as GroupCoordinator


class Ways:
    """By which protocol each client has moved how many bytes, by its own statistics. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: dict[str, dict[str, int]] = defaultdict(dict)

    def note(self, client: str, statistics: str) -> None:
        """Of one incarnation of a client; of several the highest figure stays."""
        reported = bytes_by_protocol(statistics)
        with self._lock:
            seen = self._bytes[client]
            for protocol, count in reported.items():
                seen[protocol] = max(count, seen.get(protocol, 0))

    def of(self, client: str) -> dict[str, int]:
        """Bytes of one client by protocol; empty while nobody told any."""
        with self._lock:
            return dict(self._bytes.get(client, {}))

    def seen(self) -> dict[str, dict[str, int]]:
        """The same of every client, by its name."""
        with self._lock:
            return {client: dict(reported) for client, reported in sorted(self._bytes.items())}


@dataclass(frozen=True, slots=True)
class Access:
    """settings: of librdkafka, for whoever writes or reads records; none where listeners are plain."""

    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    ways: Ways = field(default_factory=Ways)

    def of(self, client: str) -> dict[str, Any]:
        """Settings of a client that has no use for its statistics but this."""
        return {**self.settings, "stats_cb": partial(self.note, client)} if self.settings else {}

    def note(self, client: str, statistics: str) -> None:
        """For clients that have: passes on what they are told."""
        if self.settings:
            self.ways.note(client, statistics)


def bytes_by_protocol(statistics: str) -> dict[str, int]:
    """Sent and received, from a client's statistics: there a broker is called "sasl_ssl://127.0.0.1:9092/1"."""
    found: Counter[str] = Counter()
    for name, broker in json.loads(statistics)["brokers"].items():
        moved = int(broker["txbytes"]) + int(broker["rxbytes"])
        if broker.get("source") != _LOGICAL and moved:
            protocol, scheme, _ = name.partition("://")
            found[protocol if scheme else _PLAIN] += moved
    return dict(found)
