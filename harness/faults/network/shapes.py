"""Shapes of a split network: which machine drops the packets of which other (the "grudges" of Jepsen).

A machine is a broker together with a controller: broker 1 with controller 101, broker 2 with controller 102, and so on;
or only a broker, or only a controller, when the split is among brokers or among controllers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from harness.clusters.base import party
from harness.faults.network.links import Link
from harness.model.errors import BadInput
from harness.model.link import Direction

Into = Literal["ring", "minority", "bridge"]
Among = Literal["machines", "brokers", "controllers"]

Machine = frozenset[str]  # parties
MACHINES_MIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """sides: the sets of machines that have lost each other. drops: by machine, the senders of dropped packets."""

    sides: tuple[tuple[Machine, ...], ...]
    drops: Mapping[Machine, frozenset[Machine]]


def machines(brokers: Sequence[int], controllers: Sequence[int], among: Among) -> list[Machine]:
    """The machines in the order of their ids."""
    pairs = {
        "machines": zip_longest(brokers, controllers),
        "brokers": ((broker,) for broker in brokers),
        "controllers": ((controller,) for controller in controllers),
    }[among]
    return [frozenset(party(node) for node in nodes if node is not None) for nodes in pairs]


def ring(of: Sequence[Machine]) -> Shape:
    """Each machine hears a majority, and no two hear the same one: of five, each hears itself and its two neighbours.

    Of three, a majority is two: each hears one other, and the third hears it, so every link is one-way.
    """
    size, whole = len(of) // 2 + 1, frozenset(of)
    windows = ([of[(first + step) % len(of)] for step in range(size)] for first in range(len(of)))
    drops = {window[size // 2]: whole - set(window) for window in windows}
    return Shape(sides=tuple((machine,) for machine in of), drops=drops)


def minority(of: Sequence[Machine], few: Sequence[Machine]) -> Shape:
    """A minority and a majority that hear nothing of each other. BadInput when the few are no minority."""
    if not 0 < len(few) * 2 < len(of):
        raise BadInput(
            f"{len(few)} of {len(of)} machines ({_names(few)}) are no minority; name fewer nodes, or use more machines"
        )
    many = tuple(machine for machine in of if machine not in few)
    return Shape(sides=(tuple(few), many), drops=_deaf((few, many)))


def bridge(of: Sequence[Machine], middle: Machine) -> Shape:
    """Two halves that hear nothing of each other, and one machine with intact links to both."""
    rest = [machine for machine in of if machine != middle]
    halves = (tuple(rest[: len(rest) // 2]), tuple(rest[len(rest) // 2 :]))
    return Shape(sides=halves, drops=_deaf(halves))


def torn(links: Iterable[Link], shape: Shape, direction: Direction = "both") -> dict[Link, Direction]:
    """The direction that is lost on each broken link. Where neither end hears the other, it is `direction`."""
    drops = {
        (deaf, mute)
        for machine, others in shape.drops.items()
        for deaf in machine
        for other in others
        for mute in other
    }
    lost: dict[Link, Direction] = {}
    for src, dst in links:
        requests, answers = (dst, src) in drops, (src, dst) in drops
        if requests and answers:
            lost[src, dst] = direction
        elif requests or answers:
            lost[src, dst] = "requests" if requests else "answers"
    return lost


def one_way(count: int) -> bool:
    """Whether a ring of `count` machines has links on which one end still hears the other."""
    drops = ring([frozenset({str(number)}) for number in range(count)]).drops
    return any(machine not in drops[other] for machine, others in drops.items() for other in others)


def _deaf(sides: Sequence[Sequence[Machine]]) -> dict[Machine, frozenset[Machine]]:
    whole = frozenset(machine for side in sides for machine in side)
    return {machine: whole - frozenset(side) for side in sides for machine in side}


def _names(of: Iterable[Machine]) -> str:
    return " and ".join("+".join(sorted(machine)) for machine in of)
