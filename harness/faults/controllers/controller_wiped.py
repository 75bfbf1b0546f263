"""A controller that loses its disk and returns with an empty one.

Static voters (controller.quorum.voters) are identified only by their node ids (KIP-595), so the returning node is the
same voter, and it no longer has its votes and its acknowledged records. Nothing is lost while the others have all of
that, which the step waits for. Dynamic voters (KIP-853) are also identified by their directory ids: the returning node
is another voter, so the old voter is removed and the new one added, as Kafka's operations guide says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from harness.faults.controllers import common as controllers
from harness.faults.disks.common import LogSince, only_node
from harness.faults.nodes.process import injection, restart
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import IDLE, Probe, under_load
from harness.faults.steps.step import EffectProof, Fault, Injection, OneControllerExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.storage.log_directory import METADATA_LOG
from harness.model.errors import BadInput
from harness.model.facts import FactKind, Stop

CAUGHT_UP_DEADLINE_S: Final = 60.0
# LogLoader and UnifiedLog, of the log that KRaft writes; all releases from 3.x on.
_LOADED: Final = rf"\[LogLoader partition={METADATA_LOG}, .*Loading producer state till offset (\d+)"


@dataclass(frozen=True, kw_only=True)
class ControllerWiped(Fault):
    """The others have committed beyond its log before the disk is replaced."""

    do: ClassVar[str] = "controller_wiped"
    proven_late: ClassVar[bool] = True
    facts: ClassVar[Declares] = (
        Declared(FactKind.STOPPED, how=Stop.KILLED, of_controllers=True),
        Declared(FactKind.DATA_LOST, what="disk", of_controllers=True),
    )
    summary: ClassVar[str] = (
        "Kills a controller and replaces its disk by an empty one; healing starts it, and it fetches all metadata."
    )
    proof: ClassVar[str] = (
        "its log says that it started at offset 0, and it caught up with what was committed without it"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart", "disk.write"})
    node: OneControllerExpr = "controller_follower"

    def validate(self, plan: StepValidation) -> None:
        controllers.validate(plan)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node = only_node(context.nodes(self.node), context.cluster.controllers, "controller_wiped")
        if len(context.cluster.controllers) < controllers.CONTROLLERS_MIN:
            raise BadInput(
                f"controller_wiped needs {controllers.CONTROLLERS_MIN} controllers, else no majority is left without "
                "one; use a larger cluster"
            )
        busy = bool(under_load(context))
        try:
            before = context.admin.quorum()
            context.cluster.kill(node)
            mark = controllers.committed_without(context, node, before, "before its disk is touched")
            since = LogSince(context.cluster.server_log(node))
            context.cluster.wipe(node)
            injected = injection(context, (node,), _caught_up(context, node, mark, since, busy))
            yield replace(
                injected,
                resolved={**injected.resolved, "committed_without_it": mark},
                after_heal=True,
                deadline_s=CAUGHT_UP_DEADLINE_S,
            )
        finally:
            restart(context, (node,))
            controllers.rejoin(context, node)


def _caught_up(context: StepContext, node: int, mark: int, since: LogSince, busy: bool) -> Probe:
    """Proof: it started with an empty log, and caught up with what was committed without it."""

    def asked() -> EffectProof:
        if not busy:
            return EffectProof(False, IDLE)
        loaded = since.find(_LOADED)
        if loaded is None or int(loaded[1]) > 0:
            began = "has not logged where its log ends" if loaded is None else f"still had a log up to {loaded[1]}"
            return EffectProof(False, f"controller {node} {began}")
        return controllers.caught_up(context, node, mark, "started with an empty log")

    return asked
