"""The metadata log as a stream: committed records in the order of their offsets, from whichever source can be read.

FeedSilent is the only error of a poll. A feed that raised it may be polled again, and continues where it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from harness.model.errors import HarnessFailure
from harness.model.history.log import LogBatch, Snapshot


class FeedSilent(HarnessFailure):
    """No source of the feed gave a usable answer within the wait. The text says why, by source."""


class Position(NamedTuple):
    """A place in the metadata log between two records. An auditor stores it to continue there after a restart."""

    offset: int  # of the next record
    epoch: int  # of the quorum's leader that wrote the record before it; 0 at the start of the log


START: Final = Position(0, 0)


@dataclass(frozen=True, slots=True)
class Portion:
    """The next committed piece of the metadata log.

    Portions of one feed are contiguous: each begins at `next_offset` of the one before, unless it has a snapshot.
    """

    snapshot: Snapshot | None
    """Replaces the whole state; batches continue at its end_offset. Its entries are decoded while they are iterated,
    because a large cluster's do not fit into memory. They can be iterated until the next poll, as often as needed."""
    batches: tuple[LogBatch, ...]
    """Committed only (cut at the high watermark), contiguous."""
    next_offset: int
    """Where the next portion begins."""
    high_watermark: int
    """As the quorum reported it. It may lie above next_offset while the feed catches up."""
    asked_at_s: float
    """Monotonic time before the question that this answers: what was committed by then lies below high_watermark."""
    missed: str | None = None
    """One sentence when records were lost to this feed, for example because they were deleted before they were read.
    The snapshot in the same portion has the state behind the gap, and not the changes inside it."""

    @property
    def position(self) -> Position | None:
        """Where a feed has to resume after this portion; None if the portion has no records."""
        if self.batches:
            return Position(self.next_offset, self.batches[-1].epoch)
        return None if self.snapshot is None else Position(self.next_offset, self.snapshot.epoch)


class Feed(Protocol):
    """A source of the metadata log. One thread at a time polls it."""

    @property
    def name(self) -> str:
        """For the user: "controllers 127.0.0.1:9093" or "metadata directory /x"."""

    def poll(self, wait_s: float) -> Portion | None:
        """The next portion; None if nothing new was committed within `wait_s`.

        Raises FeedSilent, with a reason, when no source answers within `wait_s`.
        """

    def close(self) -> None:
        """Closes sockets and files; idempotent. A poll in another thread ends with FeedSilent."""
