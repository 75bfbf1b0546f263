"""A consumer that restarts: it closes cleanly, and another one takes its place in the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import texts
from harness.faults.steps.load import Member
from harness.faults.steps.step import Action, Done, EffectProof, ReaderRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.place import Place
from harness.model.scenario.scenario import Deadline
from harness.model.waiting import wait_for


@dataclass(frozen=True, kw_only=True)
class RestartReader(Action):
    """protocol: the group protocol after the restart; "" = as before.
    at_end, for negative controls: the member ignores the committed offsets and skips records of the time between.

    A static member that keeps its protocol must get the same partitions again, and no other member may gain or lose any
    (KIP-345).
    """

    do: ClassVar[str] = "restart_reader"
    facts: ClassVar[Declares] = (Declared(FactKind.CLIENT_RESTARTED),)
    summary: ClassVar[str] = (
        "Restarts a member of a group, with another `protocol` if one is given, and waits until it commits again."
    )
    proof: ClassVar[str] = (
        "a static member got its partitions again, and no other member gained or lost any; of another member, the "
        "coordinator has a group of the protocol that its members make it"
    )
    disturbs: ClassVar[bool] = True
    reader: ReaderRef
    protocol: Literal["", "classic", "consumer"] = ""
    at_end: bool = False
    deadline_s: Deadline = 60.0

    def declared(self) -> Declares:
        return (Declared(FactKind.CLIENT_RESTARTED, client=self.reader),)

    def validate(self, plan: StepValidation) -> None:
        spec = plan.reader(self.reader)
        if spec.group is None:
            raise BadInput(f"reader: {self.reader} is in no group, and has no committed offsets; name one in a group")
        if spec.shares:
            raise BadInput(f"reader: {self.reader} is in a share group; its members own no partitions; use reader_dies")

    def perform(self, context: StepContext) -> Done:
        members = context.load.other_members(self.reader)
        me, others = members[self.reader], {n: m for n, m in members.items() if n != self.reader}
        wait_for(
            lambda: sorted(name for name, member in members.items() if not member.places),
            until=lambda idle: not idle,
            deadline_s=self.deadline_s,
            what=f"each member of group {me.spec.group} to have partitions",
        )
        before, protocol, had = _assignments(others), me.protocol, me.places
        ordered = me.restart(self.protocol or None, at_end=self.at_end)
        wait_for(
            lambda: (ordered.begun, sorted(me.places)),
            until=lambda seen: seen[0] and bool(seen[1]),
            deadline_s=self.deadline_s,
            what=f"{self.reader} to get partitions again",
        )
        commits = me.acked_commits
        wait_for(
            lambda: me.acked_commits - commits,
            until=bool,
            deadline_s=self.deadline_s,
            what=f"a commit of {self.reader} after its restart",
        )
        seen = {"had": texts(had), "has": texts(me.places), "protocol": me.protocol}
        if me.protocol != protocol or not me.spec.static:
            effect = _protocol_proof(context.admin.group_type(me.spec.group or ""), members, seen)
        else:
            moved = [name for name, assignment in _assignments(others).items() if assignment != before[name]]
            effect = _static_proof(me.places == had, moved, seen)
        return Done(resolved={"group": me.spec.group, "protocol": me.protocol}, effect=effect)


def _assignments(members: Mapping[str, Member]) -> dict[str, tuple[int, frozenset[Place]]]:
    return {name: (member.rebalances, member.places) for name, member in members.items()}


def _protocol_proof(reported: str, members: Mapping[str, Member], seen: Mapping[str, object]) -> EffectProof:
    """Proof: the group uses the newer protocol exactly while one of its members does (KIP-848)."""
    wanted = "consumer" if any(member.protocol == "consumer" for member in members.values()) else "classic"
    seen = {**seen, "group_type": reported}
    if reported not in (wanted, ""):  # releases before 3.8 do not report the type
        because = f"the coordinator has a {reported} group, and its members make it a {wanted} group"
        return EffectProof(False, because, seen)
    return EffectProof(True, f"it commits again, in a {reported or wanted} group", seen)


def _static_proof(same: bool, moved: Sequence[str], seen: Mapping[str, object]) -> EffectProof:
    """Proof: the static member has the same partitions as before, and no other member has a new assignment."""
    if moved:
        because = f"the group was rebalanced: {', '.join(sorted(moved))} gained or lost partitions"
        return EffectProof(False, because, seen)
    if not same:
        return EffectProof(False, "it got other partitions than it had before", seen)
    return EffectProof(True, "it got its partitions again, and no other member gained or lost one", seen)
