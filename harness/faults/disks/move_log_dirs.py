"""Replicas that move from one log directory of a broker to another under load, by a second copy (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from harness.faults.disks.common import only_node
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe, named, with_recent_acks
from harness.faults.steps.step import (
    Action,
    Done,
    EffectProof,
    Fault,
    FaultRef,
    Injection,
    OneBrokerExpr,
    PartitionsExpr,
)
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.admin.client import LogDirectories, ReplicaDirectory
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.place import Place
from harness.model.scenario.rules import partition_of
from harness.model.scenario.scenario import LOG_DIRS_MAX, Range
from harness.model.waiting import wait_for

NEXT: Final = 0
Directory = Annotated[int, Range(0, LOG_DIRS_MAX)]
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
MOVED_DEADLINE_S = 90.0


@dataclass(frozen=True, kw_only=True)
class MoveLogDirs(Fault):
    """`rate_kb_s` limits the copying. The fault is healed when the replicas are in their new directories.

    to: the number of the log directory, from 1, in alphabetical order; without it the one after that of each replica.
    """

    do: ClassVar[str] = "move_log_dirs"
    # Brokers by their numbers: of others it is not known before the run which replicas they have.
    # A rate below that of the load: a copy of small logs is then still in the making when it is looked for.
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "node": ("broker(1)", "broker(2)", "broker(3)"),
        "rate_kb_s": (5, 20),
    }
    facts: ClassVar[Declares] = (Declared(FactKind.COPIES_REBUILT),)
    summary: ClassVar[str] = (
        "Moves replicas of a broker to its next log directory, or to `to`, at rate_kb_s; healing waits for the end."
    )
    proof: ClassVar[str] = "second copies of the replicas were in the making while their partitions had acks"
    node: OneBrokerExpr
    on: PartitionsExpr = ()
    rate_kb_s: Annotated[int, Range(1, 1_000_000)] = 200
    to: Directory = NEXT

    def validate(self, plan: StepValidation) -> None:
        log_dirs = plan.scenario.shape.log_dirs
        if log_dirs < 2:
            raise BadInput(
                "brokers have one log directory, so replicas cannot move to another; set log_dirs = 2 in [shape]"
            )
        if self.to > log_dirs:
            raise BadInput(f"to: brokers have {log_dirs} log directories; give 1 to {log_dirs}")
        named = self.on or tuple(f"{topic.name}/*" for topic in plan.scenario.topics)
        for place in (place for text in named for place in partition_of(text, plan.all_topics)):
            if not plan.may_hold(self.node, place):
                raise BadInput(f"node: {self.node} has no replica of {place[0]}/{place[1]}; name a broker that has one")

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node = only_node(context.nodes(self.node), context.cluster.brokers, self.do)
        wanted = _directories(context, node, context.places(self.on), self.to)
        context.moving[node] = wanted  # a later step may redirect them
        with ExitStack() as healing:
            healing.callback(context.moving.pop, node)
            healing.callback(_await_moved, context, node, wanted)
            healing.callback(context.admin.alter_broker_config, (node,), {RATE: None})
            context.admin.alter_broker_config((node,), {RATE: str(self.rate_kb_s * 1024)})
            context.admin.move_replicas(node, wanted)
            resolved = {"nodes": [node], "to": _texts(wanted)}
            yield Injection(resolved=resolved, probe=_copying(context, node, wanted), nodes=(node,))


@dataclass(frozen=True, kw_only=True)
class RedirectLogDirs(Action):
    """A move of replicas that is called off, or that gets another target, while it copies (KIP-113).

    to: the number of the log directory; without it the move is called off, and the replicas stay where they are.
    """

    do: ClassVar[str] = "redirect_log_dirs"
    by_hand: ClassVar[str] = "it needs a move between log directories that is still under way"
    facts: ClassVar[Declares] = (Declared(FactKind.COPIES_REBUILT),)
    summary: ClassVar[str] = "Calls off a move of replicas between log directories, or redirects it to `to`."
    proof: ClassVar[str] = "second copies of the replicas were in the making, and then they were dropped"
    disturbs: ClassVar[bool] = True
    fault: FaultRef
    to: Directory = NEXT

    def validate(self, plan: StepValidation) -> None:
        if not isinstance(plan.earlier[self.fault], MoveLogDirs):
            raise BadInput(f'fault: {self.fault!r} moves no replicas; name a step with do = "{MoveLogDirs.do}"')
        log_dirs = plan.scenario.shape.log_dirs
        if self.to > log_dirs:
            raise BadInput(f"to: brokers have {log_dirs} log directories; give 1 to {log_dirs}")

    def perform(self, context: StepContext) -> Done:
        (node,) = context.nodes_of(self.fault)
        if node not in context.moving:
            raise BadInput(f"fault: {self.fault!r} is already healed; redirect it before that")
        moving = context.moving[node]
        before = _reported(context, node).replicas
        making = [place for place in moving if place in before and before[place].future is not None]
        paths = _reported(context, node).paths
        moving |= {p: paths[self.to - 1] if self.to else before[p].path for p in moving if p in before}
        context.admin.move_replicas(node, moving)
        resolved = {"nodes": [node], "to": _texts(moving)}
        if not making:
            return Done(resolved=resolved, effect=EffectProof(False, "no second copy was in the making any more"))
        left = wait_for(
            lambda: {p: _old_target(_reported(context, node).replicas.get(p), before[p], moving[p]) for p in making},
            until=lambda left: not any(left.values()),
            deadline_s=MOVED_DEADLINE_S,
            what=f"broker {node} to drop the second copies of {named(making)}",
        )
        lags = {f"{t}/{p}": before[t, p].future_lag for t, p in left}
        because = f"second copies of {named(making)} were in the making, and were dropped"
        return Done(resolved=resolved, effect=EffectProof(True, because, {"lacked": lags}))


def _old_target(replica: ReplicaDirectory | None, before: ReplicaDirectory, to: str) -> str:
    """The directory of a second copy that should not exist any more; empty if there is none."""
    if replica is None:
        return "not there"
    return replica.future or "" if before.future != to and replica.future == before.future else ""


def _texts(directories: Mapping[Place, str]) -> dict[str, str]:
    return {f"{topic}/{partition}": path for (topic, partition), path in directories.items()}


def _reported(context: StepContext, node: int) -> LogDirectories:
    reported = wait_for(
        lambda: context.admin.log_directories(node),
        until=lambda reported: reported is not None,
        deadline_s=MOVED_DEADLINE_S,
        what=f"broker {node} to report its log directories",
    )
    assert reported is not None
    return reported


def _directories(context: StepContext, node: int, places: list[Place], to: int) -> dict[Place, str]:
    """By replica of the broker: the log directory with that number, or the one after the one that it is in."""
    reported = _reported(context, node)
    mine = [place for place in places if place in reported.replicas]
    if not mine:
        raise BadInput(f"broker {node} has no replica of {named(places)}; name another broker")
    paths = reported.paths
    after = {place: paths[(paths.index(reported.replicas[place].path) + 1) % len(paths)] for place in mine}
    return {place: paths[to - 1] if to else after[place] for place in mine}


def _copying(context: StepContext, node: int, wanted: Mapping[Place, str]) -> Probe:
    """Proof: a second copy of a replica was in the making while its partition had acks."""

    def probe() -> EffectProof:
        reported, busy = context.admin.log_directories(node), with_recent_acks(context, wanted)
        if reported is None:
            return EffectProof(False, f"broker {node} does not answer")
        making = {
            p: reported.replicas[p] for p in busy if p in reported.replicas and reported.replicas[p].future is not None
        }
        lags = {f"{t}/{p}": replica.future_lag for (t, p), replica in making.items()}
        if making:
            return EffectProof(True, f"second copies of {named(making)} were in the making under load", {"lacks": lags})
        if not busy:
            return EffectProof(False, f"none of the moving partitions {named(wanted)} had acks in the last second")
        return EffectProof(False, f"no second copy of {named(wanted)} was seen in the making; lower rate_kb_s")

    return probe


def _await_moved(context: StepContext, node: int, wanted: Mapping[Place, str]) -> None:
    def pending() -> dict[str, str]:
        reported = context.admin.log_directories(node)
        if reported is None:
            return {f"broker {node}": "does not answer"}
        found = {place: reported.replicas.get(place) for place in wanted}
        return {f"{t}/{p}": why for (t, p), replica in found.items() if (why := _not_moved(replica, wanted[t, p]))}

    wait_for(
        pending,
        until=lambda left: not left,
        deadline_s=MOVED_DEADLINE_S,
        what=f"replicas of broker {node} to be in their new directories",
        interval_s=0.2,
    )


def _not_moved(replica: ReplicaDirectory | None, path: str) -> str:
    if replica is None:
        return "not there"
    if replica.path == path and replica.future is None:
        return ""
    return f"in {replica.path}, its copy lacks {replica.future_lag} records"
