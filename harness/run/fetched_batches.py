"""The headers of all batches of every replica, fetched from its broker, where no disk can be read.

Each request goes to the broker of the replica. A broker whose replicas were not all read to the end has no rows: some
rows alone would look like replicas that differ.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from harness.evidence.writer import BundleWriter
from harness.kafka.admin.link import Link
from harness.kafka.admin.replica_fetch import Wanted, fetch_replicas
from harness.kafka.admin.security import Security
from harness.kafka.admin.wire import Unanswered
from harness.kafka.storage.record_batch import Batch, Walk, oddities
from harness.kafka.storage.segment_scan import DAMAGE_MAX, batch_columns
from harness.model.documents.cluster import PartitionState, Snapshot

_ANSWER_S: Final = 10.0
_TOTAL_S: Final = 300.0
_STALL_S: Final = 30.0
_PAUSE_S: Final = 0.1
_ROWS: Final = 20_000


@dataclass(slots=True)
class Fetched:
    """Sentences. not_read: why a broker has no rows. damage: one for each batch that no broker writes so."""

    not_read: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


def fetch_batches(
    addresses: Mapping[int, tuple[str, int]], security: Security, snapshot: Snapshot, bundle: BundleWriter
) -> Fetched:
    """Writes the table `batches`, without segments. snapshot: the replicas, and where the log of each ends."""
    readers = [_OfBroker(broker, address, security, snapshot.partitions) for broker, address in addresses.items()]
    with ThreadPoolExecutor(len(readers), thread_name_prefix="batches") as pool:
        problems = list(pool.map(_OfBroker.read, readers))
    found = Fetched()
    table = bundle.table("batches", "fetched")
    for reader, problem in zip(readers, problems, strict=True):
        found.damage += reader.damage
        if problem:
            found.not_read.append(f"the batches of broker {reader.broker} were not all fetched: {problem}")
            continue
        for state, batches in reader.batches:
            of = {
                "broker": reader.broker,
                "topic": state.topic,
                "topic_id": state.topic_id,
                "partition": state.partition,
            }
            for at in range(0, len(batches), _ROWS):
                table.append({**of, **batch_columns(batches[at : at + _ROWS], None)})
    table.close()
    return found


class _OfBroker:
    """Reads the replicas of one broker, one after the other."""

    def __init__(
        self, broker: int, address: tuple[str, int], security: Security, partitions: Sequence[PartitionState]
    ) -> None:
        self.broker = broker
        self.batches: list[tuple[PartitionState, list[Batch]]] = []
        self.damage: list[str] = []
        self._link = Link(address, security)
        self._logs = {state.place: (state, log) for state in partitions for log in state.logs if log.broker == broker}

    def read(self) -> str:
        """Why the replicas could not all be read; "" if they were."""
        give_up_at = time.monotonic() + _TOTAL_S
        try:
            for state, log in self._logs.values():
                if problem := self._replica(state, log.log_start, log.log_end, give_up_at):
                    return f"{state.topic}/{state.partition}: {problem}"
        finally:
            self._link.close()
        return ""

    def _replica(self, state: PartitionState, start: int, end: int, give_up_at: float) -> str:
        found: list[Batch] = []
        self.batches.append((state, found))
        at, last_s, problem = start, time.monotonic(), ""
        while at < end:
            before = at
            at, problem = self._once(state, at, found)
            now_s = time.monotonic()
            if at > before:
                last_s = now_s
            elif now_s - last_s > _STALL_S or now_s > give_up_at:
                return f"no batch at offset {at} of {end} ({problem or 'an answer without batches'})"
            else:
                time.sleep(_PAUSE_S)
        return ""

    def _once(self, state: PartitionState, at: int, found: list[Batch]) -> tuple[int, str]:
        """One request. The offset behind what is known now, and what is wrong."""
        place = state.topic, state.partition
        try:
            wanted = [Wanted(place, state.topic_id, at)]
            answer = fetch_replicas(self._link, wanted, "read_uncommitted", _ANSWER_S)[place]
        except Unanswered as silent:
            return at, str(silent)
        except KeyError:
            return at, "the broker does not know the topic"
        if answer.error is not None:
            moved = answer.error == "OFFSET_OUT_OF_RANGE" and answer.log_start > at
            return (answer.log_start if moved else at), answer.error
        for batch in Walk(io.BytesIO(answer.batches), len(answer.batches)):
            if batch.last_offset >= at:
                self._check(state, batch, found[-1] if found else None)
                found.append(batch)
                at = batch.last_offset + 1
        return at, ""

    def _check(self, state: PartitionState, batch: Batch, before: Batch | None) -> None:
        wrong = [] if batch.crc_ok else ["the checksum is wrong"]
        for what in [*wrong, *oddities(batch, before)]:
            if len(self.damage) < DAMAGE_MAX:
                place = f"broker {self.broker}, {state.topic}-{state.partition}, offset {batch.base_offset}"
                self.damage.append(f"{place}: {what}")
