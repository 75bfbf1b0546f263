"""A node that runs out of memory: out of the heap of its JVM, or out of the memory of its container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from harness.clusters.base import OUT_OF_MEMORY
from harness.faults.disks.common import LogSince, only_node
from harness.faults.nodes import process
from harness.faults.nodes.process import absence_proof, injection, restart
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import EffectProof, Fault, Injection, NodesExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.settings.heap_filler import filled_heap
from harness.model.errors import BadInput
from harness.model.facts import FactKind, Stop

# With -XX:+ExitOnOutOfMemoryError the JVM prints this and ends with code 3.
ENDED: Final = r"Terminating due to java\.lang\.OutOfMemoryError"
DEADLINE_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class OutOfMemory(Fault):
    """Large requests, announced and not sent in full, fill the heap."""

    do: ClassVar[str] = "out_of_memory"
    facts: ClassVar[Declares] = (Declared(FactKind.STOPPED, how=Stop.CRASHED),)
    summary: ClassVar[str] = (
        "Fills the heap of a running node until its JVM ends with OutOfMemoryError; healing starts it again."
    )
    proof: ClassVar[str] = "it ended, its JVM named OutOfMemoryError as the reason, and its absence shows as for `kill`"
    needs: ClassVar[frozenset[str]] = frozenset({"restart", "disk.read"})
    stops: ClassVar[bool] = True
    node: NodesExpr

    def validate(self, plan: StepValidation) -> None:
        process.validate(plan, self.node)
        if plan.reach(self.node).count > 1:
            raise BadInput(f"node: {self.node!r} names several nodes, and this step fills the heap of one; name one")

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node = only_node(context.nodes(self.node), (*context.cluster.brokers, *context.cluster.controllers), self.do)
        missed = absence_proof(context, (node,))
        since = LogSince(context.cluster.console_log(node))
        try:
            context.cluster.let_end(node)
            with self._scarce(context, node) as resolved, filled_heap(context.cluster.direct_address(node)):
                injected = injection(context, (node,), self._ended(context, node, since, missed))
                yield replace(injected, resolved={**injected.resolved, **resolved}, deadline_s=DEADLINE_S)
        finally:
            restart(context, (node,))

    @contextmanager
    def _scarce(self, context: StepContext, node: int) -> Iterator[Mapping[str, object]]:  # noqa: ARG002 - OomKilled needs it
        yield {}

    def _ended(self, context: StepContext, node: int, since: LogSince, missed: Probe) -> Probe:
        """Proof: the node ended for lack of memory, and the cluster noticed its absence."""

        def asked() -> EffectProof:
            how = context.cluster.how_it_ended(node)
            because = self._of_memory(how, since)
            seen = {"ended": how, "of_memory": because is not None}
            if not how:
                return EffectProof(False, f"node {node} still runs: it has memory for all announced requests", seen)
            if because is None:
                return EffectProof(False, f"node {node} ended ({how}), but not for lack of memory", seen)
            effect = missed()
            return EffectProof(effect.held, f"node {node} {because}; {effect.because}", {**effect.seen, **seen})

        return asked

    def _of_memory(self, how: str, since: LogSince) -> str | None:  # noqa: ARG002 - OomKilled reads `how`
        return "ended with OutOfMemoryError" if since.find(ENDED) else None


@dataclass(frozen=True, kw_only=True)
class OomKilled(OutOfMemory):
    """The limit of the container is lowered to the memory in use, and the heap grows until the kernel kills it."""

    do: ClassVar[str] = "oom_killed"
    summary: ClassVar[str] = (
        "Limits the memory of a node's container to what it uses, until the kernel kills the node; "
        "healing restores the limit and starts it again."
    )
    proof: ClassVar[str] = (
        "the container engine reports that the kernel killed it for its memory, and its absence shows as for `kill`"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"memory.limit", "restart", "disk.read"})

    @contextmanager
    def _scarce(self, context: StepContext, node: int) -> Iterator[Mapping[str, object]]:
        try:
            yield {"limit_bytes": context.cluster.squeeze_memory(node)}
        finally:
            context.cluster.release_memory(node)

    def _of_memory(self, how: str, since: LogSince) -> str | None:  # noqa: ARG002 - the kernel gives the JVM no time to log
        return "was killed by the kernel for the memory of its container" if OUT_OF_MEMORY in how else None
