"""What leaders answer about times: the first record of a time or later, asked of every partition at the end of a run.

Consumers that begin at a time (offsetsForTimes) rely on it, and brokers answer it by other files than those that reads
use: the time index of a segment, and of one in the remote tier the copy that they have fetched of it (KIP-79, KIP-405).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from harness.evidence import BundleWriter
from harness.kafka.admin import AdminView
from harness.kafka.admin_offsets import TimedOffset
from harness.kafka.admin_topics import Place
from harness.model.clock import now_ns
from harness.model.errors import HarnessTimeout
from harness.model.waiting import wait_for

TIMES: Final = 24  # over the run, evenly; and one before it and one after it
DEADLINE_S: Final = 15.0
_FAR_MS: Final = 3_600_000


def look_up(admin: AdminView, topics: Iterable[str], bundle: BundleWriter, started_ns: int, ended_ns: int) -> None:
    """Writes `lookups`: a row for each partition and time. A leader that does not answer has rows that say so."""
    ids = {(state.topic, state.partition): state.topic_id for state in admin.partitions(topics)}
    table = bundle.table("lookups", "end")
    for time_ms in _times_ms(started_ns, ended_ns):
        asked_ns, told = now_ns(), _answers(admin, dict.fromkeys(ids, time_ms))
        for (topic, partition), topic_id in sorted(ids.items()):
            answer = told[topic, partition]
            table.append(
                {
                    "asked_ns": [asked_ns],
                    "topic": topic,
                    "topic_id": topic_id,
                    "partition": partition,
                    "time_ms": time_ms,
                    "offset": answer.offset,
                    "timestamp_ms": answer.timestamp_ms,
                    "leader_epoch": answer.leader_epoch,
                    "error": answer.error,
                }
            )
    table.close()


def _times_ms(started_ns: int, ended_ns: int) -> list[int]:
    first, last = started_ns // 10**6, ended_ns // 10**6
    within = [first + (last - first) * n // (TIMES - 1) for n in range(TIMES)]
    return [first - _FAR_MS, *within, last + _FAR_MS]


def _answers(admin: AdminView, times_ms: Mapping[Place, int]) -> dict[Place, TimedOffset]:
    """Asked again until nobody answers with an error, within a bound."""
    told: dict[Place, TimedOffset] = {}
    silent = TimedOffset(None, None, None, "no answer from a leader")

    def wrong() -> dict[Place, str]:
        told.update(dict.fromkeys(times_ms, silent) | admin.offsets_by_time(times_ms))
        return {place: answer.error for place, answer in told.items() if answer.error}

    with suppress(HarnessTimeout):  # its rows say so
        wait_for(wrong, until=lambda left: not left, deadline_s=DEADLINE_S, what="answers about times")
    return told
