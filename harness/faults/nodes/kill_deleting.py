"""A crash amid local deletion: segments that are in the remote tier have been renamed on a broker's disk, others not.

A broker renames all files of the segments that it gives up, moves its local log start, and removes them some time later
(UnifiedLog.deleteOldSegments, file.delete.delay.ms). What it finds when it returns is whatever it had got to, and its
local log begins there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

from harness.faults.disks.common import HOPELESS_DEADLINE_S, replica_folder, the_only
from harness.faults.nodes import process
from harness.faults.nodes.process import felt, injection, restart
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof, Fault, Injection, OneBrokerExpr, PartitionExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.faults.tier.common import foresee_tier
from harness.kafka.storage.log_directory import deleted_segments, segments
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.waiting import wait_for

DEADLINE_S: Final = 20.0
# Renaming the files of some segments takes a broker a few milliseconds.
LOOK_S: Final = 0.0005


@dataclass(frozen=True, kw_only=True)
class KillDeleting(Fault):
    """SIGKILL of a broker that has begun to delete tiered segments of `of` locally; healing starts it again."""

    do: ClassVar[str] = "kill_deleting"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart", "disk.read"})
    stops: ClassVar[bool] = True
    node: OneBrokerExpr
    of: PartitionExpr

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        process.validate(plan, self.node)
        place = place_of(self.of)
        foresee_tier(plan, self.do, [plan.topic(place[0])])
        if not plan.may_hold(self.node, place):
            raise BadInput(f"node: {self.node} has no replica of {self.of}, and nothing of it to delete")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node = the_only(stage.nodes(self.node), stage.cluster.brokers, self.do)
        folder = replica_folder(stage.cluster.log_directories(node), place_of(self.of))
        missed = felt(stage, (node,))
        began = _await_deletion(folder, f"broker {node} to delete segments of {self.of}") if folder else set()
        try:
            if began:
                stage.cluster.kill(node)
            renamed = sorted(began & deleted_segments(folder)) if folder else []
            left = [segment.base_offset for segment in segments(folder)] if folder else []
            injected = injection(stage, (node,), _probe(node, self.of, renamed, missed))
            yield replace(
                injected,
                resolved={**injected.resolved, "renamed": renamed, "left": left},
                deadline_s=injected.deadline_s if renamed else HOPELESS_DEADLINE_S,
            )
        finally:
            restart(stage, (node,))


def _await_deletion(folder: Path, what: str) -> set[int]:
    """Base offsets of segments whose deletion has begun since; empty where none did in time."""
    before = deleted_segments(folder)
    with suppress(HarnessTimeout):  # the bite says so
        return wait_for(
            lambda: deleted_segments(folder) - before, until=bool, deadline_s=DEADLINE_S, what=what, interval_s=LOOK_S
        )
    return set()


def _probe(node: int, of: str, renamed: list[int], missed: Probe) -> Probe:
    def asked() -> EffectProof:
        if not renamed:
            return EffectProof(False, f"broker {node} did not die with segments of {of} about to be deleted")
        effect, seen = missed(), {"renamed": renamed}
        because = f"broker {node} was about to delete segments {renamed} of {of}; {effect.because}"
        return EffectProof(effect.held, because, {**effect.seen, **seen})

    return asked
