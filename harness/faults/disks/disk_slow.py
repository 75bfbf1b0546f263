"""A disk that takes its time: who writes goes on, for the page cache takes it, and who waits for a flush waits long.

With the default flush settings an acknowledgement waits for no disk, so that only topics that flush at once feel it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from harness.faults.disks.common import disks_of, foresee_own_disks, the_only
from harness.faults.disks.disk_stalled import felt_waiting
from harness.faults.nodes.power_loss import AT_ONCE
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof, Fault, Injection, OneBrokerExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Range

SLOW_S: Final = 0.1  # of a flush that takes milliseconds on a disk that is well


@dataclass(frozen=True, kw_only=True)
class DiskSlow(Fault):
    """Lets the disks of a broker take `writes_per_s` writes a second: a flush waits long, and other writes do not."""

    do: ClassVar[str] = "disk_slow"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.own", "disk.slow"})
    node: OneBrokerExpr
    writes_per_s: Annotated[int, Range(1, 1000)] = 3

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_own_disks(plan, self.do)
        settings = [plan.scenario.shape.config.get("log.flush.interval.messages")]
        if AT_ONCE not in [*settings, *(topic.config.get("flush.messages") for topic in plan.scenario.topics)]:
            raise BadInput('node: no acknowledgement waits for a flush; give a topic config = { "flush.messages" = 1 }')

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node, disks = the_only(stage.nodes(self.node), stage.cluster.brokers, self.do), disks_of(stage)
        directories = stage.cluster.log_directories(node)
        felt, usual_s = felt_waiting(stage, node), disks.flush_s(directories[0])
        try:
            for directory in directories:
                disks.slow(directory, self.writes_per_s)
            flush_s = disks.flush_s(directories[0])
            resolved = {"nodes": [node], "flush_s": [round(usual_s, 4), round(flush_s, 4)]}
            yield Injection(resolved=resolved, probe=_waited(felt, usual_s, flush_s), nodes=(node,))
        finally:
            for directory in directories:
                disks.slow(directory, None)


def _waited(felt: Probe, usual_s: float, flush_s: float) -> Probe:
    """A flush took much longer than before, and it was felt."""

    def asked() -> EffectProof:
        effect = felt()
        reported = f"a flush took {flush_s:.3f} s, and {usual_s:.3f} s before"
        slow = flush_s >= max(SLOW_S, 2 * usual_s)
        return EffectProof(
            effect.held and slow, f"{reported}; {effect.because}", {**effect.seen, "flush_s": [usual_s, flush_s]}
        )

    return asked
