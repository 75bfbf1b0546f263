"""A crash during compaction, while the cleaner writes new segments or replaces old ones by them.

A cleaner copies the records that stay into new files (.cleaned), renames them (.swap), and puts them in the place of
the old segments (UnifiedLog.replaceSegments, Cleaner.cleanSegments). After a crash, recovery deletes .cleaned files
and completes the replacement by .swap files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
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
from harness.kafka.storage.log_directory import being_cleaned
from harness.model.clock import now_ns
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.facts import FactKind, Stop
from harness.model.waiting import wait_for

DEADLINE_S: Final = 60.0
# A cleaner compacts a small log within milliseconds, so it is slowed down to seconds a segment (KIP-226).
RATE: Final = "log.cleaner.io.max.bytes.per.second"
SLOW_BYTES_PER_S: Final = 1_000_000
LOOK_S: Final = 0.0005


@dataclass(frozen=True, kw_only=True)
class KillCleaning(Fault):
    """The cleaner of the broker runs at a limited rate until the fault is healed."""

    do: ClassVar[str] = "kill_cleaning"
    facts: ClassVar[Declares] = (Declared(FactKind.FROZEN), Declared(FactKind.STOPPED, how=Stop.KILLED, at_once=True))
    summary: ClassVar[str] = (
        "Kills a broker with SIGKILL while its cleaner, slowed down, compacts `of`; healing starts it again."
    )
    proof: ClassVar[str] = "as for `kill`, and the dead broker left unfinished files of the cleaner"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "pause", "restart", "disk.read"})
    stops: ClassVar[bool] = True
    node: OneBrokerExpr
    of: PartitionExpr

    def validate(self, plan: StepValidation) -> None:
        process.validate(plan, self.node)
        place = place_of(self.of)
        if "compact" not in plan.topic(place[0]).config.get("cleanup.policy", ""):
            raise BadInput(f'of: {place[0]} is not compacted; give it "cleanup.policy" = "compact"')
        if not plan.may_hold(self.node, place):
            raise BadInput(f"node: {self.node} has no replica of {self.of} to compact; name a broker that has one")

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node = only_node(context.nodes(self.node), context.cluster.brokers, self.do)
        folder = replica_folder(context.cluster.log_directories(node), place_of(self.of))
        try:
            context.admin.alter_broker_config([node], {RATE: str(SLOW_BYTES_PER_S)})
            missed = absence_proof(context, (node,))
            left = _kill_during_compaction(context, node, folder, f"the cleaner of broker {node} to compact {self.of}")
            injected = injection(context, (node,), _probe(node, self.of, left, missed))
            yield replace(
                injected,
                resolved={**injected.resolved, "left": left},
                deadline_s=injected.deadline_s if left else NO_EFFECT_DEADLINE_S,
            )
        finally:
            restart(context, (node,))
            context.admin.alter_broker_config([node], {RATE: None})


def _kill_during_compaction(context: StepContext, node: int, folder: Path | None, what: str) -> list[str]:
    """Kills a broker during a compaction; returns the unfinished files, none when no compaction was seen in time.

    The broker is paused for the decisive look: the cleaner may finish and rename a file before a signal arrives. Files
    of earlier compactions do not count.
    """
    since_ns, give_up_at = now_ns(), time.monotonic() + DEADLINE_S
    while folder is not None and (left_s := give_up_at - time.monotonic()) > 0:
        with suppress(HarnessTimeout):  # the effect proof reports it
            wait_for(
                partial(being_cleaned, folder, since_ns), until=bool, deadline_s=left_s, what=what, interval_s=LOOK_S
            )
        context.cluster.pause(node)
        if left := being_cleaned(folder, since_ns):
            context.cluster.kill(node)
            return sorted(left)
        context.cluster.resume(node)
    return []


def _probe(node: int, of: str, left: list[str], missed: Probe) -> Probe:
    def asked() -> EffectProof:
        if not left:
            return EffectProof(False, f"broker {node} was not killed while it compacted {of}")
        effect = missed()
        because = f"broker {node} left {', '.join(left)} of the compaction of {of}; {effect.because}"
        return EffectProof(effect.held, because, {**effect.seen, "left": left})

    return asked
