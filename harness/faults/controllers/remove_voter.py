"""A change of the voters under load: a controller is removed from the quorum and added again (KIP-853)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.controllers import common as controllers
from harness.faults.disks.common import LogSince, only_node
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import IDLE, Probe, under_load
from harness.faults.steps.step import EffectProof, Fault, Injection, OneControllerExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.admin.client import Quorum
from harness.model.errors import BadInput
from harness.model.facts import FactKind

CHANGED_DEADLINE_S: Final = 30.0
EFFECT_DEADLINE_S: Final = 20.0
# KRaftControlRecordStateMachine prints the voters that it reads from the log; all releases from 3.9 on.
_VOTERS: Final = re.compile(r"Latest set of voters is VoterSet\((.*)\) at offset (\d+)")
_VOTER: Final = re.compile(r"ReplicaKey\(id=(\d+)")


@dataclass(frozen=True, kw_only=True)
class RemoveVoter(Fault):
    """The controller itself keeps running."""

    do: ClassVar[str] = "remove_voter"
    facts: ClassVar[Declares] = (Declared(FactKind.VOTERS_CHANGED),)
    summary: ClassVar[str] = (
        "Removes a running controller from the voters of the metadata quorum; healing adds it again (KIP-853)."
    )
    proof: ClassVar[str] = (
        "every controller has read the voters without it, another controller leads if it was active, and the voters "
        "commit"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read"})  # the id of its directory
    node: OneControllerExpr = "controller"

    def validate(self, plan: StepValidation) -> None:
        if plan.scenario.shape.voters != "dynamic":
            raise BadInput('static voters cannot change; set voters = "dynamic" in [shape]')
        controllers.validate(plan)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node = only_node(context.nodes(self.node), context.cluster.controllers, "remove_voter")
        busy = bool(under_load(context))
        before = context.admin.quorum()
        directory = before.directories[node]
        since = {c: LogSince(context.cluster.server_log(c)) for c in _running(context)}
        try:
            context.admin.remove_voter(node, directory, CHANGED_DEADLINE_S)
            yield Injection(
                resolved={"nodes": [node], "directory": directory, "voters": sorted(before.voters)},
                probe=_removed(context, node, before, since, busy),
                nodes=(node,),
                deadline_s=EFFECT_DEADLINE_S,
            )
        finally:
            controllers.rejoin(context, node)


def _running(context: StepContext) -> list[int]:
    return [c for c in context.cluster.controllers if context.cluster.running(c)]


def _removed(context: StepContext, node: int, before: Quorum, since: Mapping[int, LogSince], busy: bool) -> Probe:
    """Proof: each controller has read the voters without it, one of those leads, and they commit."""
    mark = max(before.high_watermark, *before.voters.values())

    def probe() -> EffectProof:
        if not busy:
            return EffectProof(False, IDLE)
        now = context.admin.quorum()
        reported = {controller: _last_voters(log) for controller, log in since.items()}
        seen: dict[str, object] = {
            "voters": [sorted(before.voters), sorted(now.voters)],
            "leader": [before.leader, now.leader],
            "committed": [mark, now.high_watermark],
            "reported": {str(controller): voters for controller, voters in reported.items()},
        }
        if node in now.voters or now.leader == node:
            return EffectProof(
                False, f"{node} still counts: controller {now.leader} leads, the voters are {sorted(now.voters)}", seen
            )
        ignorant = [controller for controller, voters in reported.items() if voters != sorted(now.voters)]
        if ignorant:
            return EffectProof(False, f"{ignorant} have not read that the voters are {sorted(now.voters)}", seen)
        if now.high_watermark <= mark:
            return EffectProof(False, f"the voters committed nothing without {node}", seen)
        led = f"; {now.leader} leads in place of {node}" if before.leader == node else ""
        because = f"each of {sorted(reported)} read that the voters are {sorted(now.voters)}, and they commit{led}"
        return EffectProof(True, because, seen)

    return probe


def _last_voters(log: LogSince) -> list[int] | None:
    log.find(_VOTERS.pattern)
    sets = _VOTERS.findall(log.text)
    return sorted(map(int, _VOTER.findall(sets[-1][0]))) if sets else None
