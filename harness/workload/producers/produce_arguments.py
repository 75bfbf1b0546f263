"""The arguments of one `produce` of confluent_kafka."""

from __future__ import annotations

from random import randrange
from typing import Any, Final, TypedDict  # Any: confluent_kafka takes the records of a batch as dicts; see Record

from harness.model.clock import now_ns

Record = dict[str, Any]  # `value`, `key` and `headers`; the client adds `_error` when it does not take the record
UNORDERED_MS: Final = 200  # less than the verdict grants to clocks of clients


class Timestamp(TypedDict, total=False):
    """Without it the client takes the time of the call."""

    timestamp: int


def backdated(back_s: int) -> Timestamp:
    """Nothing for a producer that is not backdated. Times of others do not rise with the offsets, so that the latest
    record of a batch or of a segment is seldom its last one (KAFKA-16310)."""
    return {"timestamp": now_ns() // 10**6 - back_s * 1000 - randrange(UNORDERED_MS)} if back_s else {}
