"""Which links a fault on the network breaks: computed purely, applied and healed by one thin layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

from harness.clusters.base import party
from harness.faults.steps.step import LinksView
from harness.faults.steps.step_context import Stage
from harness.model.errors import BadInput
from harness.model.link import Break
from harness.model.scenario.toml import hint

PartiesExpr = Annotated[str, "parties"]  # an expression of nodes, or "client", or "isolated_client"
Link = tuple[str, str]  # who opens the connection, to whom

CLIENT = "client"
ISOLATED = "isolated_client"  # those clients that come in by a way of their own
CLIENTS = (CLIENT, ISOLATED)
SIDES = ("brokers", "controllers", "clients")


def between(sources: Iterable[str], targets: Iterable[str]) -> list[Link]:
    """Every link from one of the sources to one of the targets; nobody has a link to himself."""
    targets = list(targets)
    return [(src, dst) for src in sources for dst in targets if src != dst]


def check_sides(away_from: Sequence[str]) -> None:
    """BadInput on a side that there is not, or on none at all."""
    if not away_from:
        raise BadInput(f"away_from: names no side; there is {', '.join(SIDES)}")
    for side in away_from:
        if side not in SIDES:
            raise BadInput(f"away_from: unknown side {side!r}{hint(side, SIDES)}")


def isolation(node: int, away_from: Sequence[str], brokers: Sequence[int], controllers: Sequence[int]) -> list[Link]:
    """Links of a node to and from the named sides. Controllers open none to brokers, and clients are never called."""
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


def parties(stage: Stage, text: str) -> list[str]:
    """The parties an expression names now."""
    return [text] if text in CLIENTS else [party(node) for node in stage.nodes(text)]


@contextmanager
def broken(
    links: LinksView, which: Sequence[Link], breaking: Callable[[str, str], None], what: Break = "cut"
) -> Iterator[None]:
    """Each link broken by `breaking`; healed of `what` on leaving, those that were never reached included.

    A link may be cut by one fault and slowed by another: each heals its own.
    """
    try:
        for src, dst in which:
            breaking(src, dst)
        yield
    finally:
        for src, dst in which:
            links.heal(src, dst, what)
