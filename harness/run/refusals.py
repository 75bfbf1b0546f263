"""Brokers that do not serve what is in their log: asked directly, where a read of the drain or a copy ended early."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from msgspec.structs import replace

from harness.kafka.admin.fetch import Served
from harness.model.clock import now_ns
from harness.model.documents.reads import Read, Refusal

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
        self, topic: str, partition: int, offset: int, max_bytes: int, broker: int | None = None
    ) -> Served | None:
        """The answer of the leader, or of this broker, to a fetch from an offset; None without one."""
        ...


def with_refusals(reads: Sequence[Read], brokers: Brokers, refused_s: float = REFUSED_S) -> list[Read]:
    """The reads; those that ended early with the refusal of the leader, or of the broker of the copy, if it refuses."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="refusals") as pool:
        return list(pool.map(lambda read: _with_refusal(read, brokers, refused_s), reads))


def _with_refusal(read: Read, brokers: Brokers, refused_s: float) -> Read:
    if read.position >= read.target:
        return read
    of_leader = read.kind == "drain"
    offset, first_ns = max(read.position, read.start), now_ns()
    give_up_at = time.monotonic() + refused_s
    refusal: Refusal | None = None
    while time.monotonic() < give_up_at:
        broker = None if of_leader else read.replica
        answer = brokers.fetch(read.topic, read.partition, offset, _MAX_BYTES, broker)
        if answer is not None and answer.records:
            return read
        if of_leader and read.cut_short and answer is not None and answer.error == _OUT_OF_RANGE:
            return read  # with more time it would have continued after the gap
        if answer is not None:
            refusal = Refusal(
                offset=offset,
                error=answer.error,
                high_watermark=answer.high_watermark,
                first_ns=first_ns,
                last_ns=now_ns(),
            )
        time.sleep(_INTERVAL_S)
    return replace(read, refused=refusal)
