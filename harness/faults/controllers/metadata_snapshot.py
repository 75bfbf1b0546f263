"""Controllers that begin from a snapshot of the metadata (KIP-630) and not from the log that it stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from harness.faults.disks.common import LogSince
from harness.faults.nodes import process
from harness.faults.nodes.process import injection, restart
from harness.faults.steps.effect import IDLE, Probe, under_load
from harness.faults.steps.step import ControllersExpr, EffectProof, Fault, Injection, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.storage.log_directory import METADATA_LOG
from harness.model.scenario.scenario import Deadline
from harness.model.waiting import wait_for

LOADED_DEADLINE_S: Final = 60.0
_FILE: Final = re.compile(r"(\d{20})-\d{10}\.checkpoint")
# MetadataLoader and QuorumController, of a snapshot that they were given; all releases from 3.3 on.
_LOADED: Final = r"(?:handleLoadSnapshot\(|load snapshot \()(\d{20})-\d{10}"


@dataclass(frozen=True, kw_only=True)
class MetadataSnapshot(Fault):
    """Waits until controllers have a new snapshot of the metadata, and kills them; healing starts them from it."""

    do: ClassVar[str] = "metadata_snapshot"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart", "disk.read"})
    stops: ClassVar[bool] = True
    node: ControllersExpr = "controllers"
    deadline_s: Deadline = 60.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`. With all of them gone, that they come back from a snapshot is what shows."""
        if plan.reach(self.node).count < plan.scenario.shape.controllers:
            process.validate(plan, self.node)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        victims = stage.nodes(self.node)
        snapshots = _await_snapshots(stage, victims, self.deadline_s)
        known, busy = Metadata.of(stage), bool(under_load(stage))
        since = {node: LogSince(stage.cluster.server_log(node)) for node in victims}
        try:
            stage.cluster.kill(*victims)
            injected = injection(stage, victims, _loaded(stage, snapshots, since, known, busy))
            resolved = {**injected.resolved, "snapshots": {str(n): offset for n, offset in snapshots.items()}}
            yield replace(injected, resolved=resolved, after_heal=True, deadline_s=LOADED_DEADLINE_S)
        finally:
            restart(stage, victims)


@dataclass(frozen=True, slots=True)
class Metadata:
    """What controllers have agreed on, as brokers tell it."""

    topics: Mapping[str, tuple[str, Mapping[str, str]]]  # id and settings
    features: Mapping[str, int]
    partitions: Mapping[Place, tuple[tuple[int, ...], frozenset[int], int]]  # replicas, ISR, leader epoch

    @classmethod
    def of(cls, stage: Stage) -> Metadata:
        """As it is now."""
        states, names = stage.all_states(), [t.name for t in stage.topics]
        configs = stage.admin.topic_configs(names)
        ids = {state.topic: state.topic_id for state in states.values()}
        return cls(
            {name: (ids.get(name, ""), dict(configs.get(name, {}))) for name in names},
            dict(stage.admin.features()),
            {p: (tuple(s.replicas), frozenset(s.isr), s.leader_epoch) for p, s in states.items()},
        )

    def differs(self, now: Metadata) -> str:
        """The first thing that is not as it was, in words; empty when all is."""
        for name, was in self.topics.items():
            if now.topics.get(name) != was:
                return f"topic {name} has another id or other settings than before"
        if self.features != now.features:
            return f"feature levels are {dict(now.features)}, they were {dict(self.features)}"
        for (topic, partition), (replicas, isr, epoch) in self.partitions.items():
            of_now = now.partitions.get((topic, partition))
            if of_now is None:
                return f"nobody answers about {topic}/{partition}"
            if of_now[0] != replicas or of_now[1] < isr or of_now[2] < epoch:
                reported = f"replicas {list(of_now[0])}, ISR {sorted(of_now[1])}, leader epoch {of_now[2]}"
                return f"{topic}/{partition} has {reported}; it had {list(replicas)}, {sorted(isr)}, {epoch}"
        return ""


def _newest(stage: Stage, node: int) -> int:
    """The highest offset that a snapshot on the disk of a controller stands for; -1 without one."""
    names = (
        path.name
        for directory in stage.cluster.log_directories(node)
        for path in (directory / METADATA_LOG).glob("*.checkpoint")
    )
    return max((int(match[1]) for name in names if (match := _FILE.fullmatch(name))), default=-1)


def _await_snapshots(stage: Stage, nodes: tuple[int, ...], deadline_s: float) -> dict[int, int]:
    """Per controller, the end of a snapshot that holds all that was committed when this was called."""
    mark = stage.admin.quorum().high_watermark
    return wait_for(
        lambda: {node: _newest(stage, node) for node in nodes},
        until=lambda seen: all(offset >= mark for offset in seen.values()),
        deadline_s=deadline_s,
        what=f"snapshots of the metadata up to offset {mark} on {list(nodes)}",
        interval_s=0.2,
    )


def _loaded(
    stage: Stage, snapshots: Mapping[int, int], since: Mapping[int, LogSince], known: Metadata, busy: bool
) -> Probe:
    """Each began from a snapshot at least as new, under load, and what they had agreed on is what it was."""

    def probe() -> EffectProof:
        if not busy:
            return EffectProof(False, IDLE)
        said = {node: log.find(_LOADED) for node, log in since.items()}
        loaded = {node: int(match[1]) if match else -1 for node, match in said.items()}
        late = [node for node, offset in loaded.items() if offset < snapshots[node]]
        seen: dict[str, Any] = {"loaded": {str(node): offset for node, offset in loaded.items()}}
        if late:
            return EffectProof(False, f"{late} did not begin from the snapshots that they had written", seen)
        if difference := known.differs(Metadata.of(stage)):
            return EffectProof(False, difference, seen)
        return EffectProof(
            True, f"{list(loaded)} began from snapshots up to {min(loaded.values())}, and all was as before", seen
        )

    return probe
