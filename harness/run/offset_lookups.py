"""Offsets by time and by leader epoch, which the leader of every partition is asked for at the end of a run.

By time: the first record at a timestamp or later. Consumers that begin at a time (offsetsForTimes) rely on it, and
brokers answer from other files than those of a fetch: from the time index of a segment, and for a segment in the remote
tier from the copy of the index that they have fetched (KIP-79, KIP-405). By epoch: where the epoch ended. Followers
truncate to that offset, and consumers detect truncation by it (KIP-101, KIP-320).
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
from harness.model.clock import now_ns
from harness.model.errors import HarnessTimeout
from harness.model.place import Place
from harness.model.waiting import wait_for

TIMES: Final = 24  # evenly over the run; one before it and one after it are added
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
    """Writes the table `lookups`: a row for each partition and time, also where the leader did not answer.

    holed: partitions with offsets that the leader cannot read, so that it never answers some of the questions.
    """
    ids = {(state.topic, state.partition): state.topic_id for state in admin.partitions(topics)}
    table, budget = bundle.table("lookups", "end"), _TimeBudget(holed)
    for time_ms in _times_ms(started_ns, ended_ns):
        asked_ns, asked = now_ns(), dict.fromkeys(ids, time_ms)
        reported = budget.answers(partial(admin.offsets_by_time, asked), ids, TimedOffset(None, None, None, SILENT))
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
    """Writes the table `epoch_ends`: a row for each partition and leader epoch, or for EPOCHS of them."""
    states = admin.partitions(topics)
    table, budget = bundle.table("epoch_ends", "end"), _TimeBudget()
    for epoch in _epochs(max((state.leader_epoch for state in states), default=-1)):
        of = {(s.topic, s.partition): s.topic_id for s in states if epoch <= s.leader_epoch}
        asked_ns, asked = now_ns(), dict.fromkeys(of, epoch)
        reported = budget.answers(partial(admin.offsets_by_epoch, asked), of, EpochEnd(None, None, SILENT))
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
    """All epochs; where there are more than EPOCHS, so many of them, evenly spread, with the first and the last."""
    return sorted({last * n // (EPOCHS - 1) for n in range(EPOCHS)}) if last >= EPOCHS else list(range(last + 1))


class _TimeBudget:
    """Limits the wait for answers over all questions together: a leader that is down is asked many of them."""

    def __init__(self, holed: Collection[Place] = ()) -> None:
        self._left_s = DEADLINE_S
        self._holed = holed

    def _is_final(self, place: Place, error: str) -> bool:
        """Whether the leader will never answer: it cannot read the offsets there."""
        return place in self._holed and error == UNREADABLE

    def answers(self, ask: Callable[[], Mapping[Place, A]], places: Iterable[Place], silent: A) -> dict[Place, A]:
        """Asks until no leader answers with an error, or the budget is spent. silent: stands for a missing answer."""
        reported: dict[Place, A] = {}

        def wrong() -> dict[Place, str]:
            reported.update(dict.fromkeys(places, silent))
            reported.update(ask())
            return {
                place: answer.error
                for place, answer in reported.items()
                if answer.error and not self._is_final(place, answer.error)
            }

        began_s = time.monotonic()
        with suppress(HarnessTimeout):  # the rows have the errors
            wait_for(wrong, until=lambda left: not left, deadline_s=self._left_s, what="answers about offsets")
        self._left_s = max(0.0, self._left_s - (time.monotonic() - began_s))
        return reported
