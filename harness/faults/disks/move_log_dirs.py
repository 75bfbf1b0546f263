"""Replicas moved from one log directory of a broker to another under load (KIP-113): a second copy takes over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

from harness.faults.disks.common import the_only
from harness.faults.steps.effect import Probe, named, with_recent_acks
from harness.faults.steps.step import EffectProof, Fault, Injection, OneBrokerExpr, PartitionsExpr, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Range
from harness.model.waiting import wait_for

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
MOVED_DEADLINE_S = 90.0


@dataclass(frozen=True, kw_only=True)
class MoveLogDirs(Fault):
    """Moves replicas of a broker to its next log directory, copying rate_kb_s; healed when they are there."""

    do: ClassVar[str] = "move_log_dirs"
    node: OneBrokerExpr
    on: PartitionsExpr = ()
    rate_kb_s: Annotated[int, Range(1, 1_000_000)] = 200

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        if plan.scenario.shape.log_dirs < 2:
            raise BadInput(
                "a broker has one log directory, and replicas have nowhere to go; set log_dirs = 2 in [shape]"
            )

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node = the_only(stage.nodes(self.node), stage.cluster.brokers, self.do)
        wanted = _next_directories(stage, node, stage.places(self.on))
        with ExitStack() as healing:
            healing.callback(_await_moved, stage, node, wanted)
            healing.callback(stage.admin.alter_broker_config, (node,), {RATE: None})
            stage.admin.alter_broker_config((node,), {RATE: str(self.rate_kb_s * 1024)})
            stage.admin.move_replicas(node, wanted)
            resolved = {"nodes": [node], "to": {f"{t}/{p}": path for (t, p), path in wanted.items()}}
            yield Injection(resolved=resolved, probe=_copying(stage, node, wanted), nodes=(node,))


def _next_directories(stage: Stage, node: int, places: list[Place]) -> dict[Place, str]:
    """For each replica that the broker has, its directory after the one that it is in."""
    reported = wait_for(
        lambda: stage.admin.log_directories(node),
        until=lambda reported: reported is not None,
        deadline_s=MOVED_DEADLINE_S,
        what=f"broker {node} to tell its log directories",
    )
    assert reported is not None
    mine = [place for place in places if place in reported.replicas]
    if not mine:
        raise BadInput(f"broker {node} has no replica of {named(places)}; name another")
    return {
        place: reported.paths[(reported.paths.index(reported.replicas[place].path) + 1) % len(reported.paths)]
        for place in mine
    }


def _copying(stage: Stage, node: int, wanted: Mapping[Place, str]) -> Probe:
    """A second copy of a replica was in the making while its partition had acks."""

    def probe() -> EffectProof:
        reported, busy = stage.admin.log_directories(node), with_recent_acks(stage, wanted)
        if reported is None:
            return EffectProof(False, f"broker {node} does not answer")
        making = {
            p: reported.replicas[p] for p in busy if p in reported.replicas and reported.replicas[p].future is not None
        }
        lags = {f"{t}/{p}": replica.future_lag for (t, p), replica in making.items()}
        if making:
            return EffectProof(True, f"second copies of {named(making)} were in the making under load", {"lacks": lags})
        if not busy:
            return EffectProof(False, f"no replica of {named(wanted)} that moves had acks in the last second")
        return EffectProof(False, f"no second copy of {named(wanted)} was seen in the making; lower rate_kb_s")

    return probe


def _await_moved(stage: Stage, node: int, wanted: Mapping[Place, str]) -> None:
    def pending() -> dict[str, str]:
        reported = stage.admin.log_directories(node)
        if reported is None:
            return {f"broker {node}": "does not answer"}
        at = {place: reported.replicas.get(place) for place in wanted}
        return {
            f"{t}/{p}": f"in {at[t, p].path}, its copy lacks {at[t, p].future_lag}" if at[t, p] else "not there"
            for (t, p), path in wanted.items()
            if at[t, p] is None or at[t, p].path != path or at[t, p].future is not None
        }

    wait_for(
        pending,
        until=lambda left: not left,
        deadline_s=MOVED_DEADLINE_S,
        what=f"replicas of broker {node} to be in their new directories",
        interval_s=0.2,
    )
