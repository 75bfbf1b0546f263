"""A link that comes and goes faster than anybody gives it up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.clusters.base import party
from harness.faults.network.cut import Cut
from harness.faults.network.links import between, broken, parties
from harness.faults.steps.repeat import Again
from harness.faults.steps.step import Injection
from harness.faults.steps.step_context import Stage
from harness.model.scenario.scenario import Deadline

CAME_BACK: Final = "the links came back"


@dataclass(frozen=True, kw_only=True)
class Flap(Cut):
    """Cuts links for down_s and mends them for up_s, again and again, until healed; otherwise as `cut`."""

    do: ClassVar[str] = "flap"
    down_s: Deadline = 1.0
    up_s: Deadline = 1.0

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        targets, cluster = stage.nodes(self.dst), stage.cluster
        links = between(parties(stage, self.src), [party(node) for node in targets])

        def cut(src: str, dst: str) -> None:
            cluster.links.cut(src, dst, self.mode, self.direction)

        flapping = Again(lambda: broken(cluster.links, links, cut), CAME_BACK, self.down_s, self.up_s)
        probe = flapping.felt(self._felt(stage, targets), "flaps")
        with flapping.running():
            yield Injection(resolved={"links": [list(link) for link in links]}, probe=probe, nodes=targets)
