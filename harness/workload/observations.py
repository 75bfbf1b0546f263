"""Turns the messages of one poll into rows of the observations table, as arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import confluent_kafka
import numpy as np

from harness.evidence.writer import TableWriter
from harness.workload.meters import Place
from harness.workload.payload import decode

POLL_RECORDS: Final = 5000


class Observer:
    """Writes what one reader saw. `session` of a partition rises whenever its reader may have jumped."""

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
        self._topic_ids = topic_ids
        self._run = run
        self._who = {"reader": reader, "kind": kind, "isolation": isolation}
        self._replicas = replicas or {}
        self._sessions: dict[Place, int] = {}
        self._session_last = -1
        self._poll = 0
        self.seen = 0
        self.next_offset: dict[Place, int] = defaultdict(int)

    def new_session(self, places: Sequence[Place]) -> None:
        """From now on these partitions are read from a place of their own."""
        self._session_last += 1
        self._sessions |= dict.fromkeys(places, self._session_last)

    def observe(self, messages: list[confluent_kafka.Message]) -> None:
        """Writes the rows of one poll, grouped by partition; messages must carry no error."""
        if not messages:
            return
        self._poll += 1
        topics = [message.topic() for message in messages]
        names = sorted(set(topics))  # type: ignore[type-var]
        partitions = np.fromiter((message.partition() for message in messages), np.int32, len(messages))
        offsets = np.fromiter((message.offset() for message in messages), np.int64, len(messages))
        times = np.fromiter((message.timestamp()[1] for message in messages), np.int64, len(messages))
        read = decode([message.value() for message in messages], [message.key() for message in messages], self._run)
        codes = np.fromiter(map(names.index, topics), np.int64, len(messages)) if len(names) > 1 else 0
        groups = partitions + (codes << 32)
        for group in np.unique(groups).tolist():
            mine = slice(None) if groups[0] == group and (groups == group).all() else groups == group
            place = (str(names[group >> 32]), group & 0xFFFFFFFF)
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
                }
            )
            self.next_offset[place] = int(offsets[mine][-1]) + 1
        self.seen += len(messages)
