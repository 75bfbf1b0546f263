"""Running counters of the load, for steps and waits: cheap, one set a partition, in time buckets of 100 ms.

The verifier never reads them; it reads the ledger.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.model.place import Place
from harness.workload.records.payload import Int64s

BUCKET_NS: Final = 100_000_000
NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Mark:
    """The progress of a load at one moment."""

    acked: dict[Place, int]  # highest acked offset
    commits: dict[str, int]  # acknowledged commits, by group
    committed: dict[str, int]  # transactions, by producer


class Meters:
    """Shared by all producers of a run; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered: dict[Place, Counter[int]] = defaultdict(Counter)  # acked records, by the bucket of their send
        self._acked = 0
        self._bytes: Counter[Place] = Counter()
        self._last_ack_ns: dict[Place, int] = {}
        self._highest: dict[Place, int] = {}
        self._errors: Counter[str] = Counter()
        self._unknown = 0
        self._retries: dict[str, int] = {}

    def acked(
        self, place: Place, called_ns: Sequence[int] | Int64s, value_bytes: int, highest_offset: int, at_ns: int
    ) -> None:
        """Counts acks that were reported at `at_ns`, for records that were sent at `called_ns` (one time a record).

        `highest_offset` is -1 where no ack has an offset.
        """
        buckets, counts = np.unique(np.asarray(called_ns, np.int64) // BUCKET_NS, return_counts=True)
        count = int(counts.sum())
        with self._lock:
            self._answered[place].update(dict(zip(buckets.tolist(), counts.tolist(), strict=True)))
            self._acked += count
            self._bytes[place] += value_bytes
            self._last_ack_ns[place] = at_ns
            self._highest[place] = max(self._highest.get(place, NONE), highest_offset)

    def failed(self, error: str, count: int = 1, *, unknown: bool = False) -> None:
        """Counts sends that ended with an error, by its name; `unknown` where the records may be in the log."""
        with self._lock:
            self._errors[error] += count
            self._unknown += count if unknown else 0

    def retried(self, client: str, total: int) -> None:
        """Stores a client's own count of records that it transmitted again."""
        with self._lock:
            self._retries[client] = max(total, self._retries.get(client, 0))

    def answered_since(self, place: Place, since_ns: int) -> int:
        """Acked records that were sent at `since_ns` or later, without those in the bucket of `since_ns` itself.

        The time of the ack would prove less: it may be a late ack of a record that every replica had before `since_ns`.
        """
        with self._lock:
            buckets = list(self._answered[place].items()) if place in self._answered else []
        return sum(n for bucket, n in buckets if bucket * BUCKET_NS >= since_ns)

    def last_ack_ns(self, place: Place) -> int:
        """When the last ack of a partition was reported, in epoch nanoseconds; 0 = never."""
        with self._lock:
            return self._last_ack_ns.get(place, 0)

    def acked_bytes(self, place: Place) -> int:
        """Bytes of values acked on a partition, before compression."""
        with self._lock:
            return self._bytes[place]

    def highest_acked(self) -> dict[Place, int]:
        """The highest acked offset by partition; -1 where the acks had no offset."""
        with self._lock:
            return dict(self._highest)

    def forget_offsets(self, topic: str) -> None:
        """Drops the highest offsets of a topic that was deleted and recreated: the new topic starts at offset 0."""
        with self._lock:
            for place in [place for place in self._highest if place[0] == topic]:
                del self._highest[place]

    def total_acked(self) -> int:
        """Acks of the whole run."""
        with self._lock:
            return self._acked

    def errors(self) -> dict[str, int]:
        """Sends that ended with an error, by the error's name."""
        with self._lock:
            return dict(self._errors)

    def unknown(self) -> int:
        """Sends that ended with an error and may nevertheless be in the log."""
        with self._lock:
            return self._unknown

    def retries(self) -> int:
        """Records that any client transmitted again, by its own statistics (refreshed every 0.5 s)."""
        with self._lock:
            return sum(self._retries.values())
