"""A power failure: brokers lose everything that the operating system had not written to their disks.

A SIGKILL leaves the page cache as it is. Here the brokers are paused, their file systems shut down
(EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN, without a flush of the journal), the brokers are killed, and the file systems
are mounted again, which replays their journals. Kafka acknowledges records that its replicas have in memory: with the
default flush settings a record that is on no disk yet survives only while one replica in sync keeps its power.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from harness.clusters.base import Disks
from harness.faults.disks.common import disks_of, remount_and_start, replica_folder, require_own_disks
from harness.faults.disks.lying_disk import DiskLies
from harness.faults.nodes.process import absence_proof, injection
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import BrokersExpr, EffectProof, Fault, Injection, Kind, StepRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.admin.client import PartitionState
from harness.kafka.storage.damage import log_end, sound_end
from harness.kafka.storage.log_directory import RECOVERY_POINTS, offset_checkpoint
from harness.model.clock import now_ns
from harness.model.documents.steps import PowerLost
from harness.model.errors import BadInput
from harness.model.facts import FactKind, Stop
from harness.model.place import Place
from harness.model.scenario.scenario import Seconds

AT_ONCE = "1"  # as flush.messages: each record is flushed before it is acknowledged


@dataclass(frozen=True, slots=True)
class _Copy:
    """One replica of a broker that lost power. Log end offsets: `end` before, `left` after the power loss, and `sound`,
    up to which all batches that are left are valid."""

    place: Place
    broker: int
    end: int
    left: int
    sound: int


@dataclass(frozen=True, kw_only=True)
class PowerLoss(Fault):
    """`lying_since` names a step `disk_lies` of the same brokers: then all that they flushed since that step is lost.

    An event `power_loss` of each replica records what it could lose.
    """

    do: ClassVar[str] = "power_loss"
    facts: ClassVar[Declares] = (
        Declared(FactKind.STOPPED, how=Stop.POWER),
        Declared(FactKind.DATA_LOST, what="unflushed"),
        Declared(FactKind.COPIES_REBUILT),
    )
    summary: ClassVar[str] = (
        "Cuts the power of brokers, all at one moment or `stagger_s` apart; data that is on no disk is lost, "
        "and healing starts them."
    )
    proof: ClassVar[str] = (
        "as for `kill`, the file systems shut down, and logs end below their former end, unless all was flushed"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"disk.own", "kill", "pause", "restart"})
    stops: ClassVar[bool] = True
    node: BrokersExpr
    stagger_s: Seconds = 0.0
    lying_since: StepRef = ""

    def validate(self, plan: StepValidation) -> None:
        require_own_disks(plan, self.do)
        self._validate_internal_topics(plan)
        if self.lying_since:
            self._validate_lying_disks(plan)

    def _validate_internal_topics(self, plan: StepValidation) -> None:
        """BadInput when internal topics could lose records: the verifier excuses no loss of those."""
        scenario = plan.scenario
        flushed = scenario.shape.config.get("log.flush.interval.messages") == AT_ONCE
        if flushed or plan.reach(self.node).count < scenario.shape.brokers:
            return
        if any(r.group for r in scenario.readers) or any(p.transactions for p in scenario.producers):
            raise BadInput(
                "node: when all brokers lose power, offsets of groups and transactions that were not flushed are lost; "
                'set config = { "log.flush.interval.messages" = 1 } in [shape], or remove groups and transactions'
            )

    def _validate_lying_disks(self, plan: StepValidation) -> None:
        lies: Kind = plan.earlier[self.lying_since]
        if not isinstance(lies, DiskLies):
            raise BadInput(f"lying_since: the step {self.lying_since!r} is a {lies.do}; name a step disk_lies")
        if not plan.reach(self.node).brokers <= plan.reach(lies.node).brokers:
            raise BadInput(
                f"lying_since: the step {self.lying_since!r} is not about all disks of {self.node!r}; name them there"
            )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        victims = context.nodes(self.node)
        disks = disks_of(context)
        missed = absence_proof(context, victims)
        copies: list[_Copy] = []
        try:
            for number, group in enumerate([(v,) for v in victims] if self.stagger_s else [victims]):
                if number:
                    time.sleep(self.stagger_s)  # the time between two losses is the point
                copies += self._cut(context, disks, group)
            injected = injection(context, victims, _effect(context, missed, copies))
            lost = {f"{t}/{p} of {c.broker}": [c.end, c.left] for c in copies for t, p in [c.place] if c.left < c.end}
            yield replace(injected, resolved={**injected.resolved, "log_ends": lost})
        finally:
            remount_and_start(context, victims)

    def _cut(self, context: StepContext, disks: Disks, nodes: Sequence[int]) -> list[_Copy]:
        """Cuts the power of brokers; returns what became of each of their replicas, and records it as events."""
        states = context.all_states()
        ends = context.admin.replica_offsets(sorted({topic for topic, _ in states}))
        directories = {node: context.cluster.log_directories(node) for node in nodes}
        context.cluster.pause(*nodes)  # else a broker could see EIO before it dies, and log that its disk failed
        for directory in [path for paths in directories.values() for path in paths]:
            disks.shut_down(directory)
        context.cluster.kill(*nodes)
        at_ns = now_ns()
        for directory in [path for paths in directories.values() for path in paths]:
            disks.remount(directory, as_remembered=bool(self.lying_since))
        copies = []
        for node, place in [(n, p) for n in nodes for p, s in states.items() if n in s.replicas]:
            points = _recovery_points(directories[node])
            end = ends.get((*place, node), (0, 0))[1]
            folder = replica_folder(directories[node], place)
            left, sound = (log_end(folder), sound_end(folder)) if folder else (0, 0)
            copies.append(_Copy(place, node, end, left, sound))
            context.record_event(self._lost(states[place], copies[-1], at_ns, points.get(place, 0)))
        return copies

    def _lost(self, state: PartitionState, copy: _Copy, at_ns: int, recovery_point: int) -> PowerLost:
        return PowerLost(
            topic=copy.place[0],
            partition=copy.place[1],
            at_ns=at_ns,
            broker=copy.broker,
            # The replicas that had all acknowledged records: eligible ones (KIP-966) among them.
            isr=tuple(sorted({*state.isr, *state.elr})),
            log_end=copy.end,
            recovery_point=recovery_point,
            sound_end=copy.sound,
            pretended=bool(self.lying_since),
        )


def _recovery_points(directories: Sequence[Path]) -> dict[Place, int]:
    """The offset up to which each log was flushed, from the broker's own recovery points."""
    return {place: point for path in directories for place, point in offset_checkpoint(path, RECOVERY_POINTS).items()}


def _effect(context: StepContext, missed: Probe, copies: Sequence[_Copy]) -> Probe:
    """Proof: the absence was noticed, and logs lost records, which a SIGKILL does not cause."""
    at_once = {t.name for t in context.topics if t.config.get("flush.messages") == AT_ONCE}
    lost = sum(max(0, copy.end - copy.left) for copy in copies)
    seen = {"records_lost_by_logs": lost}

    def asked() -> EffectProof:
        effect = missed()
        both = {**effect.seen, **seen}
        if lost:
            took = f"{len(copies)} logs lost {lost} records that were on no disk"
        elif all(copy.place[0] in at_once for copy in copies):
            took = f"every record was flushed: {len(copies)} logs lost none"
        else:
            return EffectProof(False, "no log lost a record: all were on disk before the power was cut", both)
        return EffectProof(effect.held, f"{took}; {effect.because}", both)

    return asked
