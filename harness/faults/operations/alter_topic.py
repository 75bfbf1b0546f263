"""A change of a topic's settings, which stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import ClassVar, Final

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Action, Done, TopicRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.tier_off import refuse_tier_switch
from harness.model.contract.contract import ALTER_TOPIC, TIMESTAMP_TYPE, check_config
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.scenario.rules import in_sync_at_least

# Settings that generated scenarios change, one or two at once. None of them changes what Kafka promises.
_SINGLE: Final = (
    {"compression.type": "zstd"},
    {"segment.bytes": "1048576"},
    {"segment.ms": "1000"},
    {"flush.messages": "1"},
    {"index.interval.bytes": "100"},
)
TOPIC_SETTINGS: Final = (*_SINGLE, *(one | other for one, other in combinations(_SINGLE, 2)))


@dataclass(frozen=True, kw_only=True)
class AlterTopic(Action):
    """A lasting change of a topic's settings.

    removed: removes the settings, so that those of the brokers apply, which are `config`.
    """

    do: ClassVar[str] = ALTER_TOPIC
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"config": TOPIC_SETTINGS}
    facts: ClassVar[Declares] = (Declared(FactKind.CONFIG_SET),)
    summary: ClassVar[str] = "Changes settings of a topic while clients use it."
    internal: ClassVar[bool] = True
    needs_every_node: ClassVar[bool] = False
    topic: TopicRef
    config: dict[str, str] = field(default_factory=dict)
    removed: bool = False

    def declared(self) -> Declares:
        return (Declared(FactKind.CONFIG_SET, topic=self.topic, config=self.config),)

    def validate(self, plan: StepValidation) -> None:
        if not self.config:
            raise BadInput('config: names no setting; write for example config = { "retention.ms" = 1000 }')
        check_config(self.config, "config")
        refuse_tier_switch(self.config)
        if TIMESTAMP_TYPE in self.config:
            raise BadInput(
                f"config: the verifier judges {TIMESTAMP_TYPE} as the topic declares it; declare a topic of each type"
            )
        in_sync_at_least(self.config, plan.topic(self.topic).replicas, "replicas", "config")

    def perform(self, context: StepContext) -> Done:
        values = dict.fromkeys(self.config) if self.removed else self.config
        context.admin.alter_topic_config(self.topic, values)
        return Done(resolved={"topic": self.topic, "config": dict(values)})
