"""An application is restarted: it closes in order, and another one takes its place in the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from harness.faults.steps.step import Action, Done, EffectProof, Place, ReaderRef
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Deadline
from harness.model.waiting import wait_for


@dataclass(frozen=True, kw_only=True)
class RestartReader(Action):
    """Restarts a member of a group, from then on by `protocol` if that is said, and waits until it commits again.

    A static member that keeps its protocol has to come back to the very partitions that it had, and no other member may
    be given or lose any (KIP-345). With `at_end` it does not go by what was committed, and leaves out what came while
    it was away: for negative controls.
    """

    do: ClassVar[str] = "restart_reader"
    disturbs: ClassVar[bool] = True
    reader: ReaderRef
    protocol: Literal["", "classic", "consumer"] = ""
    at_end: bool = False
    deadline_s: Deadline = 60.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        spec = next(r for r in plan.scenario.readers if r.name == self.reader)
        if spec.group is None:
            raise BadInput(f"reader: {self.reader} is in no group, and would begin anew")
        if spec.shares:
            raise BadInput(f"reader: {self.reader} is in a share group, which hands out no partitions; see reader_dies")

    def perform(self, stage: Stage) -> Done:
        members = stage.load.other_members(self.reader)
        me, others = members[self.reader], {n: m for n, m in members.items() if n != self.reader}
        wait_for(
            lambda: sorted(name for name, member in members.items() if not member.places),
            until=lambda idle: not idle,
            deadline_s=self.deadline_s,
            what=f"each member of group {me.spec.group} to have partitions",
        )
        before, protocol, had = _standing(others), me.protocol, me.places
        ordered = me.restart(self.protocol or None, at_end=self.at_end)
        wait_for(
            lambda: (ordered.begun, sorted(me.places)),
            until=lambda seen: seen[0] and bool(seen[1]),
            deadline_s=self.deadline_s,
            what=f"{self.reader} to be given partitions again",
        )
        commits = me.acked_commits
        wait_for(
            lambda: me.acked_commits - commits,
            until=bool,
            deadline_s=self.deadline_s,
            what=f"a commit of {self.reader} after its restart",
        )
        seen = {"had": _texts(had), "has": _texts(me.places), "protocol": me.protocol}
        if me.protocol != protocol or not me.spec.static:
            effect = _of_protocol(stage.admin.group_type(me.spec.group), members, seen)
        else:
            moved = [name for name, stands in _standing(others).items() if stands != before[name]]
            effect = _in_its_place(me.places == had, moved, seen)
        return Done(resolved={"group": me.spec.group, "protocol": me.protocol}, effect=effect)


def _standing(members: Mapping[str, Any]) -> dict[str, tuple[int, frozenset[Place]]]:
    return {name: (member.rebalances, member.places) for name, member in members.items()}


def _of_protocol(reported: str, members: Mapping[str, Any], seen: dict[str, Any]) -> EffectProof:
    """A group goes by the newer protocol as long as one of its members does (KIP-848)."""
    wanted = "consumer" if any(member.protocol == "consumer" for member in members.values()) else "classic"
    seen = {**seen, "group_type": reported}
    if reported not in (wanted, ""):  # before 3.8 nobody tells
        return EffectProof(
            False, f"the coordinator has a {reported} group, and its members make it a {wanted} one", seen
        )
    return EffectProof(True, f"it commits again, in a {reported or wanted} group", seen)


def _in_its_place(same: bool, moved: Sequence[str], seen: dict[str, Any]) -> EffectProof:
    if moved:
        return EffectProof(False, f"the group was rebalanced: {', '.join(sorted(moved))} got or lost partitions", seen)
    if not same:
        return EffectProof(False, "it came back to other partitions than it had", seen)
    return EffectProof(True, "it took its own place again, and nobody else was given or lost a partition", seen)


def _texts(places: Iterable[Place]) -> list[str]:
    return [f"{topic}/{partition}" for topic, partition in sorted(places)]
