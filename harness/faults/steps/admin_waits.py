"""Steps about the admins of a scenario: waits for what they did, and what only a negative control does to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from harness.faults.steps.step import Action, AdminRef, Done
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.waits import POLL_S
from harness.model.clock import now_ns
from harness.model.entities import ALLOWED, MetadataEntity, Operation, Sort, settled
from harness.model.errors import BadInput
from harness.model.outcome import Did, Outcome
from harness.model.scenario.scenario import Count, Deadline
from harness.model.waiting import wait_for

CHOICE_DEADLINE_S: Final = 30.0
# By the kind of work: what makes a thing, and what unmakes it.
_MAKES: Final[Mapping[str, tuple[Did, Did]]] = {
    "topics": (Did.CREATE_TOPIC, Did.DELETE_TOPIC),
    "configs": (Did.SET_CONFIG, Did.UNSET_CONFIG),
    "acls": (Did.CREATE_ACL, Did.DELETE_ACL),
    "users": (Did.SET_USER, Did.DELETE_USER),
}
# What nobody asked for. A setting would need a topic of the admin's.
_INVENTED: Final[Mapping[str, tuple[Sort, str]]] = {
    "topics": (Sort.TOPIC, "7"),
    "acls": (Sort.ACL, ALLOWED),
    "users": (Sort.USER, "4096"),
}


@dataclass(frozen=True, kw_only=True)
class WaitOperations(Action):
    """Waits until an admin has done so much since this step began: operations of this outcome, or of any."""

    do: ClassVar[str] = "wait_operations"
    admin: AdminRef
    operations: Count = 1
    outcome: Literal["acked", "unknown", "refused", "any"] = "acked"
    deadline_s: Deadline = 60.0

    def perform(self, stage: Stage) -> Done:
        since_ns = now_ns()
        wanted = None if self.outcome == "any" else Outcome(self.outcome)
        wait_for(
            lambda: stage.load.operations_ended(self.admin, since_ns, wanted),
            until=lambda ended: ended >= self.operations,
            deadline_s=self.deadline_s,
            what=f"{self.operations} operations of {self.admin} ({self.outcome})",
            interval_s=POLL_S,
        )
        return Done(resolved={"waited_s": round((now_ns() - since_ns) / 1e9, 3)})


@dataclass(frozen=True, kw_only=True)
class Meddle(Action):
    """Undoes, restores or invents an entity of an admin behind its back, as a defect would: for negative controls."""

    do: ClassVar[str] = "meddle"
    admin: AdminRef
    what: Literal["topics", "configs", "acls", "users"] = "topics"
    how: Literal["forget", "restore", "invent"] = "forget"

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        if self.what not in plan.admin(self.admin).does:
            raise BadInput(f"what: {self.admin} does no {self.what}; add it to `does`, or name another")
        if self.how == "invent" and self.what not in _INVENTED:
            raise BadInput(f"what: no {self.what} can be invented; name one of {', '.join(_INVENTED)}")

    def perform(self, stage: Stage) -> Done:
        made, unmade = _MAKES[self.what]
        after: str | None
        if self.how == "invent":
            sort, value = _INVENTED[self.what]
            did, metadata_entity, after = made, MetadataEntity(sort, f"{self.admin}-invented"), value
        else:
            chosen = self._chosen(stage, made if self.how == "forget" else unmade)
            metadata_entity = stage.load.metadata_entity(self.admin, chosen.entity)
            did, after = (unmade, None) if self.how == "forget" else (made, self._before(stage, chosen))
        stage.admin.carry_out(did, metadata_entity, after)
        return Done(resolved={"did": did.value, "entity": metadata_entity.text, "value": after})

    def _chosen(self, stage: Stage, did: Did) -> Operation:
        """The newest but one, which the admin has left for another thing, and will not come back to soon."""
        found = wait_for(
            lambda: settled(stage.load.operations(self.admin), did),
            until=lambda operations: len(operations) > 1,
            deadline_s=CHOICE_DEADLINE_S,
            what=f"two acknowledged operations {did.value} of {self.admin} that were the last on their things",
            interval_s=POLL_S,
        )
        return found[-2]

    def _before(self, stage: Stage, chosen: Operation) -> str | None:
        """What the thing was before it was unmade."""
        earlier = [o for o in stage.load.operations(self.admin) if o.entity == chosen.entity and o.op < chosen.op]
        return next((o.value for o in reversed(earlier) if o.value is not None), None)
