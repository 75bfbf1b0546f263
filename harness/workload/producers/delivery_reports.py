"""Offsets and timestamps from the delivery reports of acknowledged records."""

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
    """Timestamps of records: the client's, or with message.timestamp.type=LogAppendTime (KIP-32) the leader's."""

    at_ms: Int64s
    types: str | list[str | None] | None  # one for all records, or one for each

    @classmethod
    def of(cls, messages: list[Message]) -> Times:
        """The timestamps in delivery reports."""
        reported = list(map(Message.timestamp, messages))
        at_ms = np.fromiter(map(itemgetter(1), reported), np.int64, len(reported))
        types = list(map(itemgetter(0), reported))
        if len(set(types)) == 1:
            return cls(at_ms, _TYPES.get(types[0]))
        return cls(at_ms, list(map(_TYPES.get, types)))

    def among(self, mine: Bools) -> Times:
        """The timestamps of the records that the mask selects."""
        types = self.types
        if isinstance(types, list):
            types = [types[at] for at in np.flatnonzero(mine).tolist()]
        return Times(self.at_ms[mine], types)


def offsets_of(messages: list[Message]) -> Int64s:
    """Offsets as reported; -1 for failed sends, and for acks without an offset (a duplicate that the broker knows)."""
    reported = [message.offset() for message in messages]
    if None in reported:
        reported = [NONE if offset is None else offset for offset in reported]
    return np.array(reported, np.int64)


def only_reported(offsets: Int64s) -> Int64s:
    """Offsets of one partition in the order of delivery, with -1 for those that librdkafka made up.

    librdkafka adds 0, 1, 2, ... to the base offset of an answer. If that is -1 (a duplicate with an offset that the
    broker no longer knows), it reports -1, 0, 1, 2, ... for the batch, and only the first of these is visibly no
    offset. This removes too many offsets if the next batch really starts where that count ends.
    """
    if not len(offsets) or offsets.min() >= 0:
        return offsets
    at = np.arange(len(offsets))
    missing = np.maximum.accumulate(np.where(offsets < 0, at, -1))  # index of the last report without an offset
    counted = (missing >= 0) & ((offsets == at - missing - 1) | (offsets < 0))
    real = np.maximum.accumulate(np.where(counted, -1, at))  # index of the last offset that does not continue the count
    return np.where(counted & (real < missing), NONE, offsets)
