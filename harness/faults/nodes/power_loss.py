"""Power that fails: what the operating system had not written to the disks of brokers is gone when they return.

A SIGKILL leaves the page cache as it is. Here the brokers stand still, their file systems fail (EXT4_IOC_SHUTDOWN,
XFS_IOC_GOINGDOWN, without a flush of the journal), they die, and the file systems are mounted again, which replays
their journals. Kafka acknowledges what its replicas have in memory: with the default flush settings a record that is on
no disk yet survives only as long as one replica in sync keeps its power.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from harness.faults.disks.common import disks_of, foresee_own_disks, mend, replica_folder
from harness.faults.disks.lying_disk import DiskLies
from harness.faults.nodes.process import felt, injection
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import (
    BrokersExpr,
    DisksView,
    EffectProof,
    Fault,
    Injection,
    Kind,
    PartitionView,
    Place,
    StepRef,
)
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.storage.damage import log_end, sound_end
from harness.kafka.storage.log_directory import RECOVERY_POINTS, offset_checkpoint
from harness.model.clock import now_ns
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Seconds

AT_ONCE = "1"  # of flush.messages: no replica has a record in memory alone


@dataclass(frozen=True, slots=True)
class _Copy:
    """One replica of a broker that lost power: where its log ended before, what is left of it, and how much of that is
    sound from the beginning."""

    place: Place
    broker: int
    end: int
    left: int
    sound: int


@dataclass(frozen=True, kw_only=True)
class PowerLoss(Fault):
    """Cuts the power of brokers, all at one moment or `stagger_s` apart; what no disk has yet is gone.

    `lying_since` names a step `disk_lies` of the same brokers: then what they flushed since that step is gone, too.
    """

    do: ClassVar[str] = "power_loss"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.own", "kill", "pause", "restart"})
    stops: ClassVar[bool] = True
    node: BrokersExpr
    stagger_s: Seconds = 0.0
    lying_since: StepRef = ""

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_own_disks(plan, self.do)
        self._foresee_internal_topics(plan)
        if self.lying_since:
            self._foresee_lies(plan)

    def _foresee_internal_topics(self, plan: StepValidation) -> None:
        """What they lose is nowhere counted as permitted, so where all of it may be lost they have to be flushed."""
        scenario = plan.scenario
        flushed = scenario.shape.config.get("log.flush.interval.messages") == AT_ONCE
        if flushed or plan.reach(self.node).count < scenario.shape.brokers:
            return
        if any(r.group for r in scenario.readers) or any(p.transactions for p in scenario.producers):
            raise BadInput(
                "node: with the power of all brokers goes what nobody flushed of group offsets and transactions; set "
                'config = { "log.flush.interval.messages" = 1 } in [shape], or leave groups and transactions away'
            )

    def _foresee_lies(self, plan: StepValidation) -> None:
        lies: Kind = plan.earlier[self.lying_since]
        if not isinstance(lies, DiskLies):
            raise BadInput(f"lying_since: the step {self.lying_since!r} is a {lies.do}; name one of disk_lies")
        if not plan.reach(self.node).brokers <= plan.reach(lies.node).brokers:
            raise BadInput(f"lying_since: the disks of {self.node!r} do not lie since {self.lying_since!r}")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        victims = stage.nodes(self.node)
        disks = disks_of(stage)
        missed = felt(stage, victims)
        copies: list[_Copy] = []
        try:
            for number, group in enumerate([(v,) for v in victims] if self.stagger_s else [victims]):
                if number:
                    time.sleep(self.stagger_s)  # the time between two losses is the point
                copies += self._cut(stage, disks, group)
            injected = injection(stage, victims, _bitten(stage, missed, copies))
            lost = {f"{t}/{p} of {c.broker}": [c.end, c.left] for c in copies for t, p in [c.place] if c.left < c.end}
            yield replace(injected, resolved={**injected.resolved, "log_ends": lost})
        finally:
            mend(stage, victims)

    def _cut(self, stage: Stage, disks: DisksView, nodes: Sequence[int]) -> list[_Copy]:
        """What was lost of each replica; an event of each tells the judge what could be lost."""
        states = stage.all_states()
        ends = stage.admin.replica_offsets(sorted({topic for topic, _ in states}))
        directories = {node: stage.cluster.log_directories(node) for node in nodes}
        stage.cluster.pause(*nodes)  # nobody learns from EIO that its disk went before it
        for directory in [path for paths in directories.values() for path in paths]:
            disks.shut_down(directory)
        stage.cluster.kill(*nodes)
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
            self._tell(stage, states[place], copies[-1], at_ns=at_ns, recovery_point=points.get(place, 0))
        return copies

    def _tell(self, stage: Stage, state: PartitionView, copy: _Copy, **facts: Any) -> None:
        stage.record_event(
            "power_loss",
            topic=copy.place[0],
            partition=copy.place[1],
            broker=copy.broker,
            # Who had all that was acknowledged: an eligible replica (KIP-966) has it, too.
            isr=sorted({*state.isr, *state.elr}),
            log_end=copy.end,
            sound_end=copy.sound,
            pretended=bool(self.lying_since),
            **facts,
        )


def _recovery_points(directories: Sequence[Path]) -> dict[Place, int]:
    """Up to where each log was flushed, as the broker itself has noted it."""
    return {place: point for path in directories for place, point in offset_checkpoint(path, RECOVERY_POINTS).items()}


def _bitten(stage: Stage, missed: Probe, copies: Sequence[_Copy]) -> Probe:
    """The brokers were missed, their file systems went down, and more went with them than a SIGKILL takes."""
    at_once = {t.name for t in stage.topics if t.config.get("flush.messages") == AT_ONCE}
    lost = sum(max(0, copy.end - copy.left) for copy in copies)
    seen: Mapping[str, Any] = {"records_lost_by_logs": lost}

    def asked() -> EffectProof:
        effect = missed()
        both = {**effect.seen, **seen}
        if lost:
            took = f"the power took {lost} records of {len(copies)} logs with it"
        elif all(copy.place[0] in at_once for copy in copies):
            took = f"everything was on disk: the power took nothing of {len(copies)} logs with it"
        else:
            return EffectProof(False, "no log lost a record: all had been written before the power went", both)
        return EffectProof(effect.held, f"{took}; {effect.because}", both)

    return asked
