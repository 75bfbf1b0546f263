"""How a kind of step declares its facts, and how they get the nodes and the times of a step that ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.model.facts import MEANINGS, OBSERVED, Fact, FactKind, Stop


@dataclass(frozen=True, slots=True)
class Declared:
    """A fact without nodes and times.

    how: of `stopped`; None in the declaration of a class means that it depends on the arguments of the step.
    at_once: over when the step has ended, and not only when the fault is healed.
    of_controllers: while its nodes are not known, it may be about any controller, and about no broker.
    of_majority: it holds only if its nodes are so many controllers that the others are no majority.
    """

    kind: FactKind
    how: Stop | None = None
    what: str = ""
    topic: str = ""
    client: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    at_once: bool = False
    of_controllers: bool = False
    of_majority: bool = False

    @property
    def text(self) -> str:
        """The fact in the catalogue."""
        return f"{self.kind} ({self.how})" if self.how else str(self.kind)


Declares = tuple[Declared, ...]
NOTHING: Final[Declares] = ()  # the declaration of a step that changes nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """The state of a step, as far as it is known.

    healed_ns: of an action, when it ended. spans: the times of each node that a step stopped one after the other.
    ended: the times of each node that a fault stopped, if it does so later or not at all; counts once it is healed.
    """

    started_ns: int
    ended_ns: int | None = None
    healed_ns: int | None = None
    failed: bool = False
    nodes: tuple[int, ...] | None = None
    controllers: tuple[int, ...] = ()
    spans: Mapping[int, tuple[int, int | None]] = field(default_factory=dict)
    ended: Mapping[int, tuple[int, int | None]] | None = None

    @property
    def majority(self) -> bool:
        """Whether the nodes are so many controllers that the others are no majority; unknown nodes may be."""
        hit = self.controllers if self.nodes is None else set(self.nodes) & set(self.controllers)
        return len(self.controllers) - len(hit) <= len(self.controllers) // 2


def bound(declared: Declares, happened: Happened) -> Iterator[Fact]:
    """The facts of a step that ran. A step that failed has not seen what it waited for."""
    for one in declared:
        if one.kind in OBSERVED and (happened.failed or happened.ended_ns is None):
            continue
        if one.of_majority and not happened.majority:
            continue
        to_ns = happened.ended_ns if one.at_once else happened.healed_ns
        spans = happened.ended if happened.healed_ns is not None and happened.ended is not None else None
        if one.kind is FactKind.STOPPED and (happened.spans or spans is not None):
            for node, (from_ns, over_ns) in (happened.spans or spans or {}).items():
                yield _fact(one, from_ns, over_ns, (node,))
        else:
            unknown = happened.controllers if one.of_controllers else None
            nodes = unknown if happened.nodes is None else happened.nodes
            yield _fact(one, happened.started_ns, to_ns, nodes)


def _fact(one: Declared, from_ns: int, to_ns: int | None, nodes: tuple[int, ...] | None) -> Fact:
    return Fact(
        kind=one.kind,
        from_ns=from_ns,
        to_ns=to_ns,
        nodes=nodes if "nodes" in MEANINGS[one.kind].keys else None,
        how=one.how,
        what=one.what,
        topic=one.topic,
        client=one.client,
        config=one.config,
    )
