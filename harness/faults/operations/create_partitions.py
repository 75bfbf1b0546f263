"""A topic grows while it is written to and read: keys move to other partitions, records stay where they are."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from harness.faults.steps.effect import named
from harness.faults.steps.step import Action, Done, EffectProof, TopicRef
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.clock import now_ns
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.scenario import PARTITIONS_MAX, Deadline, Range
from harness.model.waiting import wait_for


@dataclass(frozen=True, kw_only=True)
class CreatePartitions(Action):
    """Gives a topic more partitions, `total` in all, and waits until each of the new ones has acks."""

    do: ClassVar[str] = "create_partitions"
    disturbs: ClassVar[bool] = True
    topic: TopicRef
    total: Annotated[int, Range(2, PARTITIONS_MAX)]
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        have = plan.topic(self.topic).partitions
        if self.total <= have:
            raise BadInput(
                f"total: {self.topic} has {have} partitions by then, and only more can be given; say {have + 1}"
            )
        if not any(self.topic in p.topics and p.when == "always" for p in plan.scenario.producers):
            raise BadInput(f"topic: nobody writes to {self.topic} by himself, and nothing would show; name another")

    def perform(self, stage: Stage) -> Done:
        before = next(t for t in stage.topics if t.name == self.topic)
        new = [(self.topic, p) for p in range(before.partitions, self.total)]
        since_ns, started = now_ns(), time.monotonic()
        stage.admin.create_partitions(self.topic, self.total)
        # From here on whatever is meant by "all partitions" means these, too: load, waits, floors, drain.
        stage.topics = tuple(replace(t, partitions=self.total) if t.name == self.topic else t for t in stage.topics)
        stage.load.grow(self.topic, self.total)
        stage.record_event("partitions_added", topic=self.topic, partition=new[0][1], partitions=self.total)

        def acks() -> dict[str, int]:
            return {f"{t}/{p}": stage.load.produced_acks(t, p, since_ns) for t, p in new}

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
        because = f"{named(new)} came to the topic and had acks within {waited_s} s"
        return Done(resolved={"partitions": self.total, "waited_s": waited_s}, effect=EffectProof(True, because, seen))
