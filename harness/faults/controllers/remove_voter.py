"""A controller that votes no more, and votes again: the quorum changes under load (KIP-853)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from harness.faults.controllers import common as controllers
from harness.faults.disks.common import LogSince, the_only
from harness.faults.steps.effect import IDLE, Probe, under_load
from harness.faults.steps.step import EffectProof, Fault, Injection, OneControllerExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput

CHANGED_DEADLINE_S: Final = 30.0
FELT_DEADLINE_S: Final = 20.0
# KRaftControlRecordStateMachine, of voters that a controller has read from the log; all releases from 3.9 on.
_VOTERS: Final = re.compile(r"Latest set of voters is VoterSet\((.*)\) at offset (\d+)")
_VOTER: Final = re.compile(r"ReplicaKey\(id=(\d+)")


@dataclass(frozen=True, kw_only=True)
class RemoveVoter(Fault):
    """Takes a controller, which runs on, out of the voters of a quorum; healing makes it one again, by adding it."""

    do: ClassVar[str] = "remove_voter"
    node: OneControllerExpr = "controller"

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        if plan.scenario.shape.voters != "dynamic":
            raise BadInput('voters are those of the settings and cannot change; set voters = "dynamic" in [shape]')
        controllers.validate(plan)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node = the_only(stage.nodes(self.node), stage.cluster.controllers, "remove_voter")
        busy = bool(under_load(stage))
        before = stage.admin.quorum()
        directory = before.directories[node]
        since = {c: LogSince(stage.cluster.server_log(c)) for c in _running(stage)}
        try:
            stage.admin.remove_voter(node, directory, CHANGED_DEADLINE_S)
            yield Injection(
                resolved={"nodes": [node], "directory": directory, "voters": sorted(before.voters)},
                probe=_removed(stage, node, before, since, busy),
                nodes=(node,),
                deadline_s=FELT_DEADLINE_S,
            )
        finally:
            controllers.rejoin(stage, node)


def _running(stage: Stage) -> list[int]:
    return [c for c in stage.cluster.controllers if stage.cluster.running(c)]


def _removed(stage: Stage, node: int, before: Any, since: Mapping[int, LogSince], busy: bool) -> Probe:
    """Each controller has read of voters without it, none but they lead, and they commit."""
    mark = max(before.high_watermark, *before.voters.values())

    def probe() -> EffectProof:
        if not busy:
            return EffectProof(False, IDLE)
        now = stage.admin.quorum()
        reported = {controller: _last_voters(log) for controller, log in since.items()}
        seen: dict[str, Any] = {
            "voters": [sorted(before.voters), sorted(now.voters)],
            "leader": [before.leader, now.leader],
            "committed": [mark, now.high_watermark],
            "reported": {str(controller): voters for controller, voters in reported.items()},
        }
        if node in now.voters or now.leader == node:
            return EffectProof(
                False, f"controller {now.leader} leads {sorted(now.voters)}: {node} is still among them", seen
            )
        ignorant = [controller for controller, voters in reported.items() if voters != sorted(now.voters)]
        if ignorant:
            return EffectProof(False, f"{ignorant} have not read of voters {sorted(now.voters)}", seen)
        if now.high_watermark <= mark:
            return EffectProof(False, f"nothing was committed without {node}", seen)
        led = f"; {now.leader} leads in place of {node}" if before.leader == node else ""
        return EffectProof(
            True, f"voters are {sorted(now.voters)} to each of {sorted(reported)}, and they commit{led}", seen
        )

    return probe


def _last_voters(log: LogSince) -> list[int] | None:
    log.find(_VOTERS.pattern)
    sets = _VOTERS.findall(log.text)
    return sorted(map(int, _VOTER.findall(sets[-1][0]))) if sets else None
