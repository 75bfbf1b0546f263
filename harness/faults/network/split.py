"""A network that falls apart in a shape of its own, so that who agrees with whom depends on who asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from harness.clusters.base import party
from harness.faults.network import shapes
from harness.faults.network.flap import CAME_BACK
from harness.faults.network.links import Link, between, broken
from harness.faults.network.shapes import MACHINES_MIN, Among, Into, Machine, Shape
from harness.faults.network.slow import Milliseconds
from harness.faults.network.split_effect import split_effect
from harness.faults.steps.repeat import Again
from harness.faults.steps.step import Fault, Injection, NodesExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import CONTROLLERS, StepValidation
from harness.model.errors import BadInput
from harness.model.link import Break, Direction
from harness.model.scenario.scenario import MANY, Range, Seconds

# All sides have to show what they lost, some of them by what the controllers decide only after an election.
DEADLINE_S: Final = 40.0


@dataclass(frozen=True, kw_only=True)
class Split(Fault):
    """Tears the network apart: in a ring of neighbours, a minority from the others, or halves with a bridge.

    `node` is who is the minority, or the bridge. mode: links swallow or refuse what they carry, or are slow by
    latency_ms, jitter_ms and rate_kb_s; with down_s and up_s they break and mend in turn.
    """

    do: ClassVar[str] = "split"
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
            words = (
                "a ring has no node to be named: leave it out" if self.node else f"say which node is the {self.into}"
            )
            raise BadInput(f"node: {words}")
        slowness = bool(self.latency_ms or self.jitter_ms or self.rate_kb_s)
        if slowness != (self.mode == "slow"):
            words = 'goes with mode = "slow" only' if slowness else "is missing"
            raise BadInput(f"latency_ms, jitter_ms or rate_kb_s {words}")
        if bool(self.down_s) != bool(self.up_s):
            raise BadInput("down_s and up_s belong together: links that flap do both")
        if self.mode == "refusing" and self.direction != "both":
            raise BadInput(f"a refusing cut closes both directions: leave out direction = {self.direction!r}")

    def victims(self) -> str:
        """See `Fault`."""
        return self.node

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        shape = plan.scenario.shape
        count = {"brokers": shape.brokers, "controllers": shape.controllers}.get(self.among, 0)
        count = count or max(shape.brokers, shape.controllers)
        if count < MACHINES_MIN:
            raise BadInput(f"among: {count} {self.among} are too few to be split; set {_enough(self.among)} in [shape]")
        if self.into == "ring":
            self._foresee_ring(count)
        else:
            self._foresee_node(plan, count)
        if self.among != "controllers" and all(topic.replicas == 1 for topic in plan.scenario.topics):
            raise BadInput("no topic has followers that could lose their leader; give one replicas = 2 or more")

    def _foresee_ring(self, count: int) -> None:
        if shapes.one_way(count) and (self.mode == "refusing" or self.direction != "both"):
            raise BadInput(
                f"a ring of {count} has one-way links, which can be no others: leave out mode and direction, "
                "or have 4 or 5 machines"
            )

    def _foresee_node(self, plan: StepValidation, count: int) -> None:
        named = plan.reach(self.node)
        if self.among not in ("machines", named.role):
            raise BadInput(f"node: {self.node!r} names {named.role}, and the split is among {self.among}")
        if self.into == "bridge" and named.count > 1:
            raise BadInput(f"node: {self.node!r} names {named.count} nodes, and a bridge is one")
        if self.into == "minority" and named.count * 2 >= count:
            raise BadInput(f"node: {self.node!r} names {named.count} of {count}, which is no minority; name fewer")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        cluster = stage.cluster
        of = shapes.machines(cluster.brokers, cluster.controllers, self.among)
        shape, chosen = self._shape(stage, of)
        lost = shapes.torn(_links(cluster.brokers, cluster.controllers), shape, self.direction)
        probe = split_effect(stage, shape, lost, self.latency_ms / 1000, control=self.among == "controllers")
        nodes = tuple(n for n in (*cluster.brokers, *cluster.controllers) if any(party(n) in m for m in chosen))
        resolved = {
            "sides": [["+".join(sorted(machine)) for machine in side] for side in shape.sides],
            "links": [[src, dst, way] for (src, dst), way in lost.items()],
        }
        if not (self.down_s and self.up_s):
            with self._broken(stage, lost):
                yield Injection(resolved=resolved, probe=probe, nodes=nodes, deadline_s=DEADLINE_S)
            return
        flapping = Again(lambda: self._broken(stage, lost), CAME_BACK, self.down_s, self.up_s)
        again = flapping.felt(probe, "flaps")
        with flapping.running():
            yield Injection(resolved=resolved, probe=again, nodes=nodes, deadline_s=DEADLINE_S)

    def _shape(self, stage: Stage, of: Sequence[Machine]) -> tuple[Shape, Sequence[Machine]]:
        """And the machines that `node` chose."""
        if self.into == "ring":
            return shapes.ring(of), ()
        named = {party(node) for node in stage.nodes(self.node)}
        chosen = [machine for machine in of if machine & named]
        if self.into == "minority":
            return shapes.minority(of, chosen), chosen
        if len(chosen) != 1:
            raise BadInput(f"node: {self.node!r} names {len(chosen)} machines, and a bridge is one")
        return shapes.bridge(of, chosen[0]), chosen

    def _broken(self, stage: Stage, lost: Mapping[Link, Direction]) -> AbstractContextManager[None]:
        links, mode = stage.cluster.links, self.mode
        what: Break = "slow" if mode == "slow" else "cut"

        def tear(src: str, dst: str) -> None:
            if mode == "slow":
                links.slow(src, dst, self.latency_ms, self.jitter_ms, self.rate_kb_s, lost[src, dst])
            else:
                links.cut(src, dst, mode, lost[src, dst])

        return broken(links, list(lost), tear, what)


def _links(brokers: Sequence[int], controllers: Sequence[int]) -> list[Link]:
    """All between nodes; a controller calls no broker."""
    of, to = [party(b) for b in brokers], [party(c) for c in controllers]
    return between(of, [*of, *to]) + between(to, to)


def _enough(among: Among) -> str:
    return f"{CONTROLLERS if among == 'controllers' else 'brokers'} = {MACHINES_MIN}"
