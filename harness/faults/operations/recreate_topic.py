"""A topic is deleted and made anew under its name: what the old one held is gone, and is not seen in the new one."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from harness.faults.steps.effect import named, with_recent_acks
from harness.faults.steps.step import Action, Done, EffectProof, TopicRef
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.clock import now_ns
from harness.model.contract.contract import ALTER_TOPIC, RECREATE_TOPIC
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.scenario import Deadline, Topic
from harness.model.waiting import wait_for


@dataclass(frozen=True, kw_only=True)
class RecreateTopic(Action):
    """Deletes a topic under load and creates it at once under the same name, and waits for acks of the new one.

    Producers go on all the while. Readers let go of the topic before and begin the new one at its start: what they are
    given bears no topic id, and nobody could tell of which it was.
    """

    do: ClassVar[str] = RECREATE_TOPIC
    disturbs: ClassVar[bool] = True
    topic: TopicRef
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        scenario, name = plan.scenario, self.topic
        if grouped := [r.name for r in scenario.readers if r.group and name in r.topics]:
            raise BadInput(
                f"topic: {grouped[0]} reads {name} in a group, whose offsets go with the topic; leave it out"
            )
        writers = [p for p in scenario.producers if name in p.topics]
        if ended := [p.name for p in writers if p.transactions]:
            raise BadInput(
                f"topic: {ended[0]} writes to {name} in transactions, which no end could reach; leave it out"
            )
        if altered := [k.do for k in plan.earlier.values() if k.do == ALTER_TOPIC and getattr(k, "topic", "") == name]:
            raise BadInput(
                f"topic: an earlier {altered[0]} changed settings of {name}, which go with it; leave one out"
            )
        if not any(p.when == "always" for p in writers):
            raise BadInput(f"topic: nobody writes to {name} by himself, and nothing would show; name another")

    def perform(self, stage: Stage) -> Done:
        topic = next(t for t in stage.topics if t.name == self.topic)
        places = stage.places([f"{self.topic}/*"])
        before, busy = stage.states(places), with_recent_acks(stage, places)
        old = next(iter(before.values())).topic_id
        stage.load.stop_reading(self.topic, self.deadline_s)
        deleted_ns, started = now_ns(), time.monotonic()
        # Before it is asked for: who dies in between leaves word of it.
        stage.record_event("topic_deleted", topic=self.topic, topic_id=old, at_ns=deleted_ns)
        new = self._recreate(stage, topic, old)
        created_ns = now_ns()
        seen: dict[str, Any] = {"topic_id": [old, new], "busy": sorted(f"{t}/{p}" for t, p in busy)}

        def silent() -> list[str]:
            return [f"{t}/{p}" for t, p in places if (stage.load.last_ack_ns(t, p) or 0) <= created_ns]

        try:
            wait_for(
                silent, until=lambda left: not left, deadline_s=self.deadline_s, what=f"acks of the new {self.topic}"
            )
        except HarnessTimeout as late:
            return Done(resolved=seen, effect=EffectProof(False, str(late), seen))
        if not busy:
            return Done(
                resolved=seen,
                effect=EffectProof(False, f"no partition of {self.topic} had acks in the last second", seen),
            )
        seen["waited_s"] = round(time.monotonic() - started, 3)
        because = f"{named(busy)} had acks until the topic was deleted, and the new one has some on every partition"
        return Done(
            resolved=seen, effect=EffectProof(old != new, because if old != new else "the topic id is the same", seen)
        )

    def _recreate(self, stage: Stage, topic: Topic, old: str) -> str:
        """Its new topic id, by which the load goes from now on, also where not every broker has the new one in time."""
        try:
            new = stage.admin.recreate_topic(_as_it_is(topic))
        except HarnessTimeout:
            reported = stage.admin.partitions_by_broker([self.topic]).values()
            for new in {state.topic_id for seen in reported for state in seen.partitions.values()} - {old, ""}:
                stage.load.recreated(self.topic, new)
            raise
        stage.load.recreated(self.topic, new)
        return new


def _as_it_is(topic: Topic) -> Topic:
    """With as many partitions as it has come to have; the brokers are chosen anew when nobody named them for all."""
    return topic if len(topic.assignment) in (0, topic.partitions) else replace(topic, assignment=())
