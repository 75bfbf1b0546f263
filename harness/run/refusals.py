"""Brokers that do not serve what is in their log: asked directly, where a read of the drain or a copy ended early, or
a probe or a live reader was given nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from msgspec.structs import replace

from harness.kafka.admin.fetch import Served
from harness.model.clock import now_ns
from harness.model.documents.cluster import ReadRefused
from harness.model.documents.reads import Read, Refusal
from harness.workload.consumers.unserved_reads import UnservedRead

# A client may stop for reasons of its own, and a leader may need time. After all attempts of the drain, and then a
# minute of direct requests, the broker refuses.
REFUSED_S: Final = 60.0
_INTERVAL_S: Final = 0.5
_OUT_OF_RANGE: Final = "OFFSET_OUT_OF_RANGE"
_MAX_BYTES: Final = 1 << 20
_AT_ONCE: Final = 16


class Brokers(Protocol):
    """An admin view, as far as it fetches."""

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int, broker: int | None = None, min_bytes: int = 1
    ) -> Served | None:
        """The answer of the leader, or of this broker, to a fetch from an offset; None without one."""
        ...


def with_refusals(reads: Sequence[Read], brokers: Brokers, refused_s: float = REFUSED_S) -> list[Read]:
    """The reads; those that ended early with the refusal of the leader, or of the broker of the copy, if it refuses."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="refusals") as pool:
        return list(pool.map(lambda read: _with_refusal(read, brokers, refused_s), reads))


def reads_refused(
    reads: Sequence[UnservedRead], brokers: Brokers, refused_s: float = REFUSED_S
) -> tuple[ReadRefused, ...]:
    """Those of the first reads that were given nothing to which the leader, asked directly, gives no record either."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="refusals") as pool:
        asked = pool.map(lambda read: _refused(read, brokers, refused_s), reads[:_AT_ONCE])
        return tuple(found for found in asked if found is not None)


def _refused(read: UnservedRead, brokers: Brokers, refused_s: float) -> ReadRefused | None:
    (topic, partition), offset, least, most = read.place, read.offset, read.min_bytes, read.max_bytes
    refusal = _refusal(lambda: brokers.fetch(topic, partition, offset, most, min_bytes=least), offset, refused_s)
    if refusal is None:
        return None
    return ReadRefused(
        topic=topic,
        topic_id=read.topic_id,
        partition=partition,
        reader=read.reader,
        min_bytes=least,
        max_bytes=most,
        refused=refusal,
    )


def _with_refusal(read: Read, brokers: Brokers, refused_s: float) -> Read:
    if read.position >= read.target:
        return read
    of_leader = read.kind == "drain"
    offset = max(read.position, read.start)
    broker = None if of_leader else read.replica
    refusal = _refusal(
        lambda: brokers.fetch(read.topic, read.partition, offset, _MAX_BYTES, broker),
        offset,
        refused_s,
        # With more time it would have continued after the gap.
        excused=_OUT_OF_RANGE if of_leader and read.cut_short else None,
    )
    return read if refusal is None else replace(read, refused=refusal)


def _refusal(
    ask: Callable[[], Served | None], offset: int, refused_s: float, excused: str | None = None
) -> Refusal | None:
    """The last answer. None if one had records or the excused error, or if none came."""
    first_ns, give_up_at = now_ns(), time.monotonic() + refused_s
    refusal: Refusal | None = None
    while time.monotonic() < give_up_at:
        answer = ask()
        if answer is not None and (answer.records or (excused and answer.error == excused)):
            return None
        if answer is not None:
            refusal = Refusal(
                offset=offset,
                error=answer.error,
                high_watermark=answer.high_watermark,
                first_ns=first_ns,
                last_ns=now_ns(),
            )
        time.sleep(_INTERVAL_S)
    return refusal
