"""A slow disk: writes to the page cache are as fast as before, and flushes take long.

With the default flush settings an acknowledgement waits for no flush, so only topics that flush each record notice it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from harness.faults.disks.common import disks_of, only_node, require_own_disks
from harness.faults.disks.disk_stalled import stall_proof
from harness.faults.nodes.power_loss import AT_ONCE
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof, Fault, Injection, OneBrokerExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.scenario.scenario import Range

SLOW_S: Final = 0.1  # a flush takes milliseconds on a fast disk


@dataclass(frozen=True, kw_only=True)
class DiskSlow(Fault):
    """Only flushes wait; other writes go to the page cache."""

    do: ClassVar[str] = "disk_slow"
    facts: ClassVar[Declares] = (Declared(FactKind.DISK_SLOW),)
    summary: ClassVar[str] = (
        "Limits the disks of a broker to `writes_per_s` writes a second, so that flushes take long."
    )
    proof: ClassVar[str] = (
        "flushing a small file took much longer than before, and the stall shows as for `disk_stalled`"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"disk.own", "disk.slow"})
    node: OneBrokerExpr
    writes_per_s: Annotated[int, Range(1, 1000)] = 3

    def validate(self, plan: StepValidation) -> None:
        require_own_disks(plan, self.do)
        settings = [plan.scenario.shape.config.get("log.flush.interval.messages")]
        if AT_ONCE not in [*settings, *(topic.config.get("flush.messages") for topic in plan.scenario.topics)]:
            raise BadInput('node: no acknowledgement waits for a flush; give a topic config = { "flush.messages" = 1 }')

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node, disks = only_node(context.nodes(self.node), context.cluster.brokers, self.do), disks_of(context)
        directories = context.cluster.log_directories(node)
        stalled, usual_s = stall_proof(context, node), disks.flush_s(directories[0])
        try:
            for directory in directories:
                disks.slow(directory, self.writes_per_s)
            flush_s = disks.flush_s(directories[0])
            resolved = {"nodes": [node], "flush_s": [round(usual_s, 4), round(flush_s, 4)]}
            yield Injection(resolved=resolved, probe=_slowed(stalled, usual_s, flush_s), nodes=(node,))
        finally:
            for directory in directories:
                disks.slow(directory, None)


def _slowed(stalled: Probe, usual_s: float, flush_s: float) -> Probe:
    """Proof: a flush took much longer than before, and the broker stalled."""

    def asked() -> EffectProof:
        effect = stalled()
        because = f"a flush took {flush_s:.3f} s, and {usual_s:.3f} s before; {effect.because}"
        slow = flush_s >= max(SLOW_S, 2 * usual_s)
        return EffectProof(effect.held and slow, because, {**effect.seen, "flush_s": [usual_s, flush_s]})

    return asked
