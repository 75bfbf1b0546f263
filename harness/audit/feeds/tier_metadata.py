"""The states of segments in the remote tier, from `__remote_log_metadata` (KIP-405), as a consumer without a group.

At the start the whole topic is read, because states are only changes of earlier ones. What was there before the start
is past: it makes the state, and no event.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.audit.feeds.states import partition_states
from harness.audit.store.segments import RemoteSegments
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.fetch import FETCH_S, fetch_call, served
from harness.kafka.admin.wire import Unanswered
from harness.kafka.storage.record_batch import Batch, Walk
from harness.kafka.storage.records import records_of
from harness.kafka.storage.remote_log_metadata import TierRecord, decode

TOPIC: Final = "__remote_log_metadata"
_MAX_BYTES: Final = 256 << 10
_PLAIN: Final = "none"


@dataclass(frozen=True, slots=True)
class TierRow:
    """A record. past: it was there when the source began."""

    record: TierRecord
    past: bool


class TierMetadata:
    """Follows every partition of the topic. Without the topic there is nothing to follow, which is no failure.

    segments: what the records say so far, for another source in the same thread.
    read_ns: when the last read began that went to the end of every partition; None = there was none.
    """

    covers: Final = "tier"

    def __init__(self, brokers: Brokers, every_s: float = 1.0, *, keep: bool = False) -> None:
        """keep: `segments` are needed; the engine folds its own."""
        self.every_s: Final = every_s
        self.segments: Final = RemoteSegments()
        self.read_ns: int | None = None
        self._keep = keep
        self._brokers = brokers
        self._next: dict[int, int] = {}  # partition -> next offset
        self._past_end: dict[int, int] = {}  # partition -> high watermark at the start

    def poll(self) -> Iterator[TierRow]:
        """Everything new. Unanswered when a leader does not answer; the next poll continues there."""
        begun_ns = time.time_ns()
        broker = next(iter(self._brokers.ids), None)
        if broker is None:
            raise Unanswered("no broker is known")
        for state in [*partition_states(self._brokers, broker, (TOPIC,))]:
            if state.error == "UNKNOWN_TOPIC_OR_PARTITION":
                return
            if state.leader < 0:
                raise Unanswered(f"{TOPIC}-{state.partition} has no leader")
            yield from self._follow(state.leader, state.partition)
        self.read_ns = begun_ns

    def close(self) -> None:
        """The brokers belong to the caller."""

    def _follow(self, leader: int, partition: int) -> Iterator[TierRow]:
        while True:
            at = self._next.get(partition, 0)
            answer = served(self._brokers.ask(leader, fetch_call(TOPIC, partition, at, _MAX_BYTES, 0), FETCH_S))
            if answer.error is not None:
                raise Unanswered(f"{TOPIC}-{partition}: {answer.error}")
            past_end = self._past_end.setdefault(partition, answer.high_watermark)
            if not answer.records:
                return
            for batch, offset, value in _values(answer.records):
                if batch.codec != _PLAIN:
                    raise Unanswered(f"{TOPIC}-{partition} has a batch with compression {batch.codec}")
                if offset < at:
                    continue
                if value is not None:
                    record = decode(value)
                    if self._keep:
                        self.segments.apply(record)
                    yield TierRow(record, offset < past_end)
                self._next[partition] = offset + 1
            if self._next.get(partition, 0) == at:
                return  # nothing but markers or a batch that does not fit: neither is written here


def _values(data: bytes) -> Iterator[tuple[Batch, int, bytes | None]]:
    """The values of all whole batches, with their offsets."""
    for batch in Walk(io.BytesIO(data), len(data)):
        if batch.codec != _PLAIN:
            yield batch, batch.last_offset, None
            continue
        for offset, _, _, value in records_of(batch, data):
            yield batch, offset, value
