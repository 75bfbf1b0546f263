"""A crash amid compaction: the cleaner has written a part of what is to replace segments, or is replacing them.

A cleaner copies what stays into new files (.cleaned), renames these (.swap) and puts them in the place of the old ones
(UnifiedLog.replaceSegments, Cleaner.cleanSegments). What it finds when it returns is whatever it had got to: recovery
throws the first away and completes the second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
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
from harness.kafka.storage.log_directory import being_cleaned
from harness.model.clock import now_ns
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.waiting import wait_for

DEADLINE_S: Final = 60.0
# A cleaner is done with a small log within milliseconds, so it is slowed down (KIP-226): to seconds a segment.
RATE: Final = "log.cleaner.io.max.bytes.per.second"
SLOW_BYTES_PER_S: Final = 1_000_000
LOOK_S: Final = 0.0005


@dataclass(frozen=True, kw_only=True)
class KillCleaning(Fault):
    """SIGKILL of a broker whose cleaner, slowed down, is compacting `of`; healing starts it again."""

    do: ClassVar[str] = "kill_cleaning"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "pause", "restart", "disk.read"})
    stops: ClassVar[bool] = True
    node: OneBrokerExpr
    of: PartitionExpr

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        process.validate(plan, self.node)
        place = place_of(self.of)
        if "compact" not in plan.topic(place[0]).config.get("cleanup.policy", ""):
            raise BadInput(f'of: {place[0]} is not compacted; give it "cleanup.policy" = "compact"')
        if not plan.may_hold(self.node, place):
            raise BadInput(f"node: {self.node} has no replica of {self.of}, and nothing of it to compact")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node = the_only(stage.nodes(self.node), stage.cluster.brokers, self.do)
        folder = replica_folder(stage.cluster.log_directories(node), place_of(self.of))
        try:
            stage.admin.alter_broker_config([node], {RATE: str(SLOW_BYTES_PER_S)})
            missed = felt(stage, (node,))
            left = _killed_amid(stage, node, folder, f"the cleaner of broker {node} to compact {self.of}")
            injected = injection(stage, (node,), _probe(node, self.of, left, missed))
            yield replace(
                injected,
                resolved={**injected.resolved, "left": left},
                deadline_s=injected.deadline_s if left else HOPELESS_DEADLINE_S,
            )
        finally:
            restart(stage, (node,))
            stage.admin.alter_broker_config([node], {RATE: None})


def _killed_amid(stage: Stage, node: int, folder: Path | None, what: str) -> list[str]:
    """The files that it was writing to when it was killed; none = it was not met at work in time, and lives.

    It is looked at while it stands still: a file that was just seen may be whole and gone before a signal is there.
    What lay there before says nothing.
    """
    since_ns, give_up_at = now_ns(), time.monotonic() + DEADLINE_S
    while folder is not None and (left_s := give_up_at - time.monotonic()) > 0:
        with suppress(HarnessTimeout):  # the bite says so
            wait_for(
                partial(being_cleaned, folder, since_ns), until=bool, deadline_s=left_s, what=what, interval_s=LOOK_S
            )
        stage.cluster.pause(node)
        if left := being_cleaned(folder, since_ns):
            stage.cluster.kill(node)
            return sorted(left)
        stage.cluster.resume(node)
    return []


def _probe(node: int, of: str, left: list[str], missed: Probe) -> Probe:
    def asked() -> EffectProof:
        if not left:
            return EffectProof(False, f"broker {node} did not die while it compacted {of}")
        effect = missed()
        because = f"broker {node} left {', '.join(left)} of the compaction of {of}; {effect.because}"
        return EffectProof(effect.held, because, {**effect.seen, "left": left})

    return asked
