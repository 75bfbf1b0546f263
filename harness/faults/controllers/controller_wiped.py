"""A controller that loses its disk and returns with an empty one.

Static voters (controller.quorum.voters) are known by their node ids alone (KIP-595), so the node that returns is the
voter that went: it has forgotten what it voted for and what it acknowledged. That costs nothing as long as the others
have all of it, which is waited for. Dynamic voters (KIP-853) are also known by their directory ids: who returns is not
the one that went, so that one is removed and this one added, as Kafka's operations guide has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from harness.faults.controllers import common as controllers
from harness.faults.disks.common import LogSince, the_only
from harness.faults.nodes.process import injection, restart
from harness.faults.steps.effect import IDLE, Probe, under_load
from harness.faults.steps.step import EffectProof, Fault, Injection, OneControllerExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.storage.log_directory import METADATA_LOG
from harness.model.errors import BadInput

CAUGHT_UP_DEADLINE_S: Final = 60.0
# LogLoader and UnifiedLog, of the log that KRaft writes; all releases from 3.x on.
_LOADED: Final = rf"\[LogLoader partition={METADATA_LOG}, .*Loading producer state till offset (\d+)"


@dataclass(frozen=True, kw_only=True)
class ControllerWiped(Fault):
    """Kills a controller and swaps its disk for an empty one; healing starts it, and it learns all from the others."""

    do: ClassVar[str] = "controller_wiped"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart", "disk.write"})
    node: OneControllerExpr = "controller_follower"

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        controllers.validate(plan)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node = the_only(stage.nodes(self.node), stage.cluster.controllers, "controller_wiped")
        if len(stage.cluster.controllers) < controllers.CONTROLLERS_MIN:
            raise BadInput(
                f"controller_wiped needs {controllers.CONTROLLERS_MIN} controllers, or no majority is left meanwhile"
            )
        busy = bool(under_load(stage))
        try:
            before = stage.admin.quorum()
            stage.cluster.kill(node)
            mark = controllers.committed_without(stage, node, before, "before its disk is touched")
            since = LogSince(stage.cluster.server_log(node))
            stage.cluster.wipe(node)
            injected = injection(stage, (node,), _caught_up(stage, node, mark, since, busy))
            yield replace(
                injected,
                resolved={**injected.resolved, "committed_without_it": mark},
                after_heal=True,
                deadline_s=CAUGHT_UP_DEADLINE_S,
            )
        finally:
            restart(stage, (node,))
            controllers.rejoin(stage, node)


def _caught_up(stage: Stage, node: int, mark: int, since: LogSince, busy: bool) -> Probe:
    """It began with nothing, and has again what was committed while it was away."""

    def asked() -> EffectProof:
        if not busy:
            return EffectProof(False, IDLE)
        loaded = since.find(_LOADED)
        if loaded is None or int(loaded[1]) > 0:
            began = "has not said where its log ends" if loaded is None else f"still had a log up to {loaded[1]}"
            return EffectProof(False, f"controller {node} {began}")
        return controllers.caught_up(stage, node, mark, "began with nothing")

    return asked
