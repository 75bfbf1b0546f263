"""Settings that change all the time, so that other steps happen while brokers apply them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Final

from harness.faults.operations.alter_topic import TOPIC_SETTINGS
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe, named, with_recent_acks
from harness.faults.steps.repeat import TIMES_MIN, Repeat
from harness.faults.steps.step import BrokersExpr, EffectProof, Fault, Injection, TopicRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.tier_off import refuse_tier_switch
from harness.model.contract.contract import ALTER_TOPIC, check_config, promised
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.scenario.scenario import Scenario

Settings = Mapping[str, str | None]

# Settings of brokers that generated scenarios change. None of them changes what Kafka promises.
_OF_BROKERS: Final = (
    {"compression.type": "zstd"},
    {"compression.type": "gzip"},
    {"num.replica.fetchers": "3"},
    {"num.io.threads": "6"},
    {"log.cleaner.threads": "2"},
)


@dataclass(frozen=True, kw_only=True)
class Reconfigure(Fault):
    """Dynamic settings of brokers are those of KIP-226, incremental changes those of KIP-339."""

    do: ClassVar[str] = "reconfigure"
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"config": (*TOPIC_SETTINGS, *_OF_BROKERS)}
    facts: ClassVar[Declares] = (Declared(FactKind.CONFIG_TOGGLED),)
    summary: ClassVar[str] = "Sets `config` of a topic or of brokers and reverts it, in turn, until it is healed."
    proof: ClassVar[str] = (
        "every broker showed the new settings and the old ones at least twice, while records were acknowledged"
    )
    topic: TopicRef = ""
    node: BrokersExpr = ""
    config: dict[str, str] = field(default_factory=dict)

    @classmethod
    def drawn_in(cls, scenario: Scenario, chosen: Mapping[str, object]) -> Mapping[str, tuple[object, ...]]:  # noqa: ARG003
        if chosen.get("topic"):
            return {"node": ("",), "config": TOPIC_SETTINGS}
        return {"config": _OF_BROKERS}

    def victims(self) -> str:
        """No node is broken."""
        return ""

    def shared(self) -> str:
        return "settings of brokers" if self.node else ""

    def declared(self) -> Declares:
        return (Declared(FactKind.CONFIG_TOGGLED, topic=self.topic, config=self.config),)

    def validate(self, plan: StepValidation) -> None:  # noqa: ARG002 - the interface of kinds
        if bool(self.topic) == bool(self.node):
            raise BadInput("give either `topic` or `node`: the topic or the brokers with the settings to change")
        if not self.config:
            raise BadInput('config: names no setting; write for example config = { "segment.bytes" = 1048576 }')
        check_config(self.config, "config")
        refuse_tier_switch(self.config)
        if kept := [key for key in self.config if promised(key)]:
            raise BadInput(
                f"config: {kept[0]} changes what Kafka promises; change it once, by {ALTER_TOPIC}, so that the time is "
                "known"
            )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        apply, before = self._setter(context), self._before(context)

        @contextmanager
        def changed() -> Iterator[None]:
            apply(self.config)
            yield
            apply(before)

        changes = Repeat(changed, "the settings changed and were reverted")
        places = [p for p in context.places(()) if self.topic in ("", p[0])]
        try:
            with changes.running():
                yield Injection(resolved=self._resolved(context), probe=_under_load(context, changes, places))
        finally:
            apply(before)  # again: the last round may not have ended

    def _setter(self, context: StepContext) -> Callable[[Settings], None]:
        if self.topic:
            return lambda settings: context.admin.alter_topic_config(self.topic, settings)
        brokers = context.nodes(self.node)
        return lambda settings: context.admin.alter_broker_config(brokers, settings)

    def _before(self, context: StepContext) -> Settings:
        own = next((t.config for t in context.topics if t.name == self.topic), {})
        return {key: own.get(key) for key in self.config}

    def _resolved(self, context: StepContext) -> Mapping[str, object]:
        config = dict(self.config)
        if self.topic:
            return {"topic": self.topic, "config": config}
        return {"nodes": list(context.nodes(self.node)), "config": config}


def _under_load(context: StepContext, changes: Repeat, places: list[tuple[str, int]]) -> Probe:
    """Proof: every answering broker showed the new settings and the old ones again, while records were acknowledged."""

    def probe() -> EffectProof:
        busy, rounds = with_recent_acks(context, places), changes.times
        reported = f"{changes.what} {rounds} times"
        seen = {"rounds": rounds, "with_acks": sorted(f"{t}/{p}" for t, p in busy)}
        if rounds < TIMES_MIN:
            return EffectProof(False, f"{reported}, and {TIMES_MIN} are needed", seen)
        if not busy:
            return EffectProof(False, f"{reported}, and no partition had acks in the last second", seen)
        return EffectProof(True, f"{reported}, with acks on {named(busy)}", seen)

    return probe
