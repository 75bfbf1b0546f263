"""More partitions for a topic in use: new records of a key may go to another partition, old records stay."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import named
from harness.faults.steps.step import Action, Done, EffectProof, TopicRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.clock import now_ns
from harness.model.documents.steps import PartitionsAdded
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.facts import FactKind
from harness.model.scenario.scenario import PARTITIONS_MAX, Deadline, Range
from harness.model.waiting import wait_for


@dataclass(frozen=True, kw_only=True)
class CreatePartitions(Action):
    """From then on "all partitions" of the load and of later steps includes the new ones."""

    do: ClassVar[str] = "create_partitions"
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"total": (2, 3, 4, 5)}
    facts: ClassVar[Declares] = (Declared(FactKind.PARTITIONS_ADDED),)
    summary: ClassVar[str] = "Adds partitions to a topic, up to `total` in all, and waits until each new one has acks."
    proof: ClassVar[str] = "records were acknowledged on each new partition"
    disturbs: ClassVar[bool] = True
    topic: TopicRef
    total: Annotated[int, Range(2, PARTITIONS_MAX)]
    deadline_s: Deadline = 30.0

    def declared(self) -> Declares:
        return (Declared(FactKind.PARTITIONS_ADDED, topic=self.topic),)

    def validate(self, plan: StepValidation) -> None:
        have = plan.topic(self.topic).partitions
        if self.total <= have:
            raise BadInput(
                f"total: {self.topic} already has {have} partitions, and their number can only grow; set {have + 1}"
            )
        if not any(self.topic in p.topics and p.when == "always" for p in plan.scenario.producers):
            raise BadInput(
                f'topic: no producer with when = "always" writes to {self.topic}, so nothing would prove an effect; '
                "name another topic"
            )

    def perform(self, context: StepContext) -> Done:
        before = next(t for t in context.topics if t.name == self.topic)
        new = [(self.topic, p) for p in range(before.partitions, self.total)]
        since_ns, started = now_ns(), time.monotonic()
        context.admin.create_partitions(self.topic, self.total)
        # From here on "all partitions" includes these, for the load, waits, floors and the drain.
        context.topics = tuple(replace(t, partitions=self.total) if t.name == self.topic else t for t in context.topics)
        context.load.grow(self.topic, self.total)
        context.record_event(
            PartitionsAdded(topic=self.topic, partition=new[0][1], partitions=self.total, at_ns=now_ns())
        )

        def acks() -> dict[str, int]:
            return {f"{t}/{p}": context.load.produced_acks(t, p, since_ns) for t, p in new}

        try:
            seen = wait_for(
                acks,
                until=lambda counts: all(counts.values()),
                deadline_s=self.deadline_s,
                what=f"acks on {named(new)}",
            )
        except HarnessTimeout as late:
            return Done(resolved={"partitions": self.total}, effect=EffectProof(False, str(late), acks()))
        waited_s = round(time.monotonic() - started, 3)
        because = f"{named(new)} were added to the topic and had acks within {waited_s} s"
        return Done(resolved={"partitions": self.total, "waited_s": waited_s}, effect=EffectProof(True, because, seen))
