"""What a rule may ask about the cluster: its state behind the last record, the last looks, settings and coverage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from harness.audit.look import RemoteSegment
from harness.audit.store.partitions import Offsets
from harness.model.history.changes import BrokerChange, PartitionChange


class View(Protocol):
    """The state of the cluster as the auditor knows it. The engine has the real one; tests may write their own."""

    @property
    def now_ns(self) -> int:
        """The wall clock of the auditor's machine."""
        ...

    def covers(self, what: str) -> bool:
        """Whether a source is there and up to date: "metadata", "offsets", "replicas", "tier", "objects",
        "groups", "transactions", "settings" or "logs"."""
        ...

    def partition(self, topic_id: str, partition: int) -> PartitionChange | None: ...

    def partitions(self, topic: str | None = None) -> Iterator[PartitionChange]:
        """All partitions, or those of a topic by its name."""
        ...

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic that exists."""
        ...

    def offsets(self, topic_id: str, partition: int) -> Offsets:
        """The last look."""
        ...

    def broker(self, broker: int) -> BrokerChange | None:
        """A registered broker."""
        ...

    def setting(self, topic: str, key: str) -> str | None:
        """The effective setting of a topic: its own, or the brokers', or Kafka's default; None if it is not known."""
        ...

    def own_setting(self, topic: str, key: str) -> str | None:
        """The dynamic setting of the topic alone."""
        ...

    def broker_setting(self, key: str, *, dynamic: bool = True) -> str | None:
        """A setting of all brokers by its own name: their dynamic default, or the value in their files, or Kafka's
        default; None if it is not known. Without `dynamic`, as if they had no dynamic default."""
        ...

    def feature(self, name: str) -> int:
        """The finalized level of a feature; 0 if it has none."""
        ...

    def epochs(self, topic_id: str, partition: int) -> Sequence[tuple[int, int]]:
        """(leader epoch, its first offset) of the epochs of a partition, as far as they are known, the oldest first."""
        ...

    def tier_bytes(self, topic_id: str, partition: int) -> int | None:
        """The bytes of the finished segments of a partition in the remote tier; None without the tier's metadata."""
        ...

    def tier_segments(self, topic_id: str, partition: int) -> Iterator[RemoteSegment]:
        """The segments of a partition in the remote tier, as far as they are known, in any state but deleted."""
        ...

    def committed(self, group: str) -> Mapping[tuple[str, int], int]:
        """The committed offsets of a chosen group at the last look, by topic and partition."""
        ...
