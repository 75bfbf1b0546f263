"""A controller that loses its disk and returns with an empty one.

The voters of these clusters are static (controller.quorum.voters), known by their node ids alone (KIP-595), so the
node that returns is the voter that went: it has forgotten what it voted for and what it acknowledged. That costs
nothing as long as the others have all of it, which is waited for. (Voters of KIP-853 are also known by their directory
ids; there it would be another one, to be added.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from harness.faults.base import Bite, Fault, Injection, OneControllerExpr
from harness.faults.bite import Probe, await_recent_acks
from harness.faults.disks import LogSince, the_only
from harness.faults.foresight import Foresight
from harness.faults.process import injection, restart
from harness.faults.stage import Stage
from harness.model.errors import BadInput
from harness.model.waiting import wait_for

CONTROLLERS_MIN: Final = 3
COMMITTED_DEADLINE_S: Final = 30.0
CAUGHT_UP_DEADLINE_S: Final = 60.0
# LogLoader and UnifiedLog, of the log that KRaft writes; all releases from 3.x on.
_LOADED: Final = r"\[LogLoader partition=__cluster_metadata-0, .*Loading producer state till offset (\d+)"


@dataclass(frozen=True, kw_only=True)
class ControllerWiped(Fault):
    """Kills a controller and swaps its disk for an empty one; healing starts it, and it learns all from the others."""

    do: ClassVar[str] = "controller_wiped"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart", "disk.write"})
    node: OneControllerExpr = "controller_follower"

    def foresee(self, plan: Foresight) -> None:
        """See `Kind`."""
        if plan.scenario.shape.controllers < CONTROLLERS_MIN:
            raise BadInput(f"a majority has to be left meanwhile; set controllers = {CONTROLLERS_MIN} in [shape]")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node = the_only(stage.nodes(self.node), stage.cluster.controllers, "controller_wiped")
        if len(stage.cluster.controllers) < CONTROLLERS_MIN:
            raise BadInput(f"controller_wiped needs {CONTROLLERS_MIN} controllers, or no majority is left meanwhile")
        busy = bool(await_recent_acks(stage, lambda s: s.leader >= 0))
        try:
            before = stage.admin.quorum()
            stage.cluster.kill(node)
            mark = committed_without(stage, node, before)
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


def committed_without(stage: Stage, node: int, before: Any) -> int:
    """The offset up to which the others have committed, once that is more than anybody had before.

    Without `node` they have to be unanimous among three, so each of them then has all that it ever acknowledged.
    """
    mark = max(before.high_watermark, *before.voters.values())
    after = wait_for(
        stage.admin.quorum,
        until=lambda q: q.leader not in (-1, node) and q.high_watermark > mark,
        deadline_s=COMMITTED_DEADLINE_S,
        what=f"the other controllers to commit without {node}, before its disk is touched",
        interval_s=0.1,
    )
    return int(after.high_watermark)


def _caught_up(stage: Stage, node: int, mark: int, since: LogSince, busy: bool) -> Probe:
    """It began with nothing, and has again what was committed while it was away."""

    def asked() -> Bite:
        if not busy:
            return Bite(False, "no partition had acks in the last second")
        loaded = since.find(_LOADED)
        if loaded is None or int(loaded[1]) > 0:
            began = "has not said where its log ends" if loaded is None else f"still had a log up to {loaded[1]}"
            return Bite(False, f"controller {node} {began}")
        end = stage.admin.quorum().voters.get(node, -1)
        seen = {"log_end": end, "committed_without_it": mark}
        if end < mark:
            return Bite(False, f"controller {node} began with nothing and is at {end} of {mark}", seen)
        return Bite(True, f"controller {node} began with nothing and caught up to {end}", seen)

    return asked
