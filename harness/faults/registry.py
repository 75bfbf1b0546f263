"""Every kind of step by its word in scenario files; builds steps and refuses what they do not understand."""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from harness.faults import (
    controller_wiped,
    crash_loop,
    cut,
    damage,
    disk_full,
    elect,
    flap,
    isolate,
    kill,
    lose_answers,
    move_leaders,
    pause,
    produce,
    quorum_lost,
    reassign,
    records,
    rolling_restart,
    slow,
    terminate,
    waits,
)
from harness.faults.base import Action, Fault, Kind, StepRef
from harness.faults.links import CLIENT
from harness.faults.targets import Nodes, parse_nodes, place_of
from harness.model.errors import BadInput
from harness.model.scenario import Scenario, Step
from harness.model.scenario_rules import partition_of
from harness.model.scenario_toml import build, hint


@dataclass(frozen=True, kw_only=True)
class Heal(Kind):
    """Heals the fault of an earlier step, once it has bitten."""

    do: ClassVar[str] = "heal"
    fault: StepRef


@dataclass(frozen=True, kw_only=True)
class WaitBite(Kind):
    """Waits until the fault of an earlier step has bitten, where the next step must not come before it."""

    do: ClassVar[str] = "wait_bite"
    fault: StepRef


# A new kind of step is one file and one word here.
KINDS: tuple[type[Kind], ...] = (
    kill.Kill,
    terminate.Terminate,
    pause.Pause,
    crash_loop.CrashLoop,
    cut.Cut,
    cut.CutFollowers,
    flap.Flap,
    isolate.Isolate,
    slow.Slow,
    lose_answers.LoseAnswers,
    damage.Damage,
    disk_full.DiskFull,
    quorum_lost.QuorumLost,
    controller_wiped.ControllerWiped,
    rolling_restart.RollingRestart,
    elect.ElectPreferred,
    elect.ElectUnclean,
    move_leaders.MoveLeaders,
    reassign.Reassign,
    produce.Produce,
    produce.EndTransaction,
    records.DeleteRecords,
    records.AlterTopic,
    records.WaitRolled,
    records.WaitLogStart,
    waits.WaitLeaderChanged,
    waits.WaitLeaderIs,
    waits.WaitElsewhere,
    waits.WaitDeposed,
    waits.WaitNoLeader,
    waits.WaitIsrFull,
    waits.WaitIsrAlone,
    waits.WaitOutOfSync,
    waits.WaitHealthy,
    waits.WaitAcks,
    waits.WaitCommits,
    waits.Hold,
    Heal,
    WaitBite,
)
BY_NAME: Mapping[str, type[Kind]] = {kind.do: kind for kind in KINDS}


def build_step(step: Step, where: str = "") -> Kind:
    """The executable step; BadInput on an unknown kind, an unknown argument or one of the wrong type."""
    kind = BY_NAME.get(step.do)
    if kind is None:
        raise BadInput(f"{where}step {step.name}: nothing is called {step.do!r}{hint(step.do, BY_NAME)}")
    return typing.cast(Kind, build(kind, step.args, f"{where}step {step.name} ({step.do})"))


def check_steps(scenario: Scenario) -> None:
    """BadInput on the first step that cannot be built or refers to something that is not there."""
    earlier: dict[str, Kind] = {}
    active: set[str] = set()
    for step in scenario.steps:
        where = f"scenario {scenario.name}: step {step.name}"
        kind = build_step(step, f"scenario {scenario.name}: ")
        for name, marker, value in marked(kind):
            _check_reference(marker, value, scenario, earlier, f"{where}: {name}")
        if isinstance(kind, Heal | WaitBite):
            _check_active(kind.fault, earlier, active, where)
        if isinstance(kind, Heal):
            active.discard(kind.fault)
        if isinstance(kind, Fault) and kind.for_s <= 0:
            active.add(step.name)
        earlier[step.name] = kind


def needs(scenario: Scenario) -> frozenset[str]:
    """Capabilities that the steps of a scenario need of a backend."""
    return frozenset().union(*(build_step(step).needs for step in scenario.steps))


def lacking(scenario: Scenario, capabilities: Collection[str]) -> str | None:
    """Which step of a scenario cannot be done by a backend of these capabilities, and why; None = all can."""
    reasons = ((step, build_step(step).lacks(capabilities)) for step in scenario.steps)
    told = (f"scenario {scenario.name}: step {step.name}: {reason}" for step, reason in reasons if reason)
    return next(told, None)


def marked(kind: Kind) -> Iterator[tuple[str, str, Any]]:
    """(argument, marker, value) of the arguments that refer to something; see the markers in base.py."""
    hints = get_type_hints(type(kind), include_extras=True)
    for entry in fields(kind):
        hint_ = hints[entry.name]
        if get_origin(hint_) is Annotated:
            yield entry.name, get_args(hint_)[1], getattr(kind, entry.name)


def is_disturbance(kind: Kind) -> bool:
    """True for steps that count as a fault in the record, and so must bite."""
    return isinstance(kind, Fault) or (isinstance(kind, Action) and kind.disturbs)


def _check_active(fault: str, earlier: Mapping[str, Kind], active: set[str], where: str) -> None:
    if not isinstance(earlier[fault], Fault):
        raise BadInput(f"{where}: {fault!r} is no fault, there is nothing to heal")
    if fault not in active:
        raise BadInput(f"{where}: {fault!r} is healed by then; remove this step or the for_s of that fault")


def _check_reference(marker: str, value: Any, scenario: Scenario, earlier: Mapping[str, Kind], where: str) -> None:
    topics = {t.name: t for t in scenario.topics}
    if value is None or value == "":
        return
    if marker == "nodes" or (marker == "parties" and value != CLIENT):
        _check_nodes(_parsed(value, where), scenario, earlier, where)
    elif marker == "partition":
        partition_of(value, topics, where)
    elif marker == "partitions":
        for text in value:
            partition_of(text, topics, where)
    elif marker == "step":
        _known(value, earlier, "earlier step", where)
    elif marker == "producer":
        _known(value, [p.name for p in scenario.producers], "producer", where)


def _check_nodes(nodes: Nodes, scenario: Scenario, earlier: Mapping[str, Kind], where: str) -> None:
    if nodes.word == "same":
        _known(nodes.of, earlier, "earlier step", where)
    elif nodes.word == "broker" and not 1 <= int(nodes.of) <= scenario.shape.brokers:
        raise BadInput(f"{where}: broker({nodes.of}): there are brokers 1 to {scenario.shape.brokers}")
    elif nodes.word == "group_coordinator":
        _known(nodes.of, [r.group for r in scenario.readers if r.group], "group", where)
    elif nodes.word == "txn_coordinator":
        _known(nodes.of, [p.name for p in scenario.producers if p.transactions], "transactional producer", where)
    elif nodes.word in ("leader", "follower", "followers", "preferred"):
        place_of(nodes.of)
        partition_of(nodes.of, {t.name: t for t in scenario.topics}, where)


def _parsed(text: str, where: str) -> Nodes:
    try:
        return parse_nodes(text)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error


def _known(word: str, known: Any, noun: str, where: str) -> None:
    if word not in known:
        raise BadInput(f"{where}: no {noun} {word!r}{hint(word, known)}")
