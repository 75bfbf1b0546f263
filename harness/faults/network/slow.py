"""Slow links. With a delay below replica.lag.time.max.ms followers only lag; above it they leave the ISR."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

from harness.clusters.base import party
from harness.faults.network.links import LinkFault, between, broken, parties
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import (
    Probe,
    StickyProbe,
    acks_stalled,
    answers_missed,
    any_of,
    await_recent_acks,
    followers_behind,
    isolated_stalled,
    isr_lost,
    metadata_late,
)
from harness.faults.steps.step import CUTS, SLOWS, EffectProof, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.targets import CLIENT, CLIENTS, ISOLATED
from harness.kafka.admin.client import PartitionState
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.link import Direction
from harness.model.place import Place
from harness.model.scenario.scenario import MANY, Range
from harness.model.waiting import wait_for

FIRST_LOOK_S = 3.0
ARRIVAL_S = 5.0  # in addition to four delays
Milliseconds = Annotated[int, Range(0, 3_600_000)]


@dataclass(frozen=True, kw_only=True)
class Slow(LinkFault):
    """The delay applies to each chosen direction."""

    do: ClassVar[str] = "slow"
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"latency_ms": (500, 1500), "jitter_ms": (0, 100)}
    facts: ClassVar[Declares] = (Declared(FactKind.LINKS_SLOW),)
    summary: ClassVar[str] = (
        "Delays the links from `src` to `dst` by latency_ms, plus or minus jitter_ms, and limits them to rate_kb_s."
    )
    proof: ClassVar[str] = (
        "between brokers: the source left the ISR, or gets the leader's records that much later; from clients: acks "
        "stopped or records were retried; to controllers: the source lagged behind the metadata log at each look"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    latency_ms: Milliseconds = 0
    jitter_ms: Milliseconds = 0
    rate_kb_s: Annotated[int | None, Range(1, MANY)] = None
    direction: Direction = "both"

    def breaks(self) -> frozenset[str]:
        return super().breaks() - {CUTS} | {SLOWS}

    def __post_init__(self) -> None:
        if not self.latency_ms and not self.jitter_ms and self.rate_kb_s is None:
            raise BadInput("this slows nothing; give latency_ms, jitter_ms or rate_kb_s")

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        targets = context.nodes(self.dst)
        links = between(parties(context, self.src), [party(node) for node in targets])
        held = StickyProbe(self._effect_probe(context, targets))

        def slow(src: str, dst: str) -> None:
            context.cluster.links.slow(src, dst, self.latency_ms, self.jitter_ms, self.rate_kb_s, self.direction)

        with broken(context.cluster.links, links, slow, "slow"):
            # A delay stops acks only at its beginning: later they arrive as often as before, only later.
            give_up_at = time.monotonic() + (FIRST_LOOK_S if self.src in CLIENTS else 0)
            while not held.ask().held and time.monotonic() < give_up_at:
                time.sleep(0.05)
            resolved = {"links": [list(link) for link in links]}
            yield Injection(resolved=resolved, probe=held.ask, nodes=targets)

    def _effect_probe(self, context: StepContext, targets: tuple[int, ...]) -> Probe:
        if self.src not in CLIENTS and set(targets) <= set(context.controllers()):
            return metadata_late(context, context.nodes(self.src))
        led = await_recent_acks(context, lambda s: s.leader in targets)
        if self.src == ISOLATED:
            return isolated_stalled(context, tuple(led))
        if self.src == CLIENT:
            return any_of(acks_stalled(context, tuple(led)), answers_missed(context))
        sources = context.nodes(self.src)
        return any_of(
            isr_lost(context, sources, led),
            followers_behind(context, sources, targets),
            replicated_late(context, sources, led, self.latency_ms / 1000),
        )


def replicated_late(
    context: StepContext, followers: Sequence[int], led: Mapping[Place, PartitionState], latency_s: float
) -> Probe:
    """Proof: a follower needs at least the delay to reach the log end offset that its leader had at one look."""

    def ends() -> dict[tuple[str, int, int], int]:
        offsets = context.admin.replica_offsets(sorted({topic for topic, _ in led}))
        return {key: end for key, (_, end) in offsets.items()}

    def probe() -> EffectProof:
        if not led or latency_s <= 0:
            return EffectProof(False, "there is no delay to observe")
        following = [(*p, b, s.leader) for p, s in led.items() for b in followers if b in s.replicas and b != s.leader]
        if not following:
            return EffectProof(False, "the slow broker follows no partition that the other one leads")
        started, look = time.monotonic(), ends()
        goals = {(topic, p, follower): look.get((topic, p, leader), 0) for topic, p, follower, leader in following}

        def arrival() -> EffectProof | None:
            """The first arrival that took long enough, else the last one: another fault may hold some for good."""
            now, took_s = ends(), round(time.monotonic() - started, 3)
            arrived = [key for key, goal in goals.items() if now.get(key, 0) >= goal]
            for key in arrived:
                del goals[key]
            late = took_s >= latency_s * 0.8
            return _arrived(*arrived[0], took_s, late=late) if arrived and (late or not goals) else None

        effect = wait_for(
            arrival,
            until=lambda effect: effect is not None,
            deadline_s=latency_s * 4 + ARRIVAL_S,
            what="a follower to reach the log end of its leader",
            interval_s=0.02,
        )
        assert effect is not None
        return effect

    return probe


def _arrived(topic: str, partition: int, broker: int, took_s: float, *, late: bool) -> EffectProof:
    seen = {"partition": f"{topic}/{partition}", "broker": broker, "replicated_after_s": took_s}
    when = f"{took_s} s later" if late else f"within {took_s} s"
    return EffectProof(late, f"broker {broker} got the leader's records {when}", seen)
