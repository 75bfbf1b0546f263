"""Turns the messages of one poll into rows of the observations table, as arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from confluent_kafka import Message

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.place import Place
from harness.workload.records.payload import Headers, decode

POLL_RECORDS: Final = 5000

# C functions mapped over a poll decode messages at a third of the cost of a comprehension.
_TIME: Final = itemgetter(1)


class Observer:
    """Writes the records that one reader got. A partition's `session` rises whenever its reader may have jumped."""

    def __init__(
        self,
        table: TableWriter,
        topic_ids: Mapping[str, str],
        run: int,
        *,
        reader: str,
        kind: str,
        isolation: str,
        replicas: Mapping[Place, int] | None = None,
    ) -> None:
        self._table = table
        self._topic_ids = dict(topic_ids)
        self._run = run
        self._who = {"reader": reader, "kind": kind, "isolation": isolation}
        self._replicas = replicas or {}
        self._sessions: dict[Place, int] = {}
        self._session_last = -1
        self._poll = 0
        self._names = list(topic_ids)
        self._codes: dict[str | None, int] = {name: code for code, name in enumerate(self._names)}
        self.seen = 0
        self.rows: dict[Place, int] = defaultdict(int)
        self.next_offset: dict[Place, int] = defaultdict(int)
        self._farthest: dict[Place, int] = defaultdict(int)
        self._received: dict[Place, int] = {}  # the last offset in the session
        self._live = kind == "live"

    def start_new_topic(self, topic: str, topic_id: str) -> None:
        """From now on the name means a recreated topic, which is read from its start."""
        self._topic_ids[topic] = topic_id
        for place in [place for place in self.next_offset if place[0] == topic]:
            del self.next_offset[place]
            self._farthest.pop(place, None)
            self._received.pop(place, None)

    def new_session(self, places: Sequence[Place]) -> int:
        """Starts a session for partitions, at a new position of their reader; returns its number."""
        self._session_last += 1
        self._sessions |= dict.fromkeys(places, self._session_last)
        for place in places:
            self._received.pop(place, None)
        return self._session_last

    def observe(self, messages: list[Message]) -> None:
        """Writes the rows of one poll, grouped by partition; no message may be an error."""
        if not messages:
            return
        self._poll += 1
        given_ns = now_ns()
        count = len(messages)
        of = type(messages[0])  # a message of librdkafka, or of the Java client
        offsets = np.fromiter(map(of.offset, messages), np.int64, count)
        times = np.fromiter(map(_TIME, map(of.timestamp, messages)), np.int64, count)
        epochs = list(map(of.leader_epoch, messages))
        known = np.array(epochs, np.int32) if None not in epochs else None
        headers = cast(list[Headers | None], list(map(of.headers, messages)))  # clients give them as lists
        read = decode(list(map(of.value, messages)), list(map(of.key, messages)), self._run, headers)
        for place, mine in self._runs(messages):
            first, last = int(offsets[mine][0]), int(offsets[mine][-1])
            self._table.append(
                self._who
                | {
                    "replica": self._replicas.get(place),
                    "session": self._sessions[place],
                    "poll": self._poll,
                    "topic": place[0],
                    "topic_id": self._topic_ids[place[0]],
                    "partition": place[1],
                    "offset": offsets[mine],
                    "stream": read.stream[mine],
                    "seq": read.seq[mine],
                    "intact": read.intact[mine],
                    "timestamp_ms": times[mine],
                    "leader_epoch": known if known is None else known[mine],
                    "given_ns": given_ns if self._live and first >= self._farthest[place] else None,
                    "previous_offset": _previous(offsets[mine], self._received.get(place)),
                }
            )
            self._received[place] = last
            self.rows[place] += mine.stop - mine.start
            self.next_offset[place] = last + 1
            self._farthest[place] = max(last + 1, self._farthest[place])
        self.seen += count

    def _runs(self, messages: list[Message]) -> Iterator[tuple[Place, slice]]:
        """Runs of records of one partition; they are long, since the client returns whole fetched batches."""
        of = type(messages[0])
        partitions = np.fromiter(map(of.partition, messages), np.int64, len(messages))
        topics = np.fromiter(map(self._codes.__getitem__, map(of.topic, messages)), np.int64, len(messages))
        places = (topics << 32) | partitions
        starts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], len(messages)], strict=True):
            yield (self._names[topics[start]], int(partitions[start])), slice(start, end)


def _previous(offsets: npt.NDArray[np.int64], received: int | None) -> npt.NDArray[np.int64]:
    """For each offset the one before it; for the first one `received`, None if it is the first of its session."""
    previous = np.concatenate(([0 if received is None else received], offsets[:-1]))
    return previous if received is not None else np.ma.masked_array(previous, np.arange(len(previous)) == 0)
