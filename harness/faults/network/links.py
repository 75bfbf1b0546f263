"""The links that a network fault breaks, computed from expressions, and how they are broken and healed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from harness.clusters.base import Links, party
from harness.faults.steps.step import CUTS, OF_CLIENTS, Fault, NodesExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import CLIENT, CLIENTS
from harness.model.errors import BadInput
from harness.model.hints import hint
from harness.model.link import Break

PartiesExpr = Annotated[str, "parties"]  # an expression of nodes, or "client", or "isolated_client"
Link = tuple[str, str]  # the party that opens the connection, and the party that it connects to

SIDES = ("brokers", "controllers", "clients")


@dataclass(frozen=True, kw_only=True)
class LinkFault(Fault):
    """Base of faults on the links by which `src` connects to `dst`."""

    src: PartiesExpr
    dst: NodesExpr

    def victims(self) -> str:
        return self.dst

    def breaks(self) -> frozenset[str]:
        return frozenset({CUTS, *([OF_CLIENTS] if self.src in CLIENTS else [])})

    def validate(self, plan: StepValidation) -> None:
        plan.linked(self.src, self.dst)


def between(sources: Iterable[str], targets: Iterable[str]) -> list[Link]:
    """Every link from one of the sources to one of the targets; no party has a link to itself."""
    targets = list(targets)
    return [(src, dst) for src in sources for dst in targets if src != dst]


def check_sides(away_from: Sequence[str]) -> None:
    """BadInput for an unknown side, or for none."""
    if not away_from:
        raise BadInput(f"away_from: names no side; name some of {', '.join(SIDES)}")
    for side in away_from:
        if side not in SIDES:
            raise BadInput(f"away_from: unknown side {side!r}{hint(side, SIDES)}")


def isolation(node: int, away_from: Sequence[str], brokers: Sequence[int], controllers: Sequence[int]) -> list[Link]:
    """The links of a node to and from the named sides. Controllers connect to no broker, and no node to a client."""
    check_sides(away_from)
    me, links = party(node), []
    if "brokers" in away_from:
        others = [party(b) for b in brokers if b != node]
        links += between([me], others) + (between(others, [me]))
    if "controllers" in away_from:
        others = [party(c) for c in controllers if c != node]
        links += between([me], others)
        links += between(others, [me]) if node in controllers else []
    if "clients" in away_from and node in brokers:
        links.append((CLIENT, me))
    return links


def parties(context: StepContext, text: str) -> list[str]:
    """The parties that an expression names now."""
    return [text] if text in CLIENTS else [party(node) for node in context.nodes(text)]


@contextmanager
def broken(
    links: Links, which: Sequence[Link], breaking: Callable[[str, str], None], what: Break = "cut"
) -> Iterator[None]:
    """Breaks each link by `breaking`, and heals all of them on leaving, also when breaking failed half way.

    One fault may cut a link and another slow it: each heals only its own kind of break, `what`.
    """
    try:
        for src, dst in which:
            breaking(src, dst)
        yield
    finally:
        for src, dst in which:
            links.heal(src, dst, what)
