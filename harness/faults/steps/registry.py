"""All kinds of steps by their word in scenario files; builds steps, and refuses what cannot be built.

There is no list of kinds to keep: a class that declares a `do` is a kind of step (`step.Kind`), and importing this
module imports every module of harness/faults. Kinds of plugins are known while `with_kinds` is open.
"""

from __future__ import annotations

import importlib
import pkgutil
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, Final, get_args, get_origin

import harness.faults
from harness.clusters.disks import loop_devices
from harness.clusters.nodes.agent import AGENT
from harness.faults.steps.declared_facts import NOTHING, Declares
from harness.faults.steps.step import WHY_NOT, Fault, Kind, StepRef, registered
from harness.faults.steps.step import is_disturbance as is_disturbance
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput
from harness.model.hints import hint
from harness.model.scenario.scenario import Scenario, Step
from harness.model.scenario.toml import build, hints_of


@dataclass(frozen=True, kw_only=True)
class Heal(Kind):
    """Ends a fault before the end of the scenario."""

    do: ClassVar[str] = "heal"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = (
        "Waits until the fault of an earlier step has an effect, or its deadline is over, and heals it; some effects "
        "are proven after healing."
    )
    fault: StepRef


@dataclass(frozen=True, kw_only=True)
class WaitEffect(Kind):
    """Keeps the next step from starting too early."""

    do: ClassVar[str] = "wait_effect"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = "Waits until the fault of an earlier step has an effect, or its deadline is over."
    fault: StepRef


def build_step(step: Step, where: str = "") -> Kind:
    """The executable step; BadInput on an unknown kind, an unknown argument or one of the wrong type."""
    known = {**BY_NAME, **_OF_PLUGINS}
    kind = known.get(step.do)
    if kind is None:
        raise BadInput(f"{where}step {step.name}: no kind of step is called {step.do!r}{hint(step.do, known)}")
    return typing.cast(Kind, build(kind, step.args, f"{where}step {step.name} ({step.do})"))


def check_steps(scenario: Scenario) -> None:
    """BadInput for the first step that cannot be built, or that refers to something which does not exist."""
    earlier: dict[str, Kind] = {}
    active: list[str] = []
    for step in scenario.steps:
        kind = build_step(step, f"scenario {scenario.name}: ")
        try:
            check_step(kind, StepValidation(scenario, earlier), active)
        except BadInput as error:
            raise BadInput(f"scenario {scenario.name}: step {step.name}: {error}") from error
        if isinstance(kind, Heal):
            active.remove(kind.fault)
        if isinstance(kind, Fault) and kind.for_s <= 0:
            active.append(step.name)
        earlier[step.name] = kind


def check_step(kind: Kind, plan: StepValidation, active: Collection[str]) -> None:
    """BadInput for a step that refers to something which does not exist, or that would have no effect.

    active: the names of earlier faults that are not healed yet.
    """
    optional = {entry.name for entry in fields(kind) if entry.default == ""}
    for name, marker, value in marked(kind):
        if value == "" and name in optional:
            continue
        try:
            plan.check(marker, value, internal=kind.internal)
        except BadInput as error:
            raise BadInput(f"{name}: {error}") from error
    kind.validate(plan)
    if isinstance(kind, Heal | WaitEffect):
        _check_active(kind.fault, plan.earlier, active)
    if isinstance(kind, Heal):
        typing.cast(Fault, plan.earlier[kind.fault]).validate_heal(plan)
    if isinstance(kind, Fault) and kind.keeps_stopped():
        _check_stopped(kind, plan, active)
    if isinstance(kind, Fault) and (kind.diverts or kind.keeps_stopped()):
        _check_diverted(kind, plan, active)


def needs(scenario: Scenario) -> frozenset[str]:
    """Capabilities that the shape and the steps of a scenario need of a backend."""
    return _of_shape(scenario).union(*(build_step(step).needs for step in scenario.steps))


def _of_shape(scenario: Scenario) -> frozenset[str]:
    disk, agent = scenario.shape.disk, scenario.shape.agent
    return frozenset({*({loop_devices.capability(disk)} if disk else ()), *({AGENT} if agent else ())})


