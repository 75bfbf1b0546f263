"""Makes a failing scenario smaller: it removes steps, clients and topics while the same kind of finding appears again.

The search knows no cluster: it asks `fails`, which plays several scenarios, each as often as it needs to. What is
removed together is one part: a step with those that refer to it, such as the healing of a fault, or a topic with the
clients that have no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from harness.faults.steps.registry import build_step, check_steps, is_disturbance, marked
from harness.model.errors import BadInput
from harness.model.scenario import toml
from harness.model.scenario.scenario import Admin, Producer, Reader, Scenario
from harness.model.scenario.toml_text import text_of

_Client = TypeVar("_Client", Producer, Reader)
# Whether each of several scenarios still fails; one for which there was no time does not.
Fails = Callable[[Sequence[Scenario]], Sequence[bool]]
REFERENCES: Final = ("step", "fault")  # markers of arguments that name another step


@dataclass(frozen=True, slots=True)
class Part:
    """Something that can be removed: steps, producers, readers, admins and topics by their names. what: for people."""

    what: str
    steps: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest scenario that was found, and how many scenarios were tried."""

    scenario: Scenario
    tried: int


def shrink(scenario: Scenario, fails: Fails, left: Callable[[], bool]) -> Shrunk:
    """Removes parts, half of them at once, then quarters, and so on, as delta debugging does (Zeller 2002).

    All parts of one size are asked about at once, because one cluster then plays them and one session judges them.
    left: whether there is time for one more scenario.
    """
    tried, size = 0, max(1, len(parts_of(scenario)) // 2)
    kept: set[str] = set()  # texts of scenarios that did not fail
    while left():
        parts = parts_of(scenario)
        size = min(size, len(parts))
        smaller = _smaller(scenario, _chunks(parts, size), kept)
        answers = fails([one for _, one in smaller]) if smaller else []
        tried += len(smaller)
        kept |= {text_of(one) for (_, one), failed in zip(smaller, answers, strict=True) if not failed}
        removable = [(chunk, one) for (chunk, one), failed in zip(smaller, answers, strict=True) if failed]
        if len(removable) > 1:
            both = without(scenario, [part for chunk, _ in removable for part in chunk])
            if both is not None and left():
                tried += 1
                if fails([both])[0]:
                    removable = [((), both)]
        if removable:
            scenario = removable[0][1]
        elif size <= 1:
            break
        else:
            size = max(1, size // 2)
    return Shrunk(scenario, tried)


def _smaller(
    scenario: Scenario, chunks: Iterable[Sequence[Part]], known: Collection[str]
) -> list[tuple[Sequence[Part], Scenario]]:
    """The legal scenarios without one of the chunks, each once, and none of the known ones."""
    found: dict[str, tuple[Sequence[Part], Scenario]] = {}
    for chunk in chunks:
        one = without(scenario, chunk)
        if one is not None and text_of(one) not in known:
            found.setdefault(text_of(one), (chunk, one))
    return list(found.values())


def removed_from(scenario: Scenario, smaller: Scenario) -> tuple[str, ...]:
    """The steps, clients and topics that a smaller scenario lacks, in words."""
    words = ("step", "client", "topic")
    pairs = zip(words, _names(scenario), _names(smaller), strict=True)
    return tuple(f"{word} {name}" for word, before, after in pairs for name in before if name not in after)


def _names(scenario: Scenario) -> tuple[list[str], list[str], list[str]]:
    """The names of its steps, of its clients, and of its topics."""
    clients = [p.name for p in scenario.producers] + [r.name for r in scenario.readers]
    clients += [admin.name for admin in scenario.admin]
    return [step.name for step in scenario.steps], clients, [topic.name for topic in scenario.topics]


def parts_of(scenario: Scenario) -> list[Part]:
    """The parts of a scenario: first its steps, the last ones first, then its clients and topics."""
    steps = [with_references(step.name, scenario) for step in reversed(scenario.steps)]
    parts = [Part(f"step {min(names, key=_position(scenario))}", steps=names) for names in steps]
    groups: tuple[Sequence[Admin | Reader | Producer], ...] = (scenario.admin, scenario.readers, scenario.producers)
    parts += [Part(f"client {one.name}", clients=frozenset({one.name})) for each in groups for one in each]
    parts += [of_topic(topic.name, scenario) for topic in scenario.topics]
    return parts


def without(scenario: Scenario, parts: Collection[Part]) -> Scenario | None:
    """The scenario without these parts; None if it would be none, or would break nothing any more."""
    steps = frozenset[str]().union(*(part.steps for part in parts))
    clients = frozenset[str]().union(*(part.clients for part in parts))
    topics = frozenset[str]().union(*(part.topics for part in parts))
    smaller = replace(
        scenario,
        steps=tuple(step for step in scenario.steps if step.name not in steps),
        topics=tuple(topic for topic in scenario.topics if topic.name not in topics),
        producers=_clients(scenario.producers, clients, topics),
        readers=_clients(scenario.readers, clients, topics),
        admin=tuple(admin for admin in scenario.admin if admin.name not in clients),
        negative_control=None,
    )
    return checked(smaller)


def checked(scenario: Scenario) -> Scenario | None:
    """The scenario as its file would be read; None if that would be refused."""
    try:
        return toml.from_plain(toml.to_plain(scenario), scenario.name, check_steps)
    except BadInput:
        return None


def happenings_of(scenario: Scenario) -> int:
    """The number of faults and operations of a scenario."""
    return sum(is_disturbance(build_step(step)) for step in scenario.steps)


def _chunks(parts: Sequence[Part], size: int) -> list[Sequence[Part]]:
    return [parts[at : at + size] for at in range(0, len(parts), size)] if parts else []


def with_references(name: str, scenario: Scenario) -> frozenset[str]:
    """The names of a step and of those that refer to it."""
    names = {name}
    for step in scenario.steps:
        values = [value for _, marker, value in marked(build_step(step)) if marker in REFERENCES]
        if names & {value for value in values if isinstance(value, str)}:
            names.add(step.name)
    return frozenset(names)


def _position(scenario: Scenario) -> Callable[[str], int]:
    order = {step.name: number for number, step in enumerate(scenario.steps)}
    return order.__getitem__


def of_topic(name: str, scenario: Scenario) -> Part:
    """A topic with the clients that have no other topic."""
    groups: tuple[Sequence[Reader | Producer], ...] = (scenario.readers, scenario.producers)
    clients = {one.name for each in groups for one in each if set(one.topics) == {name}}
    clients |= {p.name for p in scenario.producers if p.processes and name in p.processes.reads}
    return Part(f"topic {name}", clients=frozenset(clients), topics=frozenset({name}))


def _clients(clients: Sequence[_Client], names: Collection[str], topics: Collection[str]) -> tuple[_Client, ...]:
    kept = (one for one in clients if one.name not in names)
    return tuple(replace(one, topics=tuple(name for name in one.topics if name not in topics)) for one in kept)
