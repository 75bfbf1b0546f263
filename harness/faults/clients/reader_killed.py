"""A member of a consumer group whose process ends suddenly, so that its coordinator has to notice it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.clients.groups import BACK_DEADLINE_S, LEAVE_DEADLINE_S
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import named, texts
from harness.faults.steps.load import Member
from harness.faults.steps.step import EffectProof, Fault, Injection, ReaderRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.clock import now_ns
from harness.model.documents.steps import MemberDied
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.place import Place
from harness.model.scenario.scenario import JAVA
from harness.model.waiting import wait_for

# Longer than the session of a member with either protocol, and the loading of its coordinator.
SEEN_DEADLINE_S: Final = 75.0


@dataclass(frozen=True, kw_only=True)
class ReaderKilled(Fault):
    """It neither commits nor leaves its group: the coordinator gives its partitions away once its session is over."""

    do: ClassVar[str] = "reader_killed"
    facts: ClassVar[Declares] = (Declared(FactKind.CLIENT_DIED),)
    summary: ClassVar[str] = (
        "Kills the process of a member that uses the release's own client; healing starts another one in its place."
    )
    proof: ClassVar[str] = "the other members of its group got the partitions that it had"
    reader: ReaderRef

    def declared(self) -> Declares:
        return (Declared(FactKind.CLIENT_DIED, client=self.reader),)

    def validate(self, plan: StepValidation) -> None:
        spec = plan.reader(self.reader)
        if spec.group is None or spec.shares or spec.client != JAVA:
            raise BadInput(
                f"reader: {self.reader} has no process of its own in a consumer group; name a reader with "
                'client = "java" and a group that is no share group'
            )
        others = [r for r in plan.scenario.readers if r.group == spec.group and r.name != spec.name]
        if not all(any(topic in other.topics for other in others) for topic in spec.topics):
            raise BadInput(
                f"reader: nobody in group {spec.group} could take over the partitions of {self.reader}; add a reader "
                "with that group and the same topics"
            )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        members = context.load.other_members(self.reader)
        me, others = members[self.reader], [member for name, member in members.items() if name != self.reader]
        wait_for(
            lambda: sorted(me.places),
            until=bool,
            deadline_s=LEAVE_DEADLINE_S,
            what=f"{self.reader} to have partitions",
        )
        had = me.places
        absence = me.vanish()

        def probe() -> EffectProof:
            have = frozenset[tuple[str, int]]().union(*(member.places for member in others))
            lacking = had - have
            seen = {"had": texts(had), "nobody_has": texts(lacking)}
            if lacking:
                return EffectProof(False, f"nobody has {named(lacking)} of {self.reader}", seen)
            return EffectProof(True, f"the other members got the partitions of {self.reader}", seen)

        try:
            wait_for(
                lambda: absence.left_ns,
                until=lambda at_ns: at_ns is not None,
                deadline_s=LEAVE_DEADLINE_S,
                what=f"the process of {self.reader} to end",
            )
            yield Injection(resolved={"reader": self.reader}, probe=probe, deadline_s=SEEN_DEADLINE_S)
        finally:
            if absence.left_ns is not None:
                context.record_event(_died(me, others, had, absence.left_ns))
            absence.over.set()
        wait_for(
            lambda: sorted(name for name, member in members.items() if not member.settled),
            until=lambda idle: not idle,
            deadline_s=BACK_DEADLINE_S,
            what="each member of the group to have partitions again",
        )


def _died(me: Member, others: Sequence[Member], had: Collection[Place], at_ns: int) -> MemberDied:
    """The event of its death: whether others have all of its partitions now, and since when."""
    taken = {place: other.got_ns[place] for other in others for place in other.places & frozenset(had)}
    return MemberDied(
        group=me.spec.group or "",
        member=me.spec.name,
        at_ns=at_ns,
        taken_ns=max(taken.values()) if taken.keys() == set(had) else None,
        until_ns=now_ns(),
        session_ms=me.session_ms,
    )
