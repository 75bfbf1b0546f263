"""What delivery reports say of records that were acknowledged: where they stand, and of which time they are."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import numpy as np
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message

from harness.workload.meters import NONE
from harness.workload.records.payload import Bools, Int64s

_TYPES: Final = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "append"}


@dataclass(frozen=True, slots=True)
class Times:
    """Of records: as the client gave them, or where the log has times of its own (KIP-32), as the leader told."""

    at_ms: Int64s
    types: str | list[str | None] | None  # one for all, or of each

    @classmethod
    def of(cls, messages: list[Message]) -> Times:
        """From reports."""
        reported = list(map(Message.timestamp, messages))
        at_ms = np.fromiter(map(itemgetter(1), reported), np.int64, len(reported))
        types = list(map(itemgetter(0), reported))
        if len(set(types)) == 1:
            return cls(at_ms, _TYPES.get(types[0]))
        return cls(at_ms, list(map(_TYPES.get, types)))

    def among(self, mine: Bools) -> Times:
        """Those of some of the records."""
        types = self.types
        if isinstance(types, list):
            types = [types[at] for at in np.flatnonzero(mine).tolist()]
        return Times(self.at_ms[mine], types)


def offsets_of(messages: list[Message]) -> Int64s:
    """Offsets as told; -1 for failed sends, and for acks without one (a duplicate that the broker recognised)."""
    reported = [message.offset() for message in messages]
    if None in reported:
        reported = [NONE if offset is None else offset for offset in reported]
    return np.array(reported, np.int64)


def only_reported(offsets: Int64s) -> Int64s:
    """Offsets of one partition in the order of delivery, without those that no broker told.

    librdkafka counts on from the base offset of an answer, record by record. When that is -1 (a duplicate that the
    broker recognised and no longer knows the place of) it reports -1, 0, 1, 2, ... for the batch: only the first of
    these shows that it is none. An offset too many is taken away where a batch that was told happens to go on counting.
    """
    if not len(offsets) or offsets.min() >= 0:
        return offsets
    at = np.arange(len(offsets))
    untold = np.maximum.accumulate(np.where(offsets < 0, at, -1))  # the last offset that was not told
    counted = (untold >= 0) & ((offsets == at - untold - 1) | (offsets < 0))
    stopped = np.maximum.accumulate(np.where(counted, -1, at))  # the last offset that does not count on from it
    return np.where(counted & (stopped < untold), NONE, offsets)
