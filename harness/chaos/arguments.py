"""Draws the arguments of a step from what its class declares: the markers of its fields, their types, and `drawn`."""

from __future__ import annotations

import types
import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Annotated, Final, Literal, get_args, get_origin

from harness.chaos.draw import Draw
from harness.faults.steps.step import Kind
from harness.faults.steps.targets import CLIENT
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.toml import hints_of

HEALED_BY: Final = "for_s"  # generated faults are healed by a step of their own
_BROKERS: Final = ("nodes", "brokers", "one broker")
_CONTROLLERS: Final = ("nodes", "controllers", "one controller")


class CannotDrawError(Exception):
    """An argument that is required, and of which nothing says which values it may have."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The things that an argument may refer to.

    active: names of faults that are not healed. broken: brokers are away, so that only a leader is certain to be
    there, and is another one than those.
    """

    scenario: Scenario
    active: Collection[str]
    broken: bool


def arguments(kind: type[Kind], draw: Draw, around: Surroundings) -> dict[str, object]:
    """The drawn arguments of a step, without those that keep their default. They may not fit one another."""
    hints = hints_of(kind)
    drawn: dict[str, object] = {}
    linked = _link(kind, hints, draw, around)
    drawn |= linked
    for entry in fields(kind):
        if entry.name == HEALED_BY or entry.name in linked:
            continue
        values = _values(kind, entry, hints[entry.name], around, drawn)
        if not values:
            if _required(entry):
                raise CannotDrawError(f"{kind.do}: nothing can be drawn for {entry.name}")
            continue
        value = draw.one(entry.name, values)
        if value is not None and value != _default(entry):
            drawn[entry.name] = list(value) if isinstance(value, tuple) else value  # as a file would have it
    return drawn


def _link(kind: type[Kind], hints: Mapping[str, object], draw: Draw, around: Surroundings) -> dict[str, object]:
    """Both ends of a link, if a kind breaks links: only a link that carries something shows an effect."""
    ends = {_marker(hints[entry.name]): entry.name for entry in fields(kind)}
    if not {"parties", "nodes"} <= ends.keys():
        return {}
    links = _links(around)
    if not links:
        raise CannotDrawError(f"{kind.do}: no link is certain to carry something")
    source, target = draw.one("link", links)
    return {ends["parties"]: source, ends["nodes"]: target}


def _links(around: Surroundings) -> list[tuple[str, str]]:
    """Links between clients and leaders, followers and leaders, leaders and controllers, and between all brokers."""
    least = 3 if around.broken else 2  # of two replicas, the other one may be away
    topics = [topic.name for topic in around.scenario.topics if topic.replicas >= least]
    found = [(CLIENT, f"leader({name}/0)") for name in topics]
    found += [(f"{word}({name}/0)", f"leader({name}/0)") for name in topics for word in ("follower", "followers")]
    found += [(f"leader({name}/0)", "controllers") for name in topics]
    return found if around.broken else [*found, ("brokers", "brokers")]


def undrawable(kind: type[Kind]) -> list[str]:
    """Required arguments of which nothing says which values they may have; such a class declares `drawn` for them."""
    hints = hints_of(kind)
    of_scenario = [entry for entry in fields(kind) if _marker(hints[entry.name]) is not None]
    others = [entry for entry in fields(kind) if entry not in of_scenario and _required(entry)]
    return [e.name for e in others if e.name not in kind.drawn and not _listed(hints[e.name])]


def _values(
    kind: type[Kind], entry: Field[object], hint: object, around: Surroundings, chosen: Mapping[str, object]
) -> Sequence[object]:
    fitting = kind.drawn_in(around.scenario, chosen)
    if entry.name in fitting:
        return fitting[entry.name]
    marker = _marker(hint)
    if marker is None:
        return _listed(hint)
    values = _referred(marker, around)
    default = _default(entry)
    if default == "" and values:
        return [default, *values]
    return list(dict.fromkeys([*values, *([default] if isinstance(default, str) else [])]))


def _marker(hint: object) -> str | None:
    found = get_args(hint)[1] if get_origin(hint) is Annotated else None
    return found if isinstance(found, str) else None


def _listed(hint: object) -> list[object]:
    """The values that a type lists itself."""
    if get_origin(hint) is Annotated:
        return []
    if get_origin(hint) is Literal:
        return [value for value in get_args(hint) if value != ""]
    if get_origin(hint) in (types.UnionType, typing.Union):
        inner = [value for part in get_args(hint) if part is not type(None) for value in _listed(part)]
        return [None, *inner] if inner else []
    if get_origin(hint) is tuple:
        return [(value,) for value in _listed(get_args(hint)[0])]
    return []


def _referred(marker: str, around: Surroundings) -> list[object]:
    scenario = around.scenario
    if marker in (*_BROKERS, *_CONTROLLERS, "parties"):
        return list(_nodes(marker, around))
    topics = [topic for topic in scenario.topics if topic.name in scenario.fed]
    readers = [reader for reader in scenario.readers if reader.group]
    least = 3 if around.broken else 1  # of two replicas, the other one may be away
    found: Mapping[str, list[object]] = {
        "partition": [f"{t.name}/{n}" for t in topics if t.replicas >= least for n in range(t.partitions)],
        "partitions": [(f"{topic.name}/*",) for topic in topics],
        "topic": [topic.name for topic in topics],
        "producer": [producer.name for producer in scenario.producers if producer.when == "always"],
        "group": list(dict.fromkeys([*(reader.group for reader in readers), *scenario.groups])),
        "reader": [reader.name for reader in readers],
        "admin": [admin.name for admin in scenario.admin],
        "fault": list(around.active),
    }
    return found.get(marker, [])


def _nodes(marker: str, around: Surroundings) -> list[str]:
    """Expressions of nodes. While some brokers are away, only the leaders of partitions are known to be others."""
    scenario, shape = around.scenario, around.scenario.shape
    topics = [topic for topic in scenario.topics if topic.replicas > (2 if around.broken else 1)]
    leaders = [f"leader({topic.name}/0)" for topic in topics]
    found: list[str] = []
    if marker in _BROKERS or marker == "parties":
        found += leaders
        if not around.broken:
            found += [f"follower({topic.name}/0)" for topic in topics]
            found += [f"broker({number})" for number in range(1, shape.brokers + 1)]
            found += [f"group_coordinator({group})" for group in scenario.groups]
            found += [f"txn_coordinator({p.name})" for p in scenario.producers if p.transactions]
        if marker != "one broker" and not around.broken:
            found += ["brokers", *(f"followers({topic.name}/0)" for topic in topics)]
    if marker in _CONTROLLERS and shape.controllers > 1:
        found += ["controller", "controller_follower"]
    if marker in _CONTROLLERS:
        found += ["controllers", "controller_majority"] if marker != "one controller" else []
    return [*found, CLIENT] if marker == "parties" else found


def _required(entry: Field[object]) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING


def _default(entry: Field[object]) -> object:
    if entry.default is not MISSING:
        return entry.default
    return entry.default_factory() if entry.default_factory is not MISSING else None
