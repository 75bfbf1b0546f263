"""Controllers that start from a metadata snapshot (KIP-630) in place of the log that it covers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from harness.faults.disks.common import LogSince
from harness.faults.nodes import process
from harness.faults.nodes.process import injection, restart
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import IDLE, Probe, under_load
from harness.faults.steps.step import ControllersExpr, EffectProof, Fault, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.storage.log_directory import METADATA_LOG
from harness.model.facts import FactKind, Stop
from harness.model.place import Place
from harness.model.scenario.scenario import Deadline
from harness.model.waiting import wait_for

LOADED_DEADLINE_S: Final = 60.0
_FILE: Final = re.compile(r"(\d{20})-\d{10}\.checkpoint")
# MetadataLoader and QuorumController print it when they load a snapshot; all releases from 3.3 on.
_LOADED: Final = r"(?:handleLoadSnapshot\(|load snapshot \()(\d{20})-\d{10}"


@dataclass(frozen=True, kw_only=True)
class MetadataSnapshot(Fault):
    """A snapshot is new when it covers everything that was committed when the step began."""

    do: ClassVar[str] = "metadata_snapshot"
    proven_late: ClassVar[bool] = True
    facts: ClassVar[Declares] = (
        Declared(FactKind.STOPPED, how=Stop.KILLED, of_controllers=True),
        Declared(FactKind.QUORUM_LOST, of_controllers=True, of_majority=True),
    )
    summary: ClassVar[str] = (
        "Waits until controllers have written a new metadata snapshot, and kills them; healing starts them from it."
    )
    proof: ClassVar[str] = (
        "each controller logged that it loaded a snapshot at least as new as the one on its disk, and topics, "
        "settings, feature levels, replicas and ISRs are as before"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart", "disk.read"})
    stops: ClassVar[bool] = True
    node: ControllersExpr = "controllers"
    deadline_s: Deadline = 60.0

    def validate(self, plan: StepValidation) -> None:
        # When all controllers are killed, no takeover can show it: that they load a snapshot is the proof.
        if plan.reach(self.node).count < plan.scenario.shape.controllers:
            process.validate(plan, self.node)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        victims = context.nodes(self.node)
        snapshots = _await_snapshots(context, victims, self.deadline_s)
        known, busy = Metadata.of(context), bool(under_load(context))
        since = {node: LogSince(context.cluster.server_log(node)) for node in victims}
        try:
            context.cluster.kill(*victims)
            injected = injection(context, victims, _loaded(context, snapshots, since, known, busy))
            resolved = {**injected.resolved, "snapshots": {str(n): offset for n, offset in snapshots.items()}}
            yield replace(injected, resolved=resolved, after_heal=True, deadline_s=LOADED_DEADLINE_S)
        finally:
            restart(context, victims)


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata that brokers report."""

    topics: Mapping[str, tuple[str, Mapping[str, str]]]  # id and settings
    features: Mapping[str, int]
    partitions: Mapping[Place, tuple[tuple[int, ...], frozenset[int], int]]  # replicas, ISR, leader epoch

    @classmethod
    def of(cls, context: StepContext) -> Metadata:
        """The metadata of this moment."""
        states, names = context.all_states(), [t.name for t in context.topics]
        configs = context.admin.topic_configs(names)
        ids = {state.topic: state.topic_id for state in states.values()}
        return cls(
            {name: (ids.get(name, ""), dict(configs.get(name, {}))) for name in names},
            dict(context.admin.features()),
            {p: (tuple(s.replicas), frozenset(s.isr), s.leader_epoch) for p, s in states.items()},
        )

    def differs(self, now: Metadata) -> str:
        """The first difference, as a text; empty when there is none. An ISR may grow, and an epoch may rise."""
        for name, was in self.topics.items():
            if now.topics.get(name) != was:
                return f"topic {name} has another id or other settings than before"
        if self.features != now.features:
            return f"feature levels are {dict(now.features)} and were {dict(self.features)}"
        for (topic, partition), (replicas, isr, epoch) in self.partitions.items():
            of_now = now.partitions.get((topic, partition))
            if of_now is None:
                return f"no broker answers about {topic}/{partition}"
            if of_now[0] != replicas or of_now[1] < isr or of_now[2] < epoch:
                reported = f"replicas {list(of_now[0])}, ISR {sorted(of_now[1])}, leader epoch {of_now[2]}"
                return f"{topic}/{partition} has {reported}; it had {list(replicas)}, {sorted(isr)}, {epoch}"
        return ""


def _newest(context: StepContext, node: int) -> int:
    """The end offset of the newest snapshot on the disk of a controller; -1 without one."""
    names = (
        path.name
        for directory in context.cluster.log_directories(node)
        for path in (directory / METADATA_LOG).glob("*.checkpoint")
    )
    return max((int(match[1]) for name in names if (match := _FILE.fullmatch(name))), default=-1)


def _await_snapshots(context: StepContext, nodes: tuple[int, ...], deadline_s: float) -> dict[int, int]:
    """Waits for snapshots that cover everything committed until now; returns their end offsets by controller."""
    mark = context.admin.quorum().high_watermark
    return wait_for(
        lambda: {node: _newest(context, node) for node in nodes},
        until=lambda seen: all(offset >= mark for offset in seen.values()),
        deadline_s=deadline_s,
        what=f"snapshots of the metadata up to offset {mark} on {list(nodes)}",
        interval_s=0.2,
    )


def _loaded(
    context: StepContext, snapshots: Mapping[int, int], since: Mapping[int, LogSince], known: Metadata, busy: bool
) -> Probe:
    """Proof, under load: each controller loaded a snapshot at least as new, and the metadata is as before."""

    def probe() -> EffectProof:
        if not busy:
            return EffectProof(False, IDLE)
        said = {node: log.find(_LOADED) for node, log in since.items()}
        loaded = {node: int(match[1]) if match else -1 for node, match in said.items()}
        late = [node for node, offset in loaded.items() if offset < snapshots[node]]
        seen = {"loaded": {str(node): offset for node, offset in loaded.items()}}
        if late:
            return EffectProof(False, f"{late} did not load the snapshots that they had written", seen)
        if difference := known.differs(Metadata.of(context)):
            return EffectProof(False, difference, seen)
        return EffectProof(
            True, f"{list(loaded)} loaded snapshots up to {min(loaded.values())}, and the metadata is as before", seen
        )

    return probe
