"""Settings that change all the while, so that other steps meet brokers that are taking them up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from harness.faults.steps.effect import Probe, named, with_recent_acks
from harness.faults.steps.repeat import TIMES_MIN, Again
from harness.faults.steps.step import BrokersExpr, EffectProof, Fault, Injection, TopicRef
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.tier_off import not_switched
from harness.model.contract.contract import ALTER_TOPIC, check_config, promised
from harness.model.errors import BadInput

Settings = Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class Reconfigure(Fault):
    """Sets `config` of a topic or of brokers and takes it back, again and again, until healed (KIP-226, KIP-339)."""

    do: ClassVar[str] = "reconfigure"
    topic: TopicRef = ""
    node: BrokersExpr = ""
    config: dict[str, str] = field(default_factory=dict)

    def victims(self) -> str:
        """Nobody is broken."""
        return ""

    def validate(self, plan: StepValidation) -> None:  # noqa: ARG002 - the interface of kinds
        """See `Kind`."""
        if bool(self.topic) == bool(self.node):
            raise BadInput("name either a topic or brokers (node) whose settings change")
        if not self.config:
            raise BadInput('config: names no setting; write for example config = { "segment.bytes" = 1048576 }')
        check_config(self.config, "config")
        not_switched(self.config)
        if kept := [key for key in self.config if promised(key)]:
            raise BadInput(
                f"config: a promise hangs on {kept[0]}; change it once, by {ALTER_TOPIC}, so that it is known when"
            )

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        apply, before = self._setter(stage), self._before(stage)

        @contextmanager
        def turned() -> Iterator[None]:
            apply(self.config)
            yield
            apply(before)

        turning = Again(turned, "the settings came and went")
        places = [p for p in stage.places(()) if self.topic in ("", p[0])]
        try:
            with turning.running():
                yield Injection(resolved=self._resolved(stage), probe=_under_load(stage, turning, places))
        finally:
            apply(before)  # once more: the last round may not have come to its end

    def _setter(self, stage: Stage) -> Callable[[Settings], None]:
        if self.topic:
            return lambda settings: stage.admin.alter_topic_config(self.topic, settings)
        brokers = stage.nodes(self.node)
        return lambda settings: stage.admin.alter_broker_config(brokers, settings)

    def _before(self, stage: Stage) -> Settings:
        own = next((t.config for t in stage.topics if t.name == self.topic), {})
        return {key: own.get(key) for key in self.config}

    def _resolved(self, stage: Stage) -> dict[str, Any]:
        of = {"topic": self.topic} if self.topic else {"nodes": list(stage.nodes(self.node))}
        return {**of, "config": dict(self.config)}


def _under_load(stage: Stage, turning: Again, places: list[tuple[str, int]]) -> Probe:
    """Every broker that answers has shown the new settings and the old ones again, while records were acknowledged."""

    def probe() -> EffectProof:
        busy, rounds = with_recent_acks(stage, places), turning.times
        reported = f"{turning.what} {rounds} times"
        seen = {"rounds": rounds, "with_acks": sorted(f"{t}/{p}" for t, p in busy)}
        if rounds < TIMES_MIN:
            return EffectProof(False, f"{reported}, {TIMES_MIN} wanted", seen)
        if not busy:
            return EffectProof(False, f"{reported}, and no partition had acks meanwhile", seen)
        return EffectProof(True, f"{reported}, with acks on {named(busy)}", seen)

    return probe
