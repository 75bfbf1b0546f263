"""Links that fail and recover in turn, faster than a timeout of any client or broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.clusters.base import party
from harness.faults.network.cut import Cut
from harness.faults.network.links import between, broken, parties
from harness.faults.steps.repeat import Repeat
from harness.faults.steps.step import Injection
from harness.faults.steps.step_context import StepContext
from harness.model.scenario.scenario import Deadline, Scenario

HEALED_AGAIN: Final = "the links were healed"


@dataclass(frozen=True, kw_only=True)
class Flap(Cut):
    """`src`, `dst`, `mode` and `direction` are those of `cut`."""

    do: ClassVar[str] = "flap"
    # A link is healed for long enough to fetch, so it shows an effect only if it is cut for longer than brokers wait:
    # replica.lag.time.max.ms is 2 s here, and broker.session.timeout.ms 3 s.
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"down_s": (2.5, 4.0), "up_s": (0.3, 0.7)}
    summary: ClassVar[str] = "Cuts links as `cut` does for down_s and heals them for up_s, in turn, until it is healed."
    proof: ClassVar[str] = "as for `cut`, and the links were healed at least twice"
    down_s: Deadline = 1.0
    up_s: Deadline = 1.0

    @classmethod
    def drawn_in(cls, scenario: Scenario, chosen: Mapping[str, object]) -> Mapping[str, tuple[object, ...]]:  # noqa: ARG003
        to_controllers = str(chosen.get("dst", "")).startswith("controller")
        return {**cls.drawn, "down_s": (4.0, 6.0)} if to_controllers else cls.drawn

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        targets, cluster = context.nodes(self.dst), context.cluster
        links = between(parties(context, self.src), [party(node) for node in targets])

        def cut(src: str, dst: str) -> None:
            cluster.links.cut(src, dst, self.mode, self.direction)

        flapping = Repeat(lambda: broken(cluster.links, links, cut), HEALED_AGAIN, self.down_s, self.up_s)
        probe = flapping.proof(self._effect_probe(context, targets), "flaps")
        with flapping.running():
            yield Injection(resolved={"links": [list(link) for link in links]}, probe=probe, nodes=targets)
