"""Changes that the controller is only asked to validate, as by tools that show what they would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.steps.declared_facts import NOTHING, Declares
from harness.faults.steps.step import Action, Done, TopicRef
from harness.faults.steps.step_context import StepContext
from harness.model.errors import HarnessFailure


@dataclass(frozen=True, kw_only=True)
class ValidateOnly(Action):
    """A new topic, one more partition, a setting, and a lower level of a feature."""

    do: ClassVar[str] = "validate_only"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = "Asks the controller whether it would make changes (validate_only); it makes none of them."
    topic: TopicRef

    def perform(self, context: StepContext) -> Done:
        partitions = next(topic.partitions for topic in context.topics if topic.name == self.topic)
        answers = context.admin.validate_only(self.topic, partitions)
        if all(answers.values()):
            raise HarnessFailure(f"Kafka refuses every change that it was asked to validate: {answers}")
        return Done(resolved={"answers": answers})
