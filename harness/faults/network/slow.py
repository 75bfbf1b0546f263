"""A link that is late or narrow. Below replica.lag.time.max.ms followers only lag; above it they leave the ISR."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

from harness.clusters.base import party
from harness.faults.network.links import CLIENT, CLIENTS, ISOLATED, PartiesExpr, between, broken, parties
from harness.faults.steps.effect import (
    Held,
    Probe,
    acks_stalled,
    answers_missed,
    any_of,
    await_recent_acks,
    followers_behind,
    isolated_stalled,
    isr_lost,
    metadata_late,
)
from harness.faults.steps.step import EffectProof, Fault, Injection, NodesExpr, PartitionView, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput
from harness.model.link import Direction
from harness.model.scenario.scenario import MANY, Range
from harness.model.waiting import wait_for

FIRST_LOOK_S = 3.0
Milliseconds = Annotated[int, Range(0, 3_600_000)]


@dataclass(frozen=True, kw_only=True)
class Slow(Fault):
    """Delays a link by latency_ms (give or take jitter_ms) and narrows it to rate_kb_s."""

    do: ClassVar[str] = "slow"
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    src: PartiesExpr
    dst: NodesExpr
    latency_ms: Milliseconds = 0
    jitter_ms: Milliseconds = 0
    rate_kb_s: Annotated[int | None, Range(1, MANY)] = None
    direction: Direction = "both"

    def __post_init__(self) -> None:
        if not self.latency_ms and not self.jitter_ms and self.rate_kb_s is None:
            raise BadInput("this slows nothing; give latency_ms, jitter_ms or rate_kb_s")

    def victims(self) -> str:
        """See `Fault`."""
        return self.dst

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        plan.linked(self.src, self.dst)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        targets = stage.nodes(self.dst)
        links = between(parties(stage, self.src), [party(node) for node in targets])
        held = Held(self._felt(stage, targets))

        def slow(src: str, dst: str) -> None:
            stage.cluster.links.slow(src, dst, self.latency_ms, self.jitter_ms, self.rate_kb_s, self.direction)

        with broken(stage.cluster.links, links, slow, "slow"):
            # What a delay does to acks shows only at its beginning: afterwards they flow as before, only later.
            give_up_at = time.monotonic() + (FIRST_LOOK_S if self.src in CLIENTS else 0)
            while not held.ask().held and time.monotonic() < give_up_at:
                time.sleep(0.05)
            resolved = {"links": [list(link) for link in links]}
            yield Injection(resolved=resolved, probe=held.ask, nodes=targets)

    def _felt(self, stage: Stage, targets: tuple[int, ...]) -> Probe:
        if self.src not in CLIENTS and set(targets) <= set(stage.controllers()):
            return metadata_late(stage, stage.nodes(self.src))
        led = await_recent_acks(stage, lambda s: s.leader in targets)
        if self.src == ISOLATED:
            return isolated_stalled(stage, tuple(led))
        if self.src == CLIENT:
            return any_of(acks_stalled(stage, tuple(led)), answers_missed(stage))
        sources = stage.nodes(self.src)
        return any_of(
            isr_lost(stage, sources, led),
            followers_behind(stage, sources, targets),
            replicated_late(stage, sources, led, self.latency_ms / 1000),
        )


def replicated_late(
    stage: Stage, followers: Sequence[int], led: Mapping[Place, PartitionView], latency_s: float
) -> Probe:
    """A follower needs at least the delay to reach the log end that its leader had at one look."""

    def ends() -> dict[tuple[str, int, int], int]:
        offsets = stage.admin.replica_offsets(sorted({topic for topic, _ in led}))
        return {key: end for key, (_, end) in offsets.items()}

    def probe() -> EffectProof:
        if not led or latency_s <= 0:
            return EffectProof(False, "no delay to be seen")
        following = ((p, s, b) for p, s in led.items() for b in followers if b in s.replicas and b != s.leader)
        found = next(following, None)
        if found is None:
            return EffectProof(False, "the slow broker follows nothing that the other leads")
        (topic, partition), state, follower = found
        started, goal = time.monotonic(), ends().get((topic, partition, state.leader), 0)
        wait_for(
            lambda: ends().get((topic, partition, follower), 0),
            until=lambda end: end >= goal,
            deadline_s=latency_s * 4 + 5,
            what=f"broker {follower} to reach offset {goal} of {topic}/{partition}",
            interval_s=0.02,
        )
        took_s = round(time.monotonic() - started, 3)
        seen = {"partition": f"{topic}/{partition}", "broker": follower, "replicated_after_s": took_s}
        if took_s >= latency_s * 0.8:
            return EffectProof(True, f"broker {follower} had the leader's records {took_s} s later", seen)
        return EffectProof(False, f"broker {follower} kept up within {took_s} s", seen)

    return probe
