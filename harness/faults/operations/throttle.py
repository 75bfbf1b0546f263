"""Throttled replication, as reassignment tools set it (KIP-73). An in-sync follower is never throttled."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe, named
from harness.faults.steps.step import EffectProof, Fault, Injection, PartitionsExpr
from harness.faults.steps.step_context import StepContext
from harness.model.facts import FactKind
from harness.model.place import Place
from harness.model.scenario.scenario import Range

RATE = "{side}.replication.throttled.rate"
REPLICAS = "{side}.replication.throttled.replicas"
LOOK_S = 2.0  # on one machine a replica that is not throttled has caught up by then
Side = Literal["leader", "follower"]


@dataclass(frozen=True, kw_only=True)
class Throttle(Fault):
    """As reassignment tools do, it throttles the brokers without a replica as followers; of = "all" throttles those
    with one as well, when they fall behind. A leader also counts what it sends to in-sync replicas: at a rate below
    that of the producers, a new replica gets nothing from it.
    """

    do: ClassVar[str] = "throttle"
    by_hand: ClassVar[str] = "it needs a replica that is out of sync when it begins"
    facts: ClassVar[Declares] = (Declared(FactKind.REPLICATION_THROTTLED),)
    summary: ClassVar[str] = (
        "Throttles replication of partitions to rate_kb_s a broker, on the `side` of leaders, of followers or both."
    )
    proof: ClassVar[str] = "an out-of-sync replica did not get nearer to its leader's log end offset for 2 s"
    on: PartitionsExpr = ()
    rate_kb_s: Annotated[int, Range(1, 1_000_000)]
    side: Literal["both", "leader", "follower"] = "both"
    of: Literal["new", "all"] = "new"

    def shared(self) -> str:
        return "the throttles of brokers"

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        places, brokers = context.places(self.on), context.cluster.brokers
        sides: list[Side] = ["leader", "follower"] if self.side == "both" else [self.side]
        rates = {RATE.format(side=side): str(self.rate_kb_s * 1024) for side in sides}
        holders = {place: state.replicas for place, state in context.states(places).items()}
        with ExitStack() as healing:
            for topic, config in lists_of(holders, brokers, sides, everybody=self.of == "all").items():
                healing.callback(context.admin.alter_topic_config, topic, dict.fromkeys(config))
                context.admin.alter_topic_config(topic, config)
            healing.callback(context.admin.alter_broker_config, brokers, dict.fromkeys(rates))
            context.admin.alter_broker_config(brokers, rates)
            resolved = {"partitions": [f"{t}/{p}" for t, p in places], "settings": rates}
            yield Injection(resolved=resolved, probe=held_back(context, places))


def lists_of(
    holders: Mapping[Place, Sequence[int]], brokers: Sequence[int], sides: Sequence[Side], *, everybody: bool
) -> dict[str, dict[str, str]]:
    """By topic and setting: the list "partition:broker,..." of throttled replicas."""
    of: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (topic, partition), holding in sorted(holders.items()):
        new = [broker for broker in brokers if broker not in holding]
        for side in sides:
            throttled = brokers if everybody else sorted(holding) if side == "leader" else new
            of[topic][REPLICAS.format(side=side)] += [f"{partition}:{broker}" for broker in throttled]
    return {topic: {key: ",".join(those) for key, those in lists.items()} for topic, lists in of.items()}


def held_back(context: StepContext, places: Sequence[Place]) -> Probe:
    """Proof: an out-of-sync replica that answers did not get nearer to its leader's log end offset for 2 s."""
    since: dict[tuple[str, int, int], tuple[float, int]] = {}

    def probe() -> EffectProof:
        lacking = _lacking(context, places)
        now = time.monotonic()
        for copy in list(since):
            if lacking.get(copy, 0) < since[copy][1]:  # it got nearer, or has caught up: the time starts again
                del since[copy]
        for copy, records in lacking.items():
            since.setdefault(copy, (now, records))
        held = {copy: first for copy, (at, first) in since.items() if now - at >= LOOK_S}
        seen = {f"{t}/{p} on {b}": {"lacked": first, "lacks": lacking[t, p, b]} for (t, p, b), first in held.items()}
        if held:
            return EffectProof(True, f"replicas did not get nearer to their leaders for {LOOK_S:g} s", seen)
        if lacking:
            behind = named({copy[:2] for copy in lacking})
            return EffectProof(False, f"replicas of {behind} still get nearer to their leaders")
        because = f"no replica of {named(places)} was out of sync and behind, and only such replicas are throttled"
        return EffectProof(False, because)

    return probe


def _lacking(context: StepContext, places: Sequence[Place]) -> dict[tuple[str, int, int], int]:
    """The number of records that each out-of-sync replica lacks, where it answers and lacks any."""
    states = context.states(places)
    ends = {key: end for key, (_, end) in context.admin.replica_offsets(sorted({t for t, _ in places})).items()}
    lacking = {
        (*place, broker): ends[*place, state.leader] - ends[*place, broker]
        for place, state in states.items()
        for broker in set(state.replicas) - set(state.isr)
        if (*place, broker) in ends and (*place, state.leader) in ends
    }
    return {copy: records for copy, records in lacking.items() if records > 0}
