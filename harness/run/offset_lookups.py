"""Offsets by time and by leader epoch, which the leader of every partition is asked for at the end of a run.

By time: the first record at a timestamp or later. Consumers that begin at a time (offsetsForTimes) rely on it, and
brokers answer from other files than those of a fetch: from the time index of a segment, and for a segment in the remote
tier from the copy of the index that they have fetched (KIP-79, KIP-405). They are also asked for the start of the log,
and for the record with the latest time (KIP-734). Brokers decide by the latest time of each segment where they search,
so the times around those of some closed segments are asked for, too. By epoch: where the epoch ended. Followers
truncate to that offset, and consumers detect truncation by it (KIP-101, KIP-320).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import pyarrow.parquet as pq

from harness.evidence import BundleWriter
from harness.evidence.writer import TableWriter
from harness.kafka.admin.client import AdminView
from harness.kafka.admin.offsets import EpochEnd, TimedOffset
from harness.kafka.storage.segment_scan import REMOTE_TIER
from harness.model.clock import now_ns
from harness.model.errors import HarnessTimeout
from harness.model.place import Place
from harness.model.schemas import EARLIEST, MAX_TIMESTAMP
from harness.model.wait_budget import WaitBudget
from harness.model.waiting import wait_for

TIMES: Final = 24  # evenly over the run; one before it and one after it are added
EPOCHS: Final = 40
SEGMENTS: Final = 8  # closed ones, evenly over the log
DEADLINE_S: Final = 30.0
LEAST_S: Final = 5.0  # when the budget for waits is spent
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
    waits: AnswerWaits,
    holed: Collection[Place] = (),
) -> dict[Place, list[int]]:
    """Writes the table `lookups`: a row for each partition and time, also where the leader did not answer. Returns the
    times of the run for which a leader said that it has no record.

    holed: partitions with offsets that the leader cannot read, so that it never answers some of the questions.
    """
    ids = {(state.topic, state.partition): state.topic_id for state in admin.partitions(topics)}
    rounds = [dict.fromkeys(ids, time_ms) for time_ms in _times_ms(started_ns, ended_ns)]
    none = _ask(admin, rounds, ids, bundle.table("lookups", "end"), waits, holed)
    return {place: within for place, times in none.items() if (within := [t for t in times if t <= ended_ns // 10**6])}


def look_up_again(
    admin: AdminView,
    topics: Iterable[str],
    bundle: BundleWriter,
    none: Mapping[Place, Sequence[int]],
    waits: AnswerWaits,
    holed: Collection[Place] = (),
) -> None:
    """Adds rows to `lookups`, after the disks were read: times at, just below and just above the latest time of some
    closed segments, also of the remote tier, and the first time of the next one, from the table `batches`; and times
    for which a leader said before that it has no record."""
    states = {(state.topic, state.partition): state for state in admin.partitions(topics)}
    wanted = _edges_ms(bundle, {place: state.leader for place, state in states.items()})
    for place in none.keys() & states.keys():
        wanted.setdefault(place, []).extend(none[place])
    longest = max(map(len, wanted.values()), default=0)
    rounds = [{place: times[n] for place, times in wanted.items() if n < len(times)} for n in range(longest)]
    ids = {place: state.topic_id for place, state in states.items()}
    _ask(admin, rounds, ids, bundle.table("lookups", "again"), waits, holed)


def _ask(
    admin: AdminView,
    rounds: Sequence[Mapping[Place, int]],
    ids: Mapping[Place, str],
    table: TableWriter,
    waits: AnswerWaits,
    holed: Collection[Place],
) -> dict[Place, list[int]]:
    """One question for each partition of a round. Returns those that leaders answered without a record."""
    none, silent = defaultdict[Place, list[int]](list), TimedOffset(None, None, None, SILENT)
    for asked in rounds:
        asked_ns = now_ns()
        reported = waits.answers(partial(admin.offsets_by_time, asked), asked, silent, holed)
        for (topic, partition), time_ms in sorted(asked.items()):
            answer = reported[topic, partition]
            if answer.offset is None and answer.error is None:
                none[topic, partition].append(time_ms)
            table.append(
                {
                    "asked_ns": [asked_ns],
                    "topic": topic,
                    "topic_id": ids[topic, partition],
                    "partition": partition,
                    "time_ms": time_ms,
                    "offset": answer.offset,
                    "timestamp_ms": answer.timestamp_ms,
                    "leader_epoch": answer.leader_epoch,
                    "error": answer.error,
                }
            )
    table.close()
    return none


def _times_ms(started_ns: int, ended_ns: int) -> list[int]:
    first, last = started_ns // 10**6, ended_ns // 10**6
    within = [first + (last - first) * n // (TIMES - 1) for n in range(TIMES)]
    return [first - _FAR_MS, *within, last + _FAR_MS, MAX_TIMESTAMP, EARLIEST]


def _edges_ms(bundle: BundleWriter, leaders: Mapping[Place, int | None]) -> dict[Place, list[int]]:
    """Times for each partition, from the batches of the remote tier and on its leader's disk: around the ends of closed
    segments, among them the first one, the last one that only the tier has, and the last one. Nothing for partitions
    with one segment."""
    ends: dict[Place, dict[int, tuple[int, int]]] = defaultdict(dict)  # first and latest time by segment
    local: dict[Place, set[int]] = defaultdict(set)  # segments on the leader's disk
    columns = ("broker", "topic", "partition", "segment", "max_timestamp_ms")
    for part in sorted((bundle.path / "batches").glob("*.parquet")):
        rows = pq.read_table(part, columns=list(columns))
        for broker, topic, partition, segment, time_ms in zip(*(rows[c].to_pylist() for c in columns), strict=True):
            place = topic, partition
            if segment is None or place not in leaders or broker not in (leaders[place], REMOTE_TIER) or time_ms < 0:
                continue
            first, latest = ends[place].get(segment, (time_ms, time_ms))
            ends[place][segment] = first, max(latest, time_ms)
            if broker != REMOTE_TIER:
                local[place].add(segment)
    return {
        place: list(_around(sorted(of.items()), len(of.keys() - local[place])))
        for place, of in ends.items()
        if len(of) > 1
    }


def _around(segments: Sequence[tuple[int, tuple[int, int]]], tiered: int) -> Iterator[int]:
    """tiered: how many segments only the tier has; they are the first ones."""
    last = len(segments) - 2
    evenly = {last * n // (SEGMENTS - 1) for n in range(SEGMENTS)}
    for n in sorted({*evenly, max(min(tiered, last + 1) - 1, 0)}):
        (_, (_, latest)), (_, (first, _)) = segments[n : n + 2]
        yield from dict.fromkeys([latest - 1, latest, latest + 1, first])


def look_up_epochs(admin: AdminView, topics: Iterable[str], bundle: BundleWriter, waits: AnswerWaits) -> None:
    """Writes the table `epoch_ends`: a row for each partition and leader epoch, or for EPOCHS of them."""
    states = admin.partitions(topics)
    table = bundle.table("epoch_ends", "end")
    for epoch in _epochs(max((state.leader_epoch for state in states), default=-1)):
        of = {(s.topic, s.partition): s.topic_id for s in states if epoch <= s.leader_epoch}
        asked_ns, asked = now_ns(), dict.fromkeys(of, epoch)
        reported = waits.answers(partial(admin.offsets_by_epoch, asked), of, EpochEnd(None, None, SILENT))
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


class AnswerWaits:
    """Limits the waits for answers over all questions of a run together: a leader that is down is asked many of them.

    budget: of the run; when it is spent, little time is left for questions.
    """

    def __init__(self, budget: WaitBudget | None = None) -> None:
        self._left_s = budget.left_s(DEADLINE_S, LEAST_S) if budget else DEADLINE_S

    def answers(
        self, ask: Callable[[], Mapping[Place, A]], places: Iterable[Place], silent: A, holed: Collection[Place] = ()
    ) -> dict[Place, A]:
        """Asks until no leader answers with an error, or the time is over. silent: stands for a missing answer. holed:
        as for `look_up`."""
        reported: dict[Place, A] = {}

        def wrong() -> dict[Place, str]:
            reported.update(dict.fromkeys(places, silent))
            reported.update(ask())
            return {
                place: answer.error
                for place, answer in reported.items()
                if answer.error and not (place in holed and answer.error == UNREADABLE)
            }

        began_s = time.monotonic()
        with suppress(HarnessTimeout):  # the rows have the errors
            wait_for(wrong, until=lambda left: not left, deadline_s=self._left_s, what="answers about offsets")
        self._left_s = max(0.0, self._left_s - (time.monotonic() - began_s))
        return reported
