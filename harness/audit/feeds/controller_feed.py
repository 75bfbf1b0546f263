"""The metadata log from the active controller, by the requests with which brokers follow it.

Needs CLUSTER_ACTION on the cluster, the brokers' own permission, and the address of a controller's listener. The
controllers do not notice the reader: with the replica id -1 it is no observer of the quorum.

Only what lies below the high watermark of an answer is delivered, and each fetch begins where delivery ended. So a new
leader that truncates the log never takes back what was delivered. If one does, committed records were lost.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Sequence
from typing import BinaryIO, Final

from harness.audit.feeds.controller_quorum import ControllerQuorum, TryAgain
from harness.audit.feeds.feed import START, FeedSilent, Portion, Position
from harness.kafka.admin.link import Address
from harness.kafka.admin.metadata_fetch import (
    Fetched,
    SnapshotId,
    fetch_call,
    fetched,
    piece_of,
    snapshot_call,
)
from harness.kafka.admin.security import PLAINTEXT, Security
from harness.kafka.storage.log_piece import OtherLog, Piece, read_piece
from harness.kafka.storage.metadata_log import snapshot_in
from harness.kafka.storage.record_batch import size_of_first
from harness.model.history.log import Snapshot

PORTION_BYTES: Final = 256 << 10  # decoded, they take about 15 times as much
_LONG_POLL_S: Final = 0.55  # a controller writes a record at least every 0.5 s by default
_WAY_S: Final = 0.25  # of a poll, at most, for the way of a question and its answer
_WAIT_S_MIN: Final = 0.02  # with less than this left, a poll asks no more
_QUIET_S: Final = 2.0  # a quorum writes twice a second by default; after this time other nodes are asked, too
_PAUSE_S: Final = 0.005  # while the newest records are not committed; followers usually take less
_PAUSE_S_MAX: Final = 0.1  # the same if it lasts


class ControllerFeed:
    """Follows the quorum's leader. `addresses`: some or all controllers; a leader that is not among them is learnt.

    Without `resume` it begins at the start of the log, or with the snapshot that replaces it. A poll takes 0.3 s at
    least if a node does not answer.
    """

    def __init__(
        self, addresses: Sequence[Address], security: Security = PLAINTEXT, resume: Position | None = None
    ) -> None:
        self.name = f"controllers {','.join(f'{host}:{port}' for host, port in addresses)}"
        self._at = resume or START
        self._quorum = ControllerQuorum(addresses, security)
        self._received: _Received | None = None  # the last answer, while parts of it may be undelivered
        self._download: _Download | None = None
        self._snapshot: BinaryIO | None = None  # the file of the last portion
        self._missed: str | None = None  # to be said in the next portion
        self._heard_at_s = time.monotonic()  # when records came last, or when all nodes were asked for another leader
        self._looking_elsewhere = False
        self._uncommitted = 0  # answers in a row with nothing but uncommitted records
        self._files = threading.Lock()  # held while files are used, because another thread may close the feed

    def poll(self, wait_s: float) -> Portion | None:
        give_up_at = time.monotonic() + wait_s
        with self._files:
            self._drop_snapshot()
        self._quorum.answered = asked = False
        while True:
            left_s = give_up_at - time.monotonic()
            if self._received is None and ((asked and left_s < _WAIT_S_MIN) or self._quorum.closed):
                self._quorum.raise_if_silent(self.name)
                return None
            asked = True
            try:
                with self._files:
                    portion = self._step(left_s)
            except TryAgain as again:
                time.sleep(max(0.0, min(again.pause_s, give_up_at - time.monotonic())))
                continue
            except OSError as refused:
                time.sleep(max(0.0, min(_PAUSE_S_MAX, give_up_at - time.monotonic())))
                raise FeedSilent(f"{self.name}: no snapshot can be stored here: {refused.strerror}") from refused
            if portion is not None:
                return portion

    def close(self) -> None:
        self._quorum.close()
        with self._files:
            self._drop_download()
            self._drop_snapshot()

    def _step(self, left_s: float) -> Portion | None:
        """One question, or the next part of the last answer."""
        if self._received is not None:
            return self._deliver(self._received)
        if self._download is not None:
            return self._next_piece(self._download, left_s)
        return self._fetch(left_s)

    def _fetch(self, left_s: float) -> Portion | None:
        wait_ms = int(1000 * min(_LONG_POLL_S, max(left_s - _WAY_S, left_s / 2, 0.0)))
        if not self._looking_elsewhere and time.monotonic() - self._heard_at_s > _QUIET_S:
            self._looking_elsewhere = True
            self._quorum.move_on()
        epoch = self._quorum.epoch
        question = fetch_call(epoch, self._at.offset, min(self._at.epoch, epoch), wait_ms, PORTION_BYTES)
        asked_at_s = time.monotonic()
        answer = fetched(self._quorum.ask(question, left_s))
        self._quorum.check(answer.error, answer.leader)
        if self._looking_elsewhere:  # this is the one that leads, or the same as before
            self._looking_elsewhere, self._heard_at_s = False, time.monotonic()
        if epoch < self._at.epoch:
            raise self._quorum.unusable(
                f"it leads in epoch {epoch}, and a record of epoch {self._at.epoch} was committed before; see whether "
                "this is the same cluster"
            )
        if answer.diverges_at is not None:
            self._begin_again(f"the leader's log has other records from offset {answer.diverges_at} on")
        elif answer.snapshot is not None:
            if 0 < self._at.offset < answer.log_start:
                self._missed = f"the records from offset {self._at.offset} on were deleted before they were read"
            elif self._at.offset > 0:
                self._begin_again(f"the leader's log has no record of epoch {self._at.epoch} there")
            self._download = _Download(answer.snapshot)
        elif self._missed is not None:
            return self._started(Snapshot(*START, 0, ()), answer.high_watermark, asked_at_s)
        elif answer.records:
            self._received = _Received(answer, asked_at_s)
        return None

    def _deliver(self, received: _Received) -> Portion | None:
        """The next committed records of an answer; None when it has no more."""
        try:
            piece = received.take(self._at)
        except OtherLog as other:
            self._received = None
            self._begin_again(str(other))
            return None
        if piece.batches:
            self._at = Position(piece.batches[-1].last_offset + 1, piece.batches[-1].epoch)
            self._uncommitted = 0
            self._heard_at_s = time.monotonic()
            return Portion(None, tuple(piece.batches), self._at.offset, received.high_watermark, received.asked_at_s)
        if piece.problem is not None:
            self._received = None
            raise self._quorum.unusable(f"its records cannot be used: {piece.problem}")
        self._received = None
        if received.nothing_committed:
            self._uncommitted += 1
            raise TryAgain(min(_PAUSE_S * 2 ** min(self._uncommitted - 1, 8), _PAUSE_S_MAX))
        return None

    def _next_piece(self, download: _Download, left_s: float) -> Portion | None:
        """Fetches the next piece of a snapshot; a portion when it was the last one.

        After any failure it starts over, because the files of one snapshot may differ between controllers.
        """
        try:
            question = snapshot_call(self._quorum.epoch, download.snapshot, download.size_bytes, PORTION_BYTES)
            asked_at_s = time.monotonic()
            answer = piece_of(self._quorum.ask(question, left_s))
            self._quorum.check(answer.error, answer.leader)
            download.add(answer.data)
            if download.size_bytes < answer.size_bytes:
                return None
            snapshot = download.opened()
            if snapshot.problem is not None:
                raise self._quorum.unusable(f"its snapshot cannot be used: {snapshot.problem}")
        except BaseException:
            self._drop_download()
            raise
        self._download, self._snapshot = None, download.file
        self._at = Position(snapshot.end_offset, snapshot.epoch)
        return self._started(snapshot, snapshot.end_offset, asked_at_s)

    def _begin_again(self, why: str) -> None:
        """Starts from the beginning, because what was delivered as committed is not in the leader's log."""
        at = f"offset {self._at.offset - 1} was committed in epoch {self._at.epoch}"
        self._missed = f"{at}, and {why}: the quorum lost committed records, or the log is another"
        self._at = START

    def _started(self, snapshot: Snapshot, high_watermark: int, asked_at_s: float) -> Portion:
        missed, self._missed = self._missed, None
        return Portion(snapshot, (), snapshot.end_offset, high_watermark, asked_at_s, missed)

    def _drop_download(self) -> None:
        if self._download is not None:
            self._download.file.close()
        self._download = None

    def _drop_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
        self._snapshot = None


