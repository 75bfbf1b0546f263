"""What leaders answer about times and leader epochs, asked of every partition at the end of a run.

The first record of a time or later: consumers that begin at a time (offsetsForTimes) rely on it, and brokers answer it
by other files than those that reads use: the time index of a segment, and of one in the remote tier the copy that they
have fetched of it (KIP-79, KIP-405). Where an epoch ended: followers truncate to it, and consumers (KIP-101, KIP-320).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from harness.evidence import BundleWriter
from harness.kafka.admin.client import AdminView
from harness.kafka.admin.offsets import EpochEnd, TimedOffset
from harness.kafka.admin.topics import Place
from harness.model.clock import now_ns
from harness.model.errors import HarnessTimeout
from harness.model.waiting import wait_for

TIMES: Final = 24  # over the run, evenly; and one before it and one after it
EPOCHS: Final = 40
DEADLINE_S: Final = 30.0
SILENT: Final = "no answer from a leader"
UNREADABLE: Final = "UNKNOWN_SERVER_ERROR"
_FAR_MS: Final = 3_600_000

A = TypeVar("A", TimedOffset, EpochEnd)


def look_up(
    admin: AdminView,
    topics: Iterable[str],
    bundle: BundleWriter,
    started_ns: int,
    ended_ns: int,
    holed: Collection[Place] = (),
) -> None:
    """Writes `lookups`: a row for each partition and time. A leader that does not answer has rows that say so. holed:
    partitions of which a leader cannot read all, so that some questions it never answers."""
    ids = {(state.topic, state.partition): state.topic_id for state in admin.partitions(topics)}
    table, patience = bundle.table("lookups", "end"), _Patience(holed)
    for time_ms in _times_ms(started_ns, ended_ns):
        asked_ns, asked = now_ns(), dict.fromkeys(ids, time_ms)
        reported = patience.answers(partial(admin.offsets_by_time, asked), ids, TimedOffset(None, None, None, SILENT))
        for (topic, partition), topic_id in sorted(ids.items()):
            answer = reported[topic, partition]
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


def look_up_epochs(admin: AdminView, topics: Iterable[str], bundle: BundleWriter) -> None:
    """Writes `epoch_ends`: a row for each partition and leader epoch up to its own, or for so many of them."""
    states = admin.partitions(topics)
    table, patience = bundle.table("epoch_ends", "end"), _Patience()
    for epoch in _epochs(max((state.leader_epoch for state in states), default=-1)):
        of = {(s.topic, s.partition): s.topic_id for s in states if epoch <= s.leader_epoch}
        asked_ns, asked = now_ns(), dict.fromkeys(of, epoch)
        reported = patience.answers(partial(admin.offsets_by_epoch, asked), of, EpochEnd(None, None, SILENT))
        for (topic, partition), topic_id in sorted(of.items()):
            answer = reported[topic, partition]
            table.append(
                {
                    "asked_ns": [asked_ns],
                    "topic": topic,
                    "topic_id": topic_id,
                    "partition": partition,
                    "epoch": epoch,
                    "reported_epoch": answer.leader_epoch,
                    "end_offset": answer.end_offset,
                    "error": answer.error,
                }
            )
    table.close()


def _epochs(last: int) -> list[int]:
    """From the first to the last, evenly where there are many."""
    return sorted({last * n // (EPOCHS - 1) for n in range(EPOCHS)}) if last >= EPOCHS else list(range(last + 1))


class _Patience:
    """How long is waited for answers, all questions together: what nobody can answer is asked of many times."""

    def __init__(self, holed: Collection[Place] = ()) -> None:
        self._left_s = DEADLINE_S
        self._holed = holed

    def _for_good(self, place: Place, error: str) -> bool:
        """What a leader cannot read it never can."""
        return place in self._holed and error == UNREADABLE

    def answers(self, ask: Callable[[], Mapping[Place, A]], places: Iterable[Place], silent: A) -> dict[Place, A]:
        """Asked once, and again until nobody answers with an error or patience is at its end."""
        reported: dict[Place, A] = {}

        def wrong() -> dict[Place, str]:
            reported.update(dict.fromkeys(places, silent))
            reported.update(ask())
            return {
                place: answer.error
                for place, answer in reported.items()
                if answer.error and not self._for_good(place, answer.error)
            }

        began_s = time.monotonic()
        with suppress(HarnessTimeout):  # its rows say so
            wait_for(wrong, until=lambda left: not left, deadline_s=self._left_s, what="answers about offsets")
        self._left_s = max(0.0, self._left_s - (time.monotonic() - began_s))
        return reported
