"""Consumer groups with members that leave or pause for a while; groups without members that are deleted or expire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.steps.declared_facts import NOTHING, Declared, Declares
from harness.faults.steps.step import Action, Done, EffectProof, Fault, GroupRef, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.clock import now_ns
from harness.model.contract.contract import DELETE_GROUP, READER_AWAY
from harness.model.documents.steps import AskedFromOutside, GroupAway, GroupDeleted
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.facts import FactKind
from harness.model.outcome import Outcome
from harness.model.scenario.scenario import JAVA, Deadline
from harness.model.waiting import wait_for

LEAVE_DEADLINE_S: Final = 30.0
BACK_DEADLINE_S: Final = 60.0
# The states of a group without members; "" when the coordinator no longer knows the group.
_NOBODY: Final = ("Empty", "Dead", "")


def _require_readers(plan: StepValidation, group: str) -> None:
    """BadInput for a group without a reader, or one that commits no offsets."""
    if not any(reader.group == group for reader in plan.scenario.readers):
        raise BadInput(f"group: no reader is in {group}; name the group of a reader")
    if group in plan.scenario.share_groups:
        raise BadInput(f"group: {group} is a share group, which commits no offsets; name a consumer group")


def _require_away(plan: StepValidation, group: str) -> None:
    """BadInput if no earlier step makes the members of the group leave."""
    if not any(isinstance(kind, ReaderAway) and kind.group == group for kind in plan.earlier.values()):
        raise BadInput(
            f'group: {group} has members; add a step before this one: {{ do = "reader_away", group = "{group}" }}'
        )


@dataclass(frozen=True, kw_only=True)
class ReaderAway(Fault):
    """The step is done when all have left. An event `group_away` records when they had to leave, when they had left,
    and when they were allowed to return.
    """

    do: ClassVar[str] = READER_AWAY
    facts: ClassVar[Declares] = (Declared(FactKind.CLIENT_AWAY),)
    summary: ClassVar[str] = (
        "Makes every member of a group commit, leave, and stay away until it is healed, like stopped applications."
    )
    proof: ClassVar[str] = "every member left, and the group's coordinator reports a group without members"
    group: GroupRef

    def declared(self) -> Declares:
        return (Declared(FactKind.CLIENT_AWAY, client=self.group),)

    def validate(self, plan: StepValidation) -> None:
        _require_readers(plan, self.group)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        members, from_ns = context.load.members(self.group), now_ns()
        absences = {name: member.leave() for name, member in members.items()}

        def probe() -> EffectProof:
            reported = context.admin.group_state(context.group_id(self.group))
            seen = {"members": sorted(members), "state": reported}
            if reported not in _NOBODY:
                return EffectProof(False, f"the coordinator reports that group {self.group} is {reported}", seen)
            return EffectProof(True, f"{', '.join(sorted(members))} left, and group {self.group} has no members", seen)

        try:
            wait_for(
                lambda: sorted(name for name, absence in absences.items() if absence.left_ns is None),
                until=lambda left: not left,
                deadline_s=LEAVE_DEADLINE_S,
                what=f"every member of group {self.group} to leave",
            )
            yield Injection(resolved={"members": sorted(members)}, probe=probe)
        finally:
            back_ns = now_ns()
            for absence in absences.values():
                absence.over.set()
            left = [absence.left_ns for absence in absences.values()]
            if None not in left:
                left_ns = max(at for at in left if at is not None)
                context.record_event(
                    GroupAway(group=self.group, from_ns=from_ns, left_ns=left_ns, to_ns=back_ns, at_ns=now_ns())
                )
        wait_for(
            lambda: sorted(name for name, member in members.items() if not member.settled),
            until=lambda idle: len(idle) < len(members),
            deadline_s=BACK_DEADLINE_S,
            what=f"group {self.group} to have partitions again",
        )


@dataclass(frozen=True, kw_only=True)
class ReaderPaused(Fault):
    """A member keeps polling, and receives nothing. It resumes where it stopped, without a rebalance."""

    do: ClassVar[str] = "reader_paused"
    facts: ClassVar[Declares] = (Declared(FactKind.CLIENT_AWAY),)
    summary: ClassVar[str] = (
        "Makes every member of a group commit and pause its partitions; healing resumes them where they stopped."
    )
    proof: ClassVar[str] = "every member paused, and none had to join its group again"
    group: GroupRef

    def declared(self) -> Declares:
        return (Declared(FactKind.CLIENT_AWAY, client=self.group),)

    def validate(self, plan: StepValidation) -> None:
        _require_readers(plan, self.group)
        if own := [r.name for r in plan.scenario.readers if r.group == self.group and r.client == JAVA]:
            raise BadInput(
                f"group: {own[0]} uses the release's own client, which cannot be paused; leave out its client"
            )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        members = context.load.members(self.group)
        rebalances = {name: member.rebalances for name, member in members.items()}
        pauses = {name: member.pause() for name, member in members.items()}

        def probe() -> EffectProof:
            reported = context.admin.group_state(context.group_id(self.group))
            seen = {"members": sorted(members), "state": reported}
            moved = sorted(name for name, member in members.items() if member.rebalances != rebalances[name])
            if moved or reported in _NOBODY:
                rejoined = f"{', '.join(moved)} had to join again"
                changed = rejoined if moved else f"group {self.group} is {reported or 'unknown'}"
                return EffectProof(False, f"the group changed: {changed}", seen)
            return EffectProof(True, f"{', '.join(sorted(members))} paused, and stayed in group {self.group}", seen)

        try:
            wait_for(
                lambda: sorted(name for name, pause in pauses.items() if pause.paused_ns is None),
                until=lambda reading: not reading,
                deadline_s=LEAVE_DEADLINE_S,
                what=f"every member of group {self.group} to pause",
            )
            yield Injection(resolved={"members": sorted(members)}, probe=probe)
        finally:
            for pause in pauses.values():
                pause.over.set()
        wait_for(
            lambda: sorted(n for n, member in members.items() if not (pauses[n].resumed and member.settled)),
            until=lambda waiting: not waiting,
            deadline_s=BACK_DEADLINE_S,
            what=f"group {self.group} to read again",
        )


@dataclass(frozen=True, kw_only=True)
class DeleteGroup(Action):
    """The group must have no members. An event `group_deleted` records the outcome."""

    do: ClassVar[str] = DELETE_GROUP
    facts: ClassVar[Declares] = (Declared(FactKind.GROUP_DELETED),)
    summary: ClassVar[str] = "Deletes a group without members, and with it all offsets that it committed (KIP-229)."
    group: GroupRef

    def declared(self) -> Declares:
        return (Declared(FactKind.GROUP_DELETED, client=self.group),)

    def validate(self, plan: StepValidation) -> None:
        _require_away(plan, self.group)

    def perform(self, context: StepContext) -> Done:
        asked_ns, outcome = now_ns(), Outcome.ACKED
        try:
            context.admin.delete_group(context.group_id(self.group))
        except HarnessTimeout:
            outcome = Outcome.UNKNOWN
            raise
        finally:
            context.record_event(
                GroupDeleted(group=self.group, outcome=outcome.value, asked_ns=asked_ns, at_ns=now_ns())
            )
        return Done(resolved={"group": self.group})


@dataclass(frozen=True, kw_only=True)
class AskFromOutside(Action):
    """An event `asked_from_outside` records each answer. The offset is the committed one, so that no harm is done.

    deletes: asks for the deletion of the offset, too, which harms the group if it is accepted (KIP-496).
    """

    do: ClassVar[str] = "ask_from_outside"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = "Commits an offset for a group with members without being one of them, which is refused."
    by_hand: ClassVar[str] = "members of its group must have committed, and stay"
    group: GroupRef
    deletes: bool = False

    def validate(self, plan: StepValidation) -> None:
        _require_readers(plan, self.group)

    def perform(self, context: StepContext) -> Done:
        group, admin = context.group_id(self.group), context.admin
        committed = wait_for(
            lambda: admin.group_offsets(group),
            until=bool,
            deadline_s=BACK_DEADLINE_S,
            what=f"a committed offset of group {self.group}",
        )
        place, offset = next(iter(sorted(committed.items())))
        self._ask(context, "OffsetCommit", lambda: admin.commit_from_outside(group, place, offset))
        if self.deletes:
            self._ask(context, "OffsetDelete", lambda: admin.delete_offset(group, place))
        return Done(resolved={"group": self.group, "place": f"{place[0]}/{place[1]}", "offset": offset})

    def _ask(self, context: StepContext, api: str, ask: Callable[[], str | None]) -> None:
        before = self._members(context)
        asked_ns = now_ns()
        error = ask()
        at_ns = now_ns()
        members = before & self._members(context)
        context.record_event(
            AskedFromOutside(
                group=self.group, api=api, members=tuple(sorted(members)), error=error, asked_ns=asked_ns, at_ns=at_ns
            )
        )

    def _members(self, context: StepContext) -> frozenset[str]:
        """Client ids of the members, as their coordinator knows them."""
        return frozenset(member.client for member in context.admin.group_members(context.group_id(self.group)).members)


@dataclass(frozen=True, kw_only=True)
class WaitOffsetsExpired(Action):
    """Committed offsets of a group without members that have expired (offsets.retention.minutes, KIP-211)."""

    do: ClassVar[str] = "wait_offsets_expired"
    facts: ClassVar[Declares] = NOTHING
    relies_on: ClassVar[frozenset[str]] = frozenset({"offsets.retention.check.interval.ms"})
    summary: ClassVar[str] = "Waits until the coordinator of a group without members has deleted all of its offsets."
    group: GroupRef
    deadline_s: Deadline = 120.0

    def validate(self, plan: StepValidation) -> None:
        _require_away(plan, self.group)

    def perform(self, context: StepContext) -> Done:
        wait_for(
            lambda: context.admin.group_offsets(context.group_id(self.group)),
            until=lambda offsets: not offsets,
            deadline_s=self.deadline_s,
            what=f"the offsets of group {self.group} to expire",
        )
        return Done()
