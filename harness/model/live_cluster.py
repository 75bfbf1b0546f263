"""An existing cluster, as it was found: what scenarios are compared with before they run on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """One of Kafka's own topics as it is. replicas: the fewest of any of its partitions."""

    partitions: int
    replicas: int
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCluster:
    """bootstrap: as the user gave it. brokers: the address of each. voters: ids of the controllers that vote.

    settings: of each broker, as far as they are no secrets. internal: those of Kafka's own topics that exist.
    log_dirs: the fewest of any broker. version: of Kafka, as the user says; None = not known.
    """

    cluster_id: str
    bootstrap: str
    brokers: Mapping[int, tuple[str, int]]
    voters: tuple[int, ...]
    settings: Mapping[int, Mapping[str, str]]
    features: Mapping[str, int]
    internal: Mapping[str, InternalTopic]
    log_dirs: int
    version: str | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of the brokers, in order."""
        return tuple(sorted(self.brokers))

    @property
    def controllers(self) -> tuple[int, ...]:
        """Controllers that are not brokers, too. One that is both has no life of its own for a fault to end."""
        return tuple(node for node in sorted(self.voters) if node not in self.brokers)

    def setting(self, key: str) -> dict[int, str | None]:
        """The value of a setting on each broker; None = the broker does not report it."""
        return {broker: self.settings[broker].get(key) for broker in self.ids}