class _Received:
    """The records of one answer. A controller may send more than it was asked for, so they are decoded in parts."""

    def __init__(self, answer: Fetched, asked_at_s: float) -> None:
        self.high_watermark = answer.high_watermark
        self.asked_at_s = asked_at_s
        self.nothing_committed = True
        self._left = memoryview(answer.records)

    def take(self, at: Position) -> Piece:
        """The next committed batches, about PORTION_BYTES of them; none when the answer has no more."""
        data = bytes(self._left[: max(PORTION_BYTES, size_of_first(self._left))])
        piece = read_piece(data, at.offset, at.epoch, self.high_watermark)
        if piece.batches:
            self.nothing_committed = False
        self._left = self._left[piece.used_bytes :]
        return piece


class _Download:
    """A snapshot that is being fetched into a temporary file, because a large cluster's does not fit into memory."""

    def __init__(self, snapshot: SnapshotId) -> None:
        self.snapshot = snapshot
        self.size_bytes = 0
        self.file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the portion that it becomes

    def add(self, data: bytes) -> None:
        self.file.write(data)
        self.size_bytes += len(data)

    def opened(self) -> Snapshot:
        self.file.flush()
        return snapshot_in(self.file, self.size_bytes, self.snapshot.end_offset, self.snapshot.epoch)
