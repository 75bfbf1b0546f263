"""Groups that nobody is in for a while, and what may be done to one then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.steps.step import Action, Done, EffectProof, Fault, GroupRef, Injection
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.clock import now_ns
from harness.model.contract.contract import DELETE_GROUP, READER_AWAY
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.outcome import Outcome
from harness.model.scenario.scenario import JAVA
from harness.model.waiting import wait_for

LEAVE_DEADLINE_S: Final = 30.0
BACK_DEADLINE_S: Final = 60.0
# What a coordinator says of a group without members: that it is empty, or nothing once it has forgotten it.
_NOBODY: Final = ("Empty", "Dead", "")


def _of_readers(plan: StepValidation, group: str) -> None:
    """BadInput for a group that no reader of the scenario is in, or that commits nothing."""
    if not any(reader.group == group for reader in plan.scenario.readers):
        raise BadInput(f"group: no reader is in {group}; name the group of one")
    if group in plan.scenario.share_groups:
        raise BadInput(f"group: {group} is a share group, which commits no offsets; name one that does")


@dataclass(frozen=True, kw_only=True)
class ReaderAway(Fault):
    """Lets every member of a group commit, leave, and stay away until healed, as applications that are stopped.

    The step is over when they have left. An event `group_away` tells when they were to leave, when they had, and when
    they were to come back.
    """

    do: ClassVar[str] = READER_AWAY
    group: GroupRef

    def victims(self) -> str:
        """Nobody that a process of the cluster runs for."""
        return ""

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        _of_readers(plan, self.group)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        members, from_ns = stage.load.members(self.group), now_ns()
        absences = {name: member.leave() for name, member in members.items()}

        def probe() -> EffectProof:
            reported = stage.admin.group_state(stage.group_id(self.group))
            seen = {"members": sorted(members), "state": reported}
            if reported not in _NOBODY:
                return EffectProof(False, f"the coordinator says that group {self.group} is {reported}", seen)
            return EffectProof(True, f"{', '.join(sorted(members))} left, and nobody is in group {self.group}", seen)

        try:
            wait_for(
                lambda: sorted(name for name, absence in absences.items() if absence.left_ns is None),
                until=lambda here: not here,
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
                stage.record_event("group_away", group=self.group, from_ns=from_ns, left_ns=left_ns, to_ns=back_ns)
        wait_for(
            lambda: sorted(name for name, member in members.items() if not member.settled),
            until=lambda idle: len(idle) < len(members),
            deadline_s=BACK_DEADLINE_S,
            what=f"group {self.group} to have partitions again",
        )


@dataclass(frozen=True, kw_only=True)
class ReaderPaused(Fault):
    """Lets every member of a group commit and pause its partitions: it goes on polling, and is given nothing.

    Healing resumes them where they stopped, without a rebalance.
    """

    do: ClassVar[str] = "reader_paused"
    group: GroupRef

    def victims(self) -> str:
        """Nobody that a process of the cluster runs for."""
        return ""

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        _of_readers(plan, self.group)
        if own := [r.name for r in plan.scenario.readers if r.group == self.group and r.client == JAVA]:
            raise BadInput(f"group: {own[0]} is the release's own client, which is not paused; leave out its client")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        members = stage.load.members(self.group)
        rebalances = {name: member.rebalances for name, member in members.items()}
        pauses = {name: member.pause() for name, member in members.items()}

        def probe() -> EffectProof:
            reported = stage.admin.group_state(stage.group_id(self.group))
            seen = {"members": sorted(members), "state": reported}
            moved = sorted(name for name, member in members.items() if member.rebalances != rebalances[name])
            if moved or reported in _NOBODY:
                gone = (
                    f"{', '.join(moved)} had to join again"
                    if moved
                    else f"group {self.group} is {reported or 'unknown'}"
                )
                return EffectProof(False, f"it did not stay as it was: {gone}", seen)
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
    """Deletes a group that nobody is in, and with it every offset that it committed (KIP-229)."""

    do: ClassVar[str] = DELETE_GROUP
    group: GroupRef

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        away = [kind for kind in plan.earlier.values() if isinstance(kind, ReaderAway) and kind.group == self.group]
        if not away:
            raise BadInput(f'group: somebody is in {self.group}; first give {{ do = "reader_away", group = "..." }}')

    def perform(self, stage: Stage) -> Done:
        asked_ns, outcome = now_ns(), Outcome.ACKED
        try:
            stage.admin.delete_group(stage.group_id(self.group))
        except HarnessTimeout:
            outcome = Outcome.UNKNOWN
            raise
        finally:
            stage.record_event("group_deleted", group=self.group, outcome=outcome.value, asked_ns=asked_ns)
        return Done(resolved={"group": self.group})
