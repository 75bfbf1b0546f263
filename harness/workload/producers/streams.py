"""Streams: the records of one producer incarnation on one partition, with sequences from 0 without gaps."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.workload.records.payload import Int64s

# Sequences reserved at a time: one fsync for this many records, and at most this many `unknown` rows after a crash.
RESERVE: Final = 20_000
# Unreported sends of one stream; a partition without a leader must not fill the whole queue of the client.
WINDOW: Final = 8192
NO_TXN: Final = -1


class Numbers:
    """Hands out numbers that are unique in a run; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams = itertools.count(1)
        self._transactions = itertools.count(1)

    def stream(self) -> int:
        """A stream id never used before in this run."""
        with self._lock:
            return next(self._streams)

    def transaction(self) -> int:
        """A transaction id never used before in this run."""
        with self._lock:
            return next(self._transactions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The producer's columns of a reservation, the same for all its streams."""

    producer: str
    acks: str
    idempotent: bool
    transactional: bool
    client: str
    tries_recorded: bool = False


@dataclass(slots=True, kw_only=True)
class Stream:
    """The sends of one stream that are not reported yet, in ring buffers of WINDOW slots."""

    number: int
    topic: str
    topic_id: str
    partition: int
    next_seq: int = 0
    reserved_end: int = 0
    pending: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(WINDOW, np.bool_))
    called_ns: Int64s = field(default_factory=lambda: np.zeros(WINDOW, np.int64))
    txn_id: Int64s = field(default_factory=lambda: np.full(WINDOW, NO_TXN, np.int64))
    key_hash: Int64s = field(default_factory=lambda: np.zeros(WINDOW, np.int64))

    def slots(self, first_seq: int, count: int) -> Int64s:
        """The slots of sequences in the ring buffers."""
        return np.arange(first_seq, first_seq + count) % WINDOW

    def room(self, wanted: int) -> int:
        """How many of the `wanted` next sequences may be queued now: those before the first slot that is pending."""
        taken = np.flatnonzero(self.pending[self.slots(self.next_seq, min(wanted, WINDOW))])
        return int(taken[0]) if len(taken) else min(wanted, WINDOW)

    def opened(self, first_seq: int, count: int, called_ns: int, txn_id: int, hashes: Int64s | None) -> None:
        """Marks sequences as queued at `called_ns`."""
        at = self.slots(first_seq, count)
        self.pending[at] = True
        self.called_ns[at] = called_ns
        self.txn_id[at] = txn_id
        if hashes is not None:
            self.key_hash[at] = hashes

    def unreported(self) -> Int64s:
        """Sequences that were queued and are not reported."""
        first = max(0, self.next_seq - WINDOW)
        sequences = np.arange(first, self.next_seq)
        return sequences[self.pending[sequences % WINDOW]]


class Reservations:
    """Writes a range of sequences to disk before any is sent, so that a lost ledger row is `unknown`, not a phantom."""

    def __init__(self, table: TableWriter, identity: Identity) -> None:
        self._table = table
        self._identity = identity

    def cover(self, stream: Stream, end_seq: int) -> None:
        """Returns once all sequences below `end_seq` are reserved on disk."""
        if end_seq <= stream.reserved_end:
            return
        first, end = stream.reserved_end, max(end_seq, stream.reserved_end + RESERVE)
        who = self._identity
        self._table.append(
            {
                "stream": stream.number,
                "producer": who.producer,
                "topic": stream.topic,
                "topic_id": stream.topic_id,
                "partition": stream.partition,
                "first_seq": first,
                "end_seq": end,
                "acks": who.acks,
                "idempotent": who.idempotent,
                "transactional": who.transactional,
                "client": who.client,
                "reserved_ns": now_ns(),
                "tries_recorded": who.tries_recorded,
            }
        )
        stream.reserved_end = end
