"""A crash during local deletion: a broker has renamed some of the segments that the remote tier has, and not all.

A broker renames all files of the segments that it deletes locally, moves its local log start offset, and removes the
files later (UnifiedLog.deleteOldSegments, file.delete.delay.ms). After a crash its local log starts at the first
segment that was not renamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

from harness.faults.disks.common import NO_EFFECT_DEADLINE_S, only_node, replica_folder
from harness.faults.nodes import process
from harness.faults.nodes.process import absence_proof, injection, restart
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof, Fault, Injection, OneBrokerExpr, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.faults.tier.common import require_tier
from harness.kafka.storage.log_directory import deleted_segments, segments
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.facts import FactKind, Stop
from harness.model.waiting import wait_for

DEADLINE_S: Final = 20.0
# Renaming the files of some segments takes a broker a few milliseconds.
LOOK_S: Final = 0.0005


@dataclass(frozen=True, kw_only=True)
class KillDeleting(Fault):
    """The step waits for the deletion of a segment, and kills the broker at once."""

    do: ClassVar[str] = "kill_deleting"
    facts: ClassVar[Declares] = (Declared(FactKind.STOPPED, how=Stop.KILLED, at_once=True),)
    summary: ClassVar[str] = (
        "Kills a broker with SIGKILL when it begins to delete tiered segments of `of` locally; healing starts it again."
    )
    proof: ClassVar[str] = "as for `kill`, and the dead broker left segments of `of` renamed but not removed"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart", "disk.read"})
    stops: ClassVar[bool] = True
    node: OneBrokerExpr
    of: PartitionExpr

    def validate(self, plan: StepValidation) -> None:
        process.validate(plan, self.node)
        place = place_of(self.of)
        require_tier(plan, self.do, [plan.topic(place[0])])
        if not plan.may_hold(self.node, place):
            raise BadInput(f"node: {self.node} has no replica of {self.of} to delete; name a broker that has one")

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node = only_node(context.nodes(self.node), context.cluster.brokers, self.do)
        folder = replica_folder(context.cluster.log_directories(node), place_of(self.of))
        missed = absence_proof(context, (node,))
        began = _await_deletion(folder, f"broker {node} to delete segments of {self.of}") if folder else set()
        try:
            if began:
                context.cluster.kill(node)
            renamed = sorted(began & deleted_segments(folder)) if folder else []
            left = [segment.base_offset for segment in segments(folder)] if folder else []
            injected = injection(context, (node,), _probe(node, self.of, renamed, missed))
            yield replace(
                injected,
                resolved={**injected.resolved, "renamed": renamed, "left": left},
                deadline_s=injected.deadline_s if renamed else NO_EFFECT_DEADLINE_S,
            )
        finally:
            restart(context, (node,))


def _await_deletion(folder: Path, what: str) -> set[int]:
    """Base offsets of the segments that the broker begins to delete now; empty when it began none in time."""
    before = deleted_segments(folder)
    with suppress(HarnessTimeout):  # the effect proof reports it
        return wait_for(
            lambda: deleted_segments(folder) - before, until=bool, deadline_s=DEADLINE_S, what=what, interval_s=LOOK_S
        )
    return set()


def _probe(node: int, of: str, renamed: list[int], missed: Probe) -> Probe:
    def asked() -> EffectProof:
        if not renamed:
            return EffectProof(False, f"broker {node} was not killed while it deleted segments of {of}")
        effect, seen = missed(), {"renamed": renamed}
        because = f"broker {node} was about to delete segments {renamed} of {of}; {effect.because}"
        return EffectProof(effect.held, because, {**effect.seen, **seen})

    return asked