def lacking(scenario: Scenario, capabilities: Collection[str]) -> str | None:
    """Why a backend with these capabilities cannot run a scenario; None = it can. Its shape counts, and each step."""
    missing = _of_shape(scenario) - set(capabilities)
    if AGENT in missing:
        return f"scenario {scenario.name}: shape: agent = true: {WHY_NOT[AGENT]}"
    if missing:
        why = loop_devices.missing().get(min(missing), "this backend does not have such disks")
        return f'scenario {scenario.name}: shape: disk = "{scenario.shape.disk}": {why}'
    reasons = ((step, build_step(step).lacks(capabilities)) for step in scenario.steps)
    refused = (f"scenario {scenario.name}: step {step.name}: {reason}" for step, reason in reasons if reason)
    return next(refused, None)


def marked(kind: Kind) -> Iterator[tuple[str, str, str | tuple[str, ...]]]:
    """(argument, marker, value) of the arguments that refer to something; step.py declares the markers."""
    hints = hints_of(type(kind))
    for entry in fields(kind):
        hint_ = hints[entry.name]
        marker = get_args(hint_)[1] if get_origin(hint_) is Annotated else None
        if isinstance(marker, str):  # a number has a `Range` there
            yield entry.name, marker, getattr(kind, entry.name)


def _check_active(fault: str, earlier: Mapping[str, Kind], active: Collection[str]) -> None:
    if not isinstance(earlier[fault], Fault):
        raise BadInput(f"{fault!r} is no fault, so there is nothing to heal; name a fault")
    if fault not in active:
        raise BadInput(f"{fault!r} is already healed; remove this step, or the for_s of that fault")


def _check_stopped(fault: Fault, plan: StepValidation, active: Collection[str]) -> None:
    """BadInput for a fault that stops a process which an active fault has stopped: it could not have an effect."""
    mine = plan.reach(fault.victims()).brokers
    for name in active:
        other = plan.earlier[name]
        if not isinstance(other, Fault) or not other.keeps_stopped():
            continue
        twice = fault.victims() == f"same({name})" or mine & plan.reach(other.victims()).brokers
        if twice:
            raise BadInput(
                f"step {name!r} still keeps {fault.victims()!r} stopped; heal that first, or name other nodes"
            )


def _check_diverted(fault: Fault, plan: StepValidation, active: Collection[str]) -> None:
    """BadInput where a broker may have two faults of which one needs the connections of its clients: the other one
    needs them, too, or it stops the broker, and what is held on its way to that is lost."""
    mine = plan.reach(fault.victims())
    for name in active:
        other = plan.earlier[name]
        if not isinstance(other, Fault) or not (fault.diverts or other.diverts):
            continue
        if not all(one.diverts or one.keeps_stopped() for one in (fault, other)):
            continue
        theirs = plan.reach(other.victims())
        listed = bool(mine.brokers and theirs.brokers)
        if mine.role == theirs.role and not (listed and mine.brokers.isdisjoint(theirs.brokers)):
            raise BadInput(
                f"step {name!r} is still active on {other.victims()!r}, which may be the same broker: requests are "
                "held by one step, on their way to a broker that runs; heal that first, or list other brokers"
            )


def _discover() -> tuple[type[Kind], ...]:
    """Imports every module of harness/faults, and returns the kinds that they declare, by folder and word."""
    package = harness.faults.__name__
    for module in pkgutil.walk_packages(harness.faults.__path__, f"{package}."):
        importlib.import_module(module.name)
    found = [kind for kind in registered().values() if kind.__module__.startswith(f"{package}.")]
    return tuple(sorted(found, key=lambda kind: (folder_of(kind), kind.do)))


@contextmanager
def with_kinds(kinds: Iterable[type[Kind]]) -> Iterator[None]:
    """The kinds of plugins may be used inside."""
    added = {kind.do: kind for kind in kinds}
    _OF_PLUGINS.update(added)
    try:
        yield
    finally:
        for do in added:
            del _OF_PLUGINS[do]


def all_kinds() -> tuple[type[Kind], ...]:
    """The built-in kinds by folder and word, and then those of plugins."""
    return (*KINDS, *_OF_PLUGINS.values())


def folder_of(kind: type[Kind]) -> str:
    """The folder that declares a kind: "nodes", "network", ..., or "faults" for one of a plugin."""
    return kind.__module__.split(".")[-2]


# At the end of the file: modules that are imported here import the names above.
KINDS: Final = _discover()
BY_NAME: Final[Mapping[str, type[Kind]]] = {kind.do: kind for kind in KINDS}
_OF_PLUGINS: Final[dict[str, type[Kind]]] = {}
