"""A split network, in shapes in which different nodes disagree about which other nodes are reachable."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from harness.clusters.base import party
from harness.faults.network import shapes
from harness.faults.network.flap import HEALED_AGAIN
from harness.faults.network.links import Link, between, broken
from harness.faults.network.shapes import MACHINES_MIN, Among, Into, Machine, Shape
from harness.faults.network.slow import Milliseconds
from harness.faults.network.split_effect import split_effect
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.repeat import Repeat
from harness.faults.steps.step import CUTS, SLOWS, Fault, Injection, NodesExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import CONTROLLERS, StepValidation
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.link import Break, Direction
from harness.model.scenario.scenario import MANY, Range, Seconds

# All sides have to show what they lost, some of them by what the controllers decide only after an election.
DEADLINE_S: Final = 40.0


@dataclass(frozen=True, kw_only=True)
class Split(Fault):
    """into: "ring", "minority" or "bridge"; `node` names the minority or the bridge.

    mode: links are silent or refusing, or slow by latency_ms, jitter_ms and rate_kb_s. With down_s and up_s they break
    and heal in turn.
    """

    do: ClassVar[str] = "split"
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"mode": ("silent", "refusing"), "direction": ("both",)}
    facts: ClassVar[Declares] = (Declared(FactKind.LINKS_CUT),)
    summary: ClassVar[str] = (
        "Splits the network: into a ring of neighbours, a minority and a majority, or two halves joined by a bridge."
    )
    proof: ClassVar[str] = (
        "each side lost a leader, an in-sync follower or a leader's records under load; controllers lost their leader "
        "or lag behind its log"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    into: Into
    node: NodesExpr = ""
    among: Among = "machines"
    mode: Literal["silent", "refusing", "slow"] = "silent"
    direction: Direction = "both"
    latency_ms: Milliseconds = 0
    jitter_ms: Milliseconds = 0
    rate_kb_s: Annotated[int | None, Range(1, MANY)] = None
    down_s: Seconds = 0.0
    up_s: Seconds = 0.0

    def __post_init__(self) -> None:
        if (self.into == "ring") == bool(self.node):
            words = "a ring chooses no node; leave it out" if self.node else f"name the node that is the {self.into}"
            raise BadInput(f"node: {words}")
        slowness = bool(self.latency_ms or self.jitter_ms or self.rate_kb_s)
        if slowness != (self.mode == "slow"):
            words = 'need mode = "slow"; set it, or leave them out' if slowness else 'are missing for mode = "slow"'
            raise BadInput(f"latency_ms, jitter_ms or rate_kb_s {words}")
        if bool(self.down_s) != bool(self.up_s):
            raise BadInput("down_s and up_s belong together: links that flap do both")
        if self.mode == "refusing" and self.direction != "both":
            raise BadInput(f"a refusing cut closes both directions: leave out direction = {self.direction!r}")

    only_victims: ClassVar[bool] = False  # a machine has brokers and controllers

    def victims(self) -> str:
        return self.node

    def breaks(self) -> frozenset[str]:
        return frozenset({SLOWS if self.mode == "slow" else CUTS})

    def validate(self, plan: StepValidation) -> None:
        shape = plan.scenario.shape
        count = {"brokers": shape.brokers, "controllers": shape.controllers}.get(self.among, 0)
        count = count or max(shape.brokers, shape.controllers)
        if count < MACHINES_MIN:
            raise BadInput(f"among: {count} {self.among} are too few to split; set {_enough(self.among)} in [shape]")
        if self.into == "ring":
            self._validate_ring(count)
        else:
            self._validate_node(plan, count)
        if self.among != "controllers" and all(topic.replicas == 1 for topic in plan.scenario.topics):
            raise BadInput("no topic has followers that could lose their leader; give a topic replicas = 2 or more")

    def _validate_ring(self, count: int) -> None:
        if shapes.one_way(count) and (self.mode == "refusing" or self.direction != "both"):
            raise BadInput(
                f"a ring of {count} machines has only one-way links, which are silent: leave out mode and direction, "
                "or use 4 or 5 machines"
            )

    def _validate_node(self, plan: StepValidation, count: int) -> None:
        named = plan.reach(self.node)
        if self.among not in ("machines", named.role):
            raise BadInput(f"node: {self.node!r} names {named.role}, and the split is among {self.among}")
        if self.into == "bridge" and named.count > 1:
            raise BadInput(f"node: {self.node!r} names {named.count} nodes, and a bridge is one; name one node")
        if self.into == "minority" and named.count * 2 >= count:
            raise BadInput(
                f"node: {self.node!r} names {named.count} of {count} nodes, which is no minority; name fewer"
            )
        if self.into == "bridge" and self.among != CONTROLLERS and not _apart(plan, named.brokers):
            raise BadInput(
                f"node: {self.node!r} may be a replica of each partition, and two replicas still reach each other over "
                "a bridge that is one of them; give a topic replicas = 3, or name a broker that has none"
            )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        cluster = context.cluster
        of = shapes.machines(cluster.brokers, cluster.controllers, self.among)
        shape, chosen = self._shape(context, of)
        lost = shapes.torn(_links(cluster.brokers, cluster.controllers), shape, self.direction)
        probe = split_effect(context, shape, lost, self.latency_ms / 1000, control=self.among == "controllers")
        nodes = tuple(n for n in (*cluster.brokers, *cluster.controllers) if any(party(n) in m for m in chosen))
        resolved = {
            "sides": [["+".join(sorted(machine)) for machine in side] for side in shape.sides],
            "links": [[src, dst, way] for (src, dst), way in lost.items()],
        }
        if not (self.down_s and self.up_s):
            with self._broken(context, lost):
                yield Injection(resolved=resolved, probe=probe, nodes=nodes, deadline_s=DEADLINE_S)
            return
        flapping = Repeat(lambda: self._broken(context, lost), HEALED_AGAIN, self.down_s, self.up_s)
        again = flapping.proof(probe, "flaps")
        with flapping.running():
            yield Injection(resolved=resolved, probe=again, nodes=nodes, deadline_s=DEADLINE_S)

    def _shape(self, context: StepContext, of: Sequence[Machine]) -> tuple[Shape, Sequence[Machine]]:
        """The shape, and the machines that `node` chose."""
        if self.into == "ring":
            return shapes.ring(of), ()
        named = {party(node) for node in context.nodes(self.node)}
        chosen = [machine for machine in of if machine & named]
        if self.into == "minority":
            return shapes.minority(of, chosen), chosen
        if len(chosen) != 1:
            raise BadInput(f"node: {self.node!r} names {len(chosen)} machines, and a bridge is one; name one node")
        return shapes.bridge(of, chosen[0]), chosen

    def _broken(self, context: StepContext, lost: Mapping[Link, Direction]) -> AbstractContextManager[None]:
        links, mode = context.cluster.links, self.mode
        what: Break = "slow" if mode == "slow" else "cut"

        def tear(src: str, dst: str) -> None:
            if mode == "slow":
                links.slow(src, dst, self.latency_ms, self.jitter_ms, self.rate_kb_s, lost[src, dst])
            else:
                links.cut(src, dst, mode, lost[src, dst])

        return broken(links, list(lost), tear, what)


def _apart(plan: StepValidation, bridge: Collection[int]) -> bool:
    """Whether a partition has two replicas beside the bridge; not certain of two replicas, unless these are listed."""
    topics = plan.scenario.topics
    listed = [set(replicas) for topic in topics for replicas in topic.assignment or () if len(replicas) > 1]
    beside = bool(bridge) and any(replicas.isdisjoint(bridge) for replicas in listed)
    return beside or any(topic.replicas > 2 for topic in topics)


def _links(brokers: Sequence[int], controllers: Sequence[int]) -> list[Link]:
    """All links between nodes; a controller connects to no broker."""
    of, to = [party(b) for b in brokers], [party(c) for c in controllers]
    return between(of, [*of, *to]) + between(to, to)


def _enough(among: Among) -> str:
    return f"{CONTROLLERS if among == 'controllers' else 'brokers'} = {MACHINES_MIN}"
