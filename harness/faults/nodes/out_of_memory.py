"""A node that runs out of memory: of the heap that its JVM gives it, or of what its container may take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from harness.faults.disks.common import LogSince, the_only
from harness.faults.nodes import process
from harness.faults.nodes.process import felt, injection, restart
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof, Fault, Injection, NodesExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.settings.heap_filler import filled_heap
from harness.model.errors import BadInput

# What -XX:+ExitOnOutOfMemoryError has the JVM print, before it ends with code 3.
ENDED: Final = r"Terminating due to java\.lang\.OutOfMemoryError"
# How the engine tells of a process that the kernel ended for it.
KILLED: Final = "out of the memory that its container may take"
DEADLINE_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class OutOfMemory(Fault):
    """Fills the heap of a running node until its JVM ends of OutOfMemoryError; healing starts it with an empty one."""

    do: ClassVar[str] = "out_of_memory"
    needs: ClassVar[frozenset[str]] = frozenset({"restart"})
    stops: ClassVar[bool] = True
    node: NodesExpr

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        process.validate(plan, self.node)
        if plan.reach(self.node).count > 1:
            raise BadInput(f"node: {self.node!r} names several nodes, and this fills the heap of one; name it")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node = the_only(stage.nodes(self.node), (*stage.cluster.brokers, *stage.cluster.controllers), self.do)
        missed = felt(stage, (node,))
        since = LogSince(stage.cluster.console_log(node))
        try:
            stage.cluster.let_end(node)
            with self._scarce(stage, node) as resolved, filled_heap(stage.cluster.direct_address(node)):
                injected = injection(stage, (node,), self._ended(stage, node, since, missed))
                yield replace(injected, resolved={**injected.resolved, **resolved}, deadline_s=DEADLINE_S)
        finally:
            restart(stage, (node,))

    @contextmanager
    def _scarce(self, stage: Stage, node: int) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - for who has more to do
        yield {}

    def _ended(self, stage: Stage, node: int, since: LogSince, missed: Probe) -> Probe:
        """The node is gone, said why, and was missed."""

        def asked() -> EffectProof:
            how = stage.cluster.how_it_ended(node)
            because = self._of_memory(how, since)
            seen = {"ended": how, "of_memory": because is not None}
            if not how:
                return EffectProof(False, f"node {node} runs on: it finds memory for all that is announced", seen)
            if because is None:
                return EffectProof(False, f"node {node} ended ({how}), and not for want of memory", seen)
            effect = missed()
            return EffectProof(effect.held, f"node {node} {because}; {effect.because}", {**effect.seen, **seen})

        return asked

    def _of_memory(self, how: str, since: LogSince) -> str | None:  # noqa: ARG002 - for who asks otherwise
        return "ended of OutOfMemoryError" if since.find(ENDED) else None


@dataclass(frozen=True, kw_only=True)
class OomKilled(OutOfMemory):
    """Leaves a node's container no more memory than it has, until the kernel kills it; healing gives it back."""

    do: ClassVar[str] = "oom_killed"
    needs: ClassVar[frozenset[str]] = frozenset({"memory.limit", "restart"})

    @contextmanager
    def _scarce(self, stage: Stage, node: int) -> Iterator[dict[str, Any]]:
        try:
            yield {"limit_bytes": stage.cluster.squeeze_memory(node)}
        finally:
            stage.cluster.release_memory(node)

    def _of_memory(self, how: str, since: LogSince) -> str | None:  # noqa: ARG002 - the kernel leaves it no last word
        return "was killed by the kernel, out of its container's memory" if KILLED in how else None
