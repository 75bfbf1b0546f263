"""Waits for what brokers do to the log of a topic: rolled segments, retention and compaction."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from harness.faults.steps.declared_facts import NOTHING, Declares
from harness.faults.steps.step import Action, Done, PartitionsExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.waits import NO_ANSWER, POLL_S
from harness.kafka.storage.log_directory import cleaned_end, partition_directories
from harness.kafka.storage.log_directory import segments as segments_of
from harness.kafka.storage.record_batch import Walk
from harness.model.clock import now_ns
from harness.model.documents.steps import LogStartSeen
from harness.model.place import Place
from harness.model.scenario.scenario import WAIT_COMPACTED, Count, Deadline
from harness.model.waiting import wait_for


@dataclass(frozen=True, kw_only=True)
class WaitRolled(Action):
    """Rolled segments."""

    do: ClassVar[str] = "wait_rolled"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = "Waits until the leader of each partition has at least `segments` segments on disk."
    internal: ClassVar[bool] = True
    on: PartitionsExpr = ()
    segments: Count = 2
    deadline_s: Deadline = 90.0

    def perform(self, context: StepContext) -> Done:
        places = context.places(self.on)
        count = _on_disk if "disk.read" in context.cluster.capabilities else _by_size

        def probe() -> dict[str, int]:
            led = {place: s.leader for place, s in context.states(places).items() if s.leader >= 0}
            return {f"{t}/{p}": found for (t, p), found in count(context, led).items()}

        seen = wait_for(
            probe,
            until=lambda counts: len(counts) == len(places) and min(counts.values()) >= self.segments,
            deadline_s=self.deadline_s,
            what=f"{self.segments} segments",
            interval_s=POLL_S,
        )
        return Done(resolved={"segments": seen})


def _on_disk(context: StepContext, led: Mapping[Place, int]) -> dict[Place, int]:
    """The number of segments of each partition in the files of its leader."""
    return {
        (t, p): max((segments(d, t, p) for d in context.cluster.log_directories(leader)), default=0)
        for (t, p), leader in led.items()
    }


def _by_size(context: StepContext, led: Mapping[Place, int]) -> dict[Place, int]:
    """The least number of segments that the size of each log needs, since none is larger than segment.bytes."""
    largest = {
        t: int(of["segment.bytes"]) for t, of in context.admin.topic_configs(sorted({t for t, _ in led})).items()
    }
    found = {broker: context.admin.log_directories(broker) for broker in set(led.values())}
    sizes = {
        place: there.replicas[place].size_bytes
        for place, broker in led.items()
        if (there := found[broker]) is not None and place in there.replicas
    }
    return {place: -(-size // largest[place[0]]) for place, size in sizes.items() if place[0] in largest}


@dataclass(frozen=True, kw_only=True)
class WaitLogStart(Action):
    """Retention that has deleted records. An event records each new log start offset.

    every: on each replica, by its files, too, where they can be read: a follower may learn the log start from its
    leader and delete nothing.
    """

    do: ClassVar[str] = "wait_log_start"
    facts: ClassVar[Declares] = NOTHING
    relies_on: ClassVar[frozenset[str]] = frozenset({"log.retention.check.interval.ms"})
    summary: ClassVar[str] = (
        "Waits until retention has moved the log start offset of each partition, with `every` on each replica."
    )
    on: PartitionsExpr
    every: bool = False
    deadline_s: Deadline = 90.0

    def perform(self, context: StepContext) -> Done:
        places = context.places(self.on)
        if self.every:
            self._every_replica(context, places)
        before, started = self._starts(context, places), time.monotonic()
        seen = wait_for(
            lambda: self._starts(context, places),
            until=lambda now: len(now) == len(places) and all(start > 0 for start in now.values()),
            deadline_s=self.deadline_s,
            what="retention to move the log start",
            interval_s=POLL_S,
        )
        for (topic, partition), start in seen.items():
            context.record_event(LogStartSeen(topic=topic, partition=partition, log_start=start, at_ns=now_ns()))
        starts = {f"{t}/{p}": [before.get((t, p)), start] for (t, p), start in seen.items()}
        return Done(resolved={"log_start": starts, "waited_s": round(time.monotonic() - started, 3)})

    def _every_replica(self, context: StepContext, places: list[Place]) -> None:
        """Waits until each replica starts above 0, and has no file of a segment that ends below its log start."""

        readable = "disk.read" in context.cluster.capabilities

        def pending() -> dict[str, str]:
            offsets = context.admin.replica_offsets(sorted({t for t, _ in places}))
            states = context.states(places)
            left = {f"{t}/{p}": NO_ANSWER for t, p in places if (t, p) not in states}
            for (topic, partition), state in states.items():
                for broker in state.replicas:
                    start, _ = offsets.get((topic, partition, broker), (-1, -1))
                    bases = _bases(context.cluster.log_directories(broker), topic, partition) if readable else []
                    if start <= 0 or (len(bases) > 1 and bases[1] <= start):
                        left[f"{topic}/{partition} of broker {broker}"] = f"log start {start}, segments {bases[:4]}"
            return left

        wait_for(
            pending,
            until=lambda left: not left,
            deadline_s=self.deadline_s,
            what="retention to delete segments of every replica",
            interval_s=POLL_S,
        )

    @staticmethod
    def _starts(context: StepContext, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        offsets = context.admin.replica_offsets(sorted({t for t, _ in places}))
        leaders = {place: s.leader for place, s in context.states(places).items()}
        return {(t, p): offsets[t, p, b][0] for (t, p), b in leaders.items() if (t, p, b) in offsets}


@dataclass(frozen=True, kw_only=True)
class WaitCompacted(Action):
    """Compaction by the cleaner. `to`: up to that offset at least. `further`: more than when the step began. `gaps`:
    until a segment ends before the next one begins, so that reads of its end must go on in the next one."""

    do: ClassVar[str] = WAIT_COMPACTED
    facts: ClassVar[Declares] = NOTHING
    relies_on: ClassVar[frozenset[str]] = frozenset({"log.cleaner.backoff.ms"})
    summary: ClassVar[str] = "Waits until the leader of each partition has compacted its log, up to the offset `to`."
    internal: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read"})
    on: PartitionsExpr
    further: bool = False
    gaps: bool = False
    to: Count = 1
    deadline_s: Deadline = 60.0

    def perform(self, context: StepContext) -> Done:
        places = context.places(self.on)

        def leaders() -> dict[Place, list[Path]]:
            states = context.states(places)
            return {p: [*context.cluster.log_directories(s.leader)] for p, s in states.items() if s.leader >= 0}

        def probe() -> dict[str, int]:
            return {f"{t}/{p}": cleaned_end(directories, (t, p)) for (t, p), directories in leaders().items()}

        before = probe() if self.further else {}
        seen = wait_for(
            probe,
            until=lambda now: (
                len(now) == len(places)
                and all(end >= self.to and end > before.get(place, 0) for place, end in now.items())
            ),
            deadline_s=self.deadline_s,
            what="compaction",
            interval_s=POLL_S,
        )
        if not self.gaps:
            return Done(resolved={"compacted_to": seen})
        gaps = wait_for(
            lambda: {f"{t}/{p}": first_gap(directories, (t, p)) for (t, p), directories in leaders().items()},
            until=lambda now: len(now) == len(places) and None not in now.values(),
            deadline_s=self.deadline_s,
            what="a segment that compaction has left shorter than its offsets",
            interval_s=POLL_S,
        )
        return Done(resolved={"compacted_to": seen, "gaps": gaps})


def _bases(directories: Iterable[Path], topic: str, partition: int) -> list[int]:
    """The base offsets of a replica's segments."""
    return sorted(int(path.stem) for one in directories for path in (one / f"{topic}-{partition}").glob("*.log"))


def first_gap(directories: Iterable[Path], place: Place) -> tuple[int, int] | None:
    """The first offset after a segment's last batch, and the base offset of the next segment, where these differ."""
    for replica in partition_directories(directories, {place[0]}):
        if replica.partition != place[1]:
            continue
        for segment, following in pairwise(segments_of(replica.path)):
            # A cleaner may replace the file at any moment.
            with suppress(FileNotFoundError), segment.path.open("rb") as file:
                batches = Walk(file, segment.path.stat().st_size)
                end = max((batch.last_offset + 1 for batch in batches), default=segment.base_offset)
                if end < following.base_offset:
                    return end, following.base_offset
    return None


def segments(directory: Path, topic: str, partition: int) -> int:
    """The number of segments that a partition has in one log directory."""
    return sum(1 for _ in (directory / f"{topic}-{partition}").glob("*.log"))
