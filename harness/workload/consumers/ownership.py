"""Which members of a group have a partition, as their clients report it, and whether two ever had it at once.

With the consumer protocol (KIP-848) the coordinator gives a partition to its next member only after the former one has
given it up. A client says to its member whether it is asked to give a partition up, or has lost it because its session
ended; in the second case the next member may have the partition already.

A coordinator goes by what a client reports that it has. librdkafka may still report what it had before while it looks
up the topics of a new assignment; its heartbeats after the member has taken the partitions name them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable

from harness.model.clock import now_ns
from harness.model.documents.cluster import OwnedTwice
from harness.model.place import Place


class Ownership:
    """All groups of a load. The threads of all members use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By owner: since when it holds the partition; None = not yet.
        self._owners: defaultdict[tuple[str, Place], dict[str, int | None]] = defaultdict(dict)
        # By the former member: when another one got the partition, and which one.
        self._taken: dict[tuple[str, Place, str], tuple[int, str]] = {}
        self._twice: list[OwnedTwice] = []

    def got(self, group: str, member: str, places: Iterable[Place]) -> None:
        """A member was assigned partitions."""
        at_ns = now_ns()
        with self._lock:
            for place in places:
                for former in self._owners[group, place].keys() - {member}:
                    self._taken.setdefault((group, place, former), (at_ns, member))
                self._owners[group, place][member] = None

    def holds(self, group: str, member: str, places: Iterable[Place]) -> None:
        """A member has taken the partitions that it was assigned, so its client is about to report them."""
        at_ns = now_ns()
        with self._lock:
            for place in places:
                if member in self._owners[group, place]:
                    self._owners[group, place][member] = at_ns

    def gave_up(self, group: str, member: str, places: Iterable[Place]) -> None:
        """A member was asked to give partitions up, and is about to answer that it did."""
        at_ns = now_ns()
        with self._lock:
            for place in places:
                taken = self._taken.get((group, place, member))
                if taken is not None:
                    topic, partition = place
                    self._twice.append(
                        OwnedTwice(
                            group=group,
                            topic=topic,
                            partition=partition,
                            member=member,
                            next_member=taken[1],
                            held_ns=self._owners[group, place].get(member),
                            from_ns=taken[0],
                            until_ns=at_ns,
                        )
                    )
                self._forget(group, member, place)

    def lost(self, group: str, member: str, places: Iterable[Place]) -> None:
        """A member lost partitions: when that was, and which member has them, is unknown."""
        with self._lock:
            for place in places:
                self._forget(group, member, place)

    def twice(self) -> tuple[OwnedTwice, ...]:
        """When two members had one partition, in the order in which the former ones gave it up."""
        with self._lock:
            return tuple(self._twice)

    def _forget(self, group: str, member: str, place: Place) -> None:
        self._owners[group, place].pop(member, None)
        self._taken.pop((group, place, member), None)
