"""Whether the leaders of tiered partitions copy their closed segments to the remote tier (KIP-405)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter

from harness.model.documents.run import TierLag
from harness.model.place import Place
from harness.run.stalls import Stalled, Stalls

Replica = tuple[str, int, int]  # topic, partition, broker


@dataclass(frozen=True, slots=True)
class Lag:
    """See TierLag. Further closed segments are no progress."""

    topic_id: str
    leader: int
    tiered_end: int
    closed_end: int = field(compare=False)


Lags = Stalls[Place, Lag]


def documents(stalled: Iterable[Stalled[Place, Lag]]) -> tuple[TierLag, ...]:
    """The partitions of which a leader has copied nothing, for run.json."""
    return tuple(
        TierLag(
            topic=one.of[0],
            topic_id=one.seen.topic_id,
            partition=one.of[1],
            leader=one.seen.leader,
            tiered_end=one.seen.tiered_end,
            closed_end=one.seen.closed_end,
            still_s=one.still_s,
        )
        for one in sorted(stalled, key=attrgetter("of"))
    )
