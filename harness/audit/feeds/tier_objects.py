"""Whether the objects of finished segments are in a remote tier that this machine sees as a folder. It only reads.

Known are the layouts of Kafka's LocalTieredStorage and of Aiven's storage manager; a bucket counts when it is mounted.
An object that is missing is reported when a whole later read of `__remote_log_metadata` still calls the segment
finished: brokers write there that they delete a segment before they delete its object.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from harness.audit.feeds.tier_metadata import TierMetadata
from harness.audit.look import ObjectLook, RemoteSegment
from harness.audit.store.segments import FINISHED
from harness.model.clock import NS_PER_S
from harness.model.errors import BadInput, HarnessFailure

EVERY_S: Final = 5.0
_EACH: Final = 100  # objects of one poll: in a mounted bucket each is a request
_ANSWER_S: Final = 10.0  # a mount without its server answers never
_SETTLE_S: Final = 5.0  # a new leader of the metadata knows its high watermark a moment late
_BUCKET: Final = "kafka-tiered-storage"  # the folder that LocalTieredStorage makes in its own


class TierObjects:
    """Goes through all finished segments again and again.

    It reports nothing while the folder is empty, or no object was ever found: it may be another one, or not mounted.
    """

    covers: Final = "objects"

    def __init__(self, folder: Path, metadata: TierMetadata, every_s: float = EVERY_S) -> None:
        """metadata: the same thread must ask it, too. BadInput if the folder cannot be read."""
        self.every_s: Final = every_s
        self._folder = folder
        self._metadata = metadata
        self._round: Iterator[RemoteSegment] = iter(())
        self._found = 0  # objects in the whole time
        self._missing: dict[str, tuple[RemoteSegment, int]] = {}  # segment id -> and since when
        self._reported: dict[str, RemoteSegment] = {}
        self._worker: threading.Thread | None = None
        try:
            next(folder.iterdir(), None)
        except OSError as refused:
            raise BadInput(
                f"--tier-dir {folder} cannot be read ({refused.strerror}); give the folder with the objects of the tier"
            ) from None

    def poll(self) -> Iterator[ObjectLook]:
        """Objects that are missing, and those that are back. HarnessFailure if the folder shows nothing."""
        read_ns = self._metadata.read_ns
        if read_ns is None:
            raise HarnessFailure("__remote_log_metadata was not read yet")
        asked = [*self._suspects(), *self._next()]
        for segment, there, at_ns in self._look(asked):
            self._found += there
            if there:
                self._missing.pop(segment.segment_id, None)
                if self._reported.pop(segment.segment_id, None) is not None:
                    yield self._seen(segment, at_ns, read_ns, back=True)
                continue
            _, since_ns = self._missing.setdefault(segment.segment_id, (segment, at_ns))
            if read_ns > since_ns + _SETTLE_S * NS_PER_S and segment.segment_id not in self._reported and self._found:
                self._reported[segment.segment_id] = segment
                yield self._seen(segment, since_ns, read_ns)
        if asked and not self._found:
            raise HarnessFailure(
                f"--tier-dir {self._folder} has no object of {len(asked)} finished segments: it is not mounted, it is "
                "another folder, its layout is not known, or all objects are lost"
            )

    def close(self) -> None:
        """The thread that asks ends with the process."""

    def _suspects(self) -> Iterator[RemoteSegment]:
        """Missing objects whose segment is still finished. It drops the others, which brokers deleted."""
        for segment_id, (segment, _) in [*self._missing.items()]:
            place = segment.topic_id, segment.partition
            if self._metadata.segments.state(*place, segment_id) == FINISHED:
                yield segment
            else:
                del self._missing[segment_id]
                self._reported.pop(segment_id, None)

    def _next(self) -> list[RemoteSegment]:
        """The next segments of the round; behind its end a new one begins."""
        chosen = [*islice(self._round, _EACH)]
        if not chosen:
            self._round = self._finished()
            chosen = [*islice(self._round, _EACH)]
        return [segment for segment in chosen if segment.segment_id not in self._missing]

    def _finished(self) -> Iterator[RemoteSegment]:
        segments = self._metadata.segments
        for place in segments.places():
            for segment in [*segments.of(*place)]:
                # It may have changed since the list was made.
                if segment.state == FINISHED and segments.state(*place[1:], segment.segment_id) == FINISHED:
                    yield segment

    def _look(self, asked: Sequence[RemoteSegment]) -> list[tuple[RemoteSegment, bool, int]]:
        """(segment, whether its object is there, when). In a thread, because a dead mount blocks for ever."""
        seen: list[tuple[RemoteSegment, bool, int]] = []
        refused: list[OSError] = []

        def work() -> None:
            try:
                for segment in asked if next(self._folder.iterdir(), None) else ():
                    at_ns = time.time_ns()
                    seen.append((segment, any(map(_holds, self._paths(segment))), at_ns))
            except OSError as why:
                refused.append(why)

        if self._worker is None or not self._worker.is_alive():
            self._worker = threading.Thread(target=work, name="audit-objects", daemon=True)
            self._worker.start()
            self._worker.join(_ANSWER_S)
        if self._worker.is_alive():
            raise HarnessFailure(f"--tier-dir {self._folder} does not answer")
        if refused:
            raise HarnessFailure(f"--tier-dir {self._folder} cannot be read ({refused[0].strerror})")
        if len(seen) < len(asked):
            raise HarnessFailure(f"--tier-dir {self._folder} is empty: it is not mounted, or all objects are lost")
        return seen

    def _paths(self, segment: RemoteSegment) -> Iterator[Path]:
        topic, topic_id, partition = segment.topic, segment.topic_id, segment.partition
        name = f"{segment.first_offset:020d}-{segment.segment_id}.log"
        yield self._folder / _BUCKET / f"{topic}-{partition}-{topic_id}" / name
        yield self._folder / f"{topic}-{partition}-{topic_id}" / name
        yield self._folder / f"{topic}-{topic_id}" / f"{partition}" / name  # Aiven's

    def _seen(self, segment: RemoteSegment, at_ns: int, read_ns: int, *, back: bool = False) -> ObjectLook:
        place = segment.topic_id, segment.partition
        return ObjectLook(
            segment=segment,
            object_name=f"{segment.first_offset:020d}-{segment.segment_id}.log",
            missing_ns=at_ns,
            metadata_ns=read_ns,
            state=self._metadata.segments.state(*place, segment.segment_id),
            back=back,
        )


def _holds(path: Path) -> bool:
    """Whether the object is there with some bytes. OSError where the folder does not say it."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False
