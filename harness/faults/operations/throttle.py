"""Replication throttled by an operator, as tools do for a reassignment (KIP-73): who is in sync is never held back."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from harness.faults.steps.effect import Probe, named
from harness.faults.steps.step import EffectProof, Fault, Injection, PartitionsExpr, Place
from harness.faults.steps.step_context import Stage
from harness.model.scenario.scenario import Range

RATE = "{side}.replication.throttled.rate"
REPLICAS = "{side}.replication.throttled.replicas"
LOOK_S = 2.0  # a copy on one machine that nothing holds back has caught up by then
Side = Literal["leader", "follower"]


@dataclass(frozen=True, kw_only=True)
class Throttle(Fault):
    """Throttles replication of partitions to rate_kb_s a broker, on the `side` of leaders, of followers or both.

    As tools do for a reassignment it is the brokers without a copy that are throttled as followers; of = "all"
    throttles those with one as well, when they fall behind. A leader counts what it sends to replicas in sync, too: at
    less than what is produced a new replica gets nothing from it.
    """

    do: ClassVar[str] = "throttle"
    on: PartitionsExpr = ()
    rate_kb_s: Annotated[int, Range(1, 1_000_000)]
    side: Literal["both", "leader", "follower"] = "both"
    of: Literal["new", "all"] = "new"

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        places, brokers = stage.places(self.on), stage.cluster.brokers
        sides: list[Side] = ["leader", "follower"] if self.side == "both" else [self.side]
        rates = {RATE.format(side=side): str(self.rate_kb_s * 1024) for side in sides}
        holders = {place: state.replicas for place, state in stage.states(places).items()}
        with ExitStack() as healing:
            for topic, config in lists_of(holders, brokers, sides, everybody=self.of == "all").items():
                healing.callback(stage.admin.alter_topic_config, topic, dict.fromkeys(config))
                stage.admin.alter_topic_config(topic, config)
            healing.callback(stage.admin.alter_broker_config, brokers, dict.fromkeys(rates))
            stage.admin.alter_broker_config(brokers, rates)
            resolved = {"partitions": [f"{t}/{p}" for t, p in places], "settings": rates}
            yield Injection(resolved=resolved, probe=held_back(stage, places))


def lists_of(
    holders: Mapping[Place, Sequence[int]], brokers: Sequence[int], sides: Sequence[Side], *, everybody: bool
) -> dict[str, dict[str, str]]:
    """By topic and setting, "partition:broker" of every replica that is throttled."""
    of: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (topic, partition), holding in sorted(holders.items()):
        new = [broker for broker in brokers if broker not in holding]
        for side in sides:
            throttled = brokers if everybody else sorted(holding) if side == "leader" else new
            of[topic][REPLICAS.format(side=side)] += [f"{partition}:{broker}" for broker in throttled]
    return {topic: {key: ",".join(those) for key, those in lists.items()} for topic, lists in of.items()}


def held_back(stage: Stage, places: Sequence[Place]) -> Probe:
    """A copy that is out of sync and answers did not come nearer to its leader's log end for two seconds."""
    since: dict[tuple[str, int, int], tuple[float, int]] = {}

    def probe() -> EffectProof:
        lacking = _lacking(stage, places)
        now = time.monotonic()
        for copy in list(since):
            if lacking.get(copy, 0) < since[copy][1]:  # it came nearer, or is whole: it is looked at anew
                del since[copy]
        for copy, records in lacking.items():
            since.setdefault(copy, (now, records))
        held = {copy: first for copy, (at, first) in since.items() if now - at >= LOOK_S}
        seen = {f"{t}/{p} on {b}": {"lacked": first, "lacks": lacking[t, p, b]} for (t, p, b), first in held.items()}
        if held:
            return EffectProof(True, f"copies did not come nearer to their leaders for {LOOK_S:g} s", seen)
        if lacking:
            return EffectProof(
                False, f"copies of {named({copy[:2] for copy in lacking})} still come nearer to their leaders"
            )
        return EffectProof(
            False, f"no replica of {named(places)} was behind while out of sync, and no other is throttled"
        )

    return probe


def _lacking(stage: Stage, places: Sequence[Place]) -> dict[tuple[str, int, int], int]:
    """How many records each copy lacks that is out of sync and answers; only those that lack any."""
    states = stage.states(places)
    ends = {key: end for key, (_, end) in stage.admin.replica_offsets(sorted({t for t, _ in places})).items()}
    lacking = {
        (*place, broker): ends[*place, state.leader] - ends[*place, broker]
        for place, state in states.items()
        for broker in set(state.replicas) - set(state.isr)
        if (*place, broker) in ends and (*place, state.leader) in ends
    }
    return {copy: records for copy, records in lacking.items() if records > 0}
