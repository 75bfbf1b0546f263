"""The metadata log from the disk of one running node, which need be no controller: every broker keeps a copy.

Nothing is asked of the node, so no permission of Kafka is needed. The disk does not say what is committed, so the
quorum's high watermark comes from elsewhere, with the epoch of the leader that reported it. A record below it is
committed only if this node's log has it from that leader, or from a later one: a node that was cut off keeps records
of a deposed leader at the same offsets. A log that has a record of an epoch has everything before it as the leader of
that epoch had it (the log matching property of Raft), so the newest epoch in the node's own log decides.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from harness.audit.feeds.feed import START, FeedSilent, Portion, Position
from harness.kafka.storage.log_directory import leader_epochs, segments
from harness.kafka.storage.log_piece import OtherLog
from harness.kafka.storage.log_tail import LogGap, LogTail
from harness.kafka.storage.metadata_log import snapshot_files, snapshot_in
from harness.model.errors import HarnessFailure
from harness.model.history.log import Snapshot

PORTION_BYTES: Final = 256 << 10  # decoded, they take about 15 times as much
_PAUSE_S: Final = 0.02  # between two looks at the size of a file
_PAUSE_S_MAX: Final = 0.2  # the same while records wait for the high watermark
NO_HIGH_WATERMARK: Final = "the high watermark of the quorum is not known, because no broker reports it"
_QUIET_S: Final = 2.0  # a running quorum writes twice a second, so after this time the quorum is asked


class CommittedEnd(NamedTuple):
    """The high watermark of the quorum, and the epoch of the leader that reported it."""

    offset: int
    epoch: int


class _NotYet(HarnessFailure):
    """The disk has records that cannot be delivered. silent: that is more than a matter of milliseconds."""

    def __init__(self, text: str, *, silent: bool) -> None:
        super().__init__(text)
        self.silent = silent


class DirectoryFeed:
    """Follows a folder `__cluster_metadata-0`. `committed` returns within about a second; None = not known.

    Without `resume` it begins at the node's newest snapshot, or at offset 0 if there is none.
    """

    def __init__(
        self, folder: Path, committed: Callable[[], CommittedEnd | None], resume: Position | None = None
    ) -> None:
        self.name = f"metadata directory {folder}"
        self._folder = folder
        self._committed = committed
        self._resume = resume
        self._tail: LogTail | None = None  # None until the start was chosen
        self._snapshot: BinaryIO | None = None
        self._missed: str | None = None  # to be said in the next portion
        self._silence = _Silence(committed)
        self._closed = False
        self._files = threading.Lock()  # held while files are used, because another thread may close the feed

    def poll(self, wait_s: float) -> Portion | None:
        give_up_at = time.monotonic() + wait_s
        with self._files:
            self._drop_snapshot()
        pause_s = _PAUSE_S
        while True:
            silent: str | None = None
            try:
                with self._files:
                    portion = self._look()
                if portion is not None:
                    self._silence.ended()
                    return portion
                pause_s = _PAUSE_S
            except _NotYet as waits:
                silent = str(waits) if waits.silent else None
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
            except OSError as refused:
                silent = f"{refused.filename or self._folder} cannot be read: {refused.strerror or refused}"
            except HarnessFailure as refused:
                silent = str(refused)
            left_s = give_up_at - time.monotonic()
            if left_s <= 0 or self._closed:
                if silent is not None:
                    raise FeedSilent(f"{self.name}: {silent}")
                return None
            time.sleep(min(pause_s, left_s))

    def close(self) -> None:
        self._closed = True
        with self._files:
            self._drop_snapshot()
            if self._tail is not None:
                self._tail.close()

    def _look(self) -> Portion | None:
        """The next portion, if the disk has one and it is known to be committed."""
        if self._closed:
            raise _NotYet("it was closed", silent=True)
        if self._tail is None and self._resume is None:
            return self._begin(None)
        try:
            if self._tail is not None and not self._tail.has_more():
                self._silence.check(self._tail.offset)
                return None
        except LogGap as gap:
            return self._behind(gap)
        asked_at_s = time.monotonic()
        end = self._committed()
        if end is None:
            raise _NotYet(NO_HIGH_WATERMARK, silent=True)
        # First the high watermark, then the epochs, then the records: see the module's text.
        epochs = leader_epochs(self._folder)
        if not epochs or epochs[-1][0] < end.epoch:
            raise _NotYet(f"the node's log has no record of leader epoch {end.epoch} yet", silent=True)
        if self._tail is None:
            assert self._resume is not None
            if (why := _other_log(self._resume, end, epochs)) is not None:
                return self._begin(why)
            self._tail = LogTail(self._folder, *self._resume)
        return self._read(self._tail, end, asked_at_s)

    def _read(self, tail: LogTail, end: CommittedEnd, asked_at_s: float) -> Portion | None:
        try:
            batches = tail.read(end.offset, PORTION_BYTES)
            if batches:
                return Portion(None, tuple(batches), tail.offset, end.offset, asked_at_s)
            if tail.problem is not None:
                raise _NotYet(tail.problem, silent=True)
            if tail.has_more():
                raise _NotYet("the newest records are not committed yet", silent=False)
        except LogGap as gap:
            return self._behind(gap)
        except OtherLog as other:
            return self._begin(f"{other}: the log is another than before")
        return None

    def _behind(self, gap: LogGap) -> Portion | None:
        return self._begin(f"the records from offset {gap.wanted} on were deleted from the disk before they were read")

    def _begin(self, missed: str | None) -> Portion | None:
        """Starts at the newest usable snapshot, or at offset 0.

        If that fails, it is tried again, and `missed` is said then.
        """
        self._missed = missed or self._missed
        if self._tail is not None:
            self._tail.close()
            self._tail = None
        bases = [segment.base_offset for segment in segments(self._folder)]
        if not bases:
            raise _NotYet("the folder has no segments", silent=True)
        snapshot = self._newest_snapshot(bases[0])
        start = Position(snapshot.end_offset, snapshot.epoch) if snapshot is not None else START
        self._tail, self._resume = LogTail(self._folder, *start), None
        if snapshot is None and self._missed is None:
            return self._look()
        missed, self._missed = self._missed, None
        return Portion(
            snapshot=snapshot or Snapshot(*START, 0, ()),
            batches=(),
            next_offset=start.offset,
            high_watermark=start.offset,
            asked_at_s=time.monotonic(),
            missed=missed,
        )

    def _newest_snapshot(self, log_start: int) -> Snapshot | None:
        """The newest usable one from which the log goes on; None without one, if the log begins at offset 0.

        Snapshots have committed records only. That of offset 0 has what the log repeats at its start (KIP-853).
        """
        for end_offset, epoch, path in reversed(snapshot_files(self._folder)):
            if end_offset >= max(log_start, 1):
                file = path.open("rb")
                snapshot = snapshot_in(file, path.stat().st_size, end_offset, epoch)
                if snapshot.problem is None:
                    self._snapshot = file
                    return snapshot
                file.close()
        if log_start > 0:
            text = f"the log begins at offset {log_start}, and no usable snapshot has the records before it"
            raise _NotYet(text, silent=True)
        return None

    def _drop_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None


class _Silence:
    """Notices that the quorum commits records that do not arrive on the disk, by asking it when nothing was read."""

    def __init__(self, committed: Callable[[], CommittedEnd | None]) -> None:
        self._committed = committed
        self.ended()

    def ended(self) -> None:
        """Something was read."""
        self._ask_at_s = time.monotonic() + _QUIET_S
        self._expected = 0  # an offset that was committed some time ago
        self._text: str | None = None

    def check(self, offset: int) -> None:
        """Raises when the node's log ends at `offset`, although more was committed at the last question already."""
        if time.monotonic() >= self._ask_at_s:
            end = self._committed()
            self._ask_at_s = time.monotonic() + _QUIET_S
            self._text = None
            if end is None:
                self._text = NO_HIGH_WATERMARK
            elif offset < self._expected:
                text = f"the node's log ends at offset {offset}, and the quorum has committed up to {end.offset}"
                self._text = f"{text}; see whether the node runs"
            self._expected = end.offset if end is not None else self._expected
        if self._text is not None:
            raise _NotYet(self._text, silent=True)


def _other_log(resume: Position, end: CommittedEnd, epochs: Sequence[tuple[int, int]]) -> str | None:
    """Why the log is not the one that was read up to `resume`; None if it is. Only committed records were read."""
    if end.epoch < resume.epoch:
        raise _NotYet(
            f"the quorum reports leader epoch {end.epoch}, and a record of epoch {resume.epoch} was committed before; "
            "see whether this is the same cluster",
            silent=True,
        )
    epoch = max((epoch for epoch, start in epochs if start < resume.offset), default=resume.epoch)
    if epoch != resume.epoch:
        text = f"offset {resume.offset - 1} was written in epoch {resume.epoch}, and now has a record of epoch {epoch}"
    elif end.offset < resume.offset:
        text = f"offset {resume.offset - 1} was committed, and the high watermark is {end.offset}"
    else:
        return None
    return f"{text}: the quorum lost committed records, or the log is another"
