"""A topic that is deleted and created again under its name: the new topic must have no record of the old one."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import named, with_recent_acks
from harness.faults.steps.step import Action, Done, EffectProof, TopicRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.clock import now_ns
from harness.model.contract.contract import ALTER_TOPIC, RECREATE_TOPIC
from harness.model.documents.steps import TopicDeleted
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.facts import FactKind
from harness.model.scenario.scenario import Deadline, Topic
from harness.model.waiting import wait_for


@dataclass(frozen=True, kw_only=True)
class RecreateTopic(Action):
    """Producers send all the time. Readers stop reading the topic before, and read the new one from its start: records
    that a consumer receives have no topic id, so the two topics could not be distinguished.
    """

    do: ClassVar[str] = RECREATE_TOPIC
    facts: ClassVar[Declares] = (Declared(FactKind.TOPIC_DELETED),)
    summary: ClassVar[str] = (
        "Deletes a topic under load, creates it at once under the same name, and waits for acks of the new topic."
    )
    proof: ClassVar[str] = (
        "partitions of the old topic had acks until the deletion, and the new one, with another topic id, has acks on "
        "each partition"
    )
    disturbs: ClassVar[bool] = True
    topic: TopicRef
    deadline_s: Deadline = 30.0

    def declared(self) -> Declares:
        return (Declared(FactKind.TOPIC_DELETED, topic=self.topic),)

    def validate(self, plan: StepValidation) -> None:
        scenario, name = plan.scenario, self.topic
        members = [r.name for r in scenario.readers if r.group and name in r.topics]
        members += [p.name for p in scenario.producers if p.processes and name in p.processes.reads]
        if members:
            raise BadInput(
                f"topic: {members[0]} reads {name} in a group that loses its offsets with the topic; "
                f"remove {name} from the topics of {members[0]}"
            )
        writers = [p for p in scenario.producers if name in p.topics]
        if ended := [p.name for p in writers if p.transactions]:
            raise BadInput(
                f"topic: {ended[0]} writes to {name} in transactions, which could not end on the deleted topic; "
                f"remove {name} from the topics of {ended[0]}"
            )
        if altered := [k.do for k in plan.earlier.values() if k.do == ALTER_TOPIC and getattr(k, "topic", "") == name]:
            raise BadInput(
                f"topic: an earlier {altered[0]} changed settings of {name}, which are deleted with it; "
                "remove one of the two steps"
            )
        if not any(p.when == "always" for p in writers):
            raise BadInput(
                f'topic: no producer with when = "always" writes to {name}, so nothing would prove an effect; '
                "name another topic"
            )

    def perform(self, context: StepContext) -> Done:
        topic = next(t for t in context.topics if t.name == self.topic)
        places = context.places([f"{self.topic}/*"])
        before, busy = context.states(places), with_recent_acks(context, places)
        old = next(iter(before.values())).topic_id
        context.load.stop_reading(self.topic, self.deadline_s)
        deleted_ns, started = now_ns(), time.monotonic()
        # Recorded before the request, so that a crash of the harness in between leaves evidence of the deletion.
        context.record_event(TopicDeleted(topic=self.topic, topic_id=old, at_ns=deleted_ns))
        new = self._recreate(context, topic, old)
        created_ns = now_ns()
        seen: dict[str, object] = {"topic_id": [old, new], "busy": sorted(f"{t}/{p}" for t, p in busy)}

        def silent() -> list[str]:
            return [f"{t}/{p}" for t, p in places if (context.load.last_ack_ns(t, p) or 0) <= created_ns]

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
        because = f"{named(busy)} had acks until the topic was deleted, and the new topic has acks on each partition"
        return Done(
            resolved=seen, effect=EffectProof(old != new, because if old != new else "the topic id is the same", seen)
        )

    def _recreate(self, context: StepContext, topic: Topic, old: str) -> str:
        """Recreates the topic and gives the load its new id, also when not every broker has the topic in time."""
        try:
            new = context.admin.recreate_topic(_as_it_is(topic))
        except HarnessTimeout:
            reported = context.admin.partitions_by_broker([self.topic]).values()
            for new in {state.topic_id for seen in reported for state in seen.partitions.values()} - {old, ""}:
                context.load.recreated(self.topic, new)
            raise
        context.load.recreated(self.topic, new)
        return new


def _as_it_is(topic: Topic) -> Topic:
    """The topic with its present number of partitions; without an assignment that does not cover all of them."""
    return topic if len(topic.assignment) in (0, topic.partitions) else replace(topic, assignment=())
