"""Steps about the admins of a scenario: a wait for their operations, and changes that only negative controls make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from harness.faults.steps.declared_facts import NOTHING, Declared, Declares
from harness.faults.steps.step import Action, AdminRef, Done
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.waits import POLL_S
from harness.model.clock import now_ns
from harness.model.entities import ALLOWED, MetadataEntity, Operation, Sort, settled
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.outcome import Did, Outcome
from harness.model.scenario.scenario import Count, Deadline
from harness.model.waiting import wait_for

CHOICE_DEADLINE_S: Final = 30.0
# By the kind of work: the operation that creates an entity, and the one that deletes it.
_MAKES: Final[Mapping[str, tuple[Did, Did]]] = {
    "topics": (Did.CREATE_TOPIC, Did.DELETE_TOPIC),
    "configs": (Did.SET_CONFIG, Did.UNSET_CONFIG),
    "acls": (Did.CREATE_ACL, Did.DELETE_ACL),
    "users": (Did.SET_USER, Did.DELETE_USER),
}
# Entities that no admin asked for. A setting is not among them: it would need a topic of the admin.
_INVENTED: Final[Mapping[str, tuple[Sort, str]]] = {
    "topics": (Sort.TOPIC, "7"),
    "acls": (Sort.ACL, ALLOWED),
    "users": (Sort.USER, "4096"),
}


@dataclass(frozen=True, kw_only=True)
class WaitOperations(Action):
    """Progress of an admin."""

    do: ClassVar[str] = "wait_operations"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = (
        "Waits until an admin has ended `operations` more operations with this outcome, or with any."
    )
    admin: AdminRef
    operations: Count = 1
    outcome: Literal["acked", "unknown", "refused", "any"] = "acked"
    deadline_s: Deadline = 60.0

    def perform(self, context: StepContext) -> Done:
        since_ns = now_ns()
        wanted = None if self.outcome == "any" else Outcome(self.outcome)
        wait_for(
            lambda: context.load.operations_ended(self.admin, since_ns, wanted),
            until=lambda ended: ended >= self.operations,
            deadline_s=self.deadline_s,
            what=f"{self.operations} operations of {self.admin} ({self.outcome})",
            interval_s=POLL_S,
        )
        return Done(resolved={"waited_s": round((now_ns() - since_ns) / 1e9, 3)})


@dataclass(frozen=True, kw_only=True)
class CorruptMetadata(Action):
    """A wrong state of the metadata, as a defect of the release would cause it."""

    do: ClassVar[str] = "corrupt_metadata"
    facts: ClassVar[Declares] = (Declared(FactKind.ENTITY_CHANGED),)
    summary: ClassVar[str] = (
        "Deletes, restores or invents an entity of an admin past the admin, as a defect would; for negative controls."
    )
    admin: AdminRef
    what: Literal["topics", "configs", "acls", "users"] = "topics"
    how: Literal["forget", "restore", "invent"] = "forget"

    def validate(self, plan: StepValidation) -> None:
        if self.what not in plan.admin(self.admin).does:
            raise BadInput(f"what: {self.admin} does no {self.what}; add it to `does`, or name another")
        if self.how == "invent" and self.what not in _INVENTED:
            raise BadInput(f"what: no {self.what} can be invented; name one of {', '.join(_INVENTED)}")

    def perform(self, context: StepContext) -> Done:
        made, unmade = _MAKES[self.what]
        after: str | None
        if self.how == "invent":
            sort, value = _INVENTED[self.what]
            did, metadata_entity, after = made, MetadataEntity(sort, f"{self.admin}-invented"), value
        else:
            chosen = self._chosen(context, made if self.how == "forget" else unmade)
            metadata_entity = context.load.metadata_entity(self.admin, chosen.entity)
            did, after = (unmade, None) if self.how == "forget" else (made, self._before(context, chosen))
        context.admin.carry_out(did, metadata_entity, after)
        return Done(resolved={"did": did.value, "entity": metadata_entity.text, "value": after})

    def _chosen(self, context: StepContext, did: Did) -> Operation:
        """The second newest such operation: the admin now works on another entity, so it leaves this one alone."""
        found = wait_for(
            lambda: settled(context.load.operations(self.admin), did),
            until=lambda operations: len(operations) > 1,
            deadline_s=CHOICE_DEADLINE_S,
            what=f"two acknowledged operations {did.value} of {self.admin} that were the last on their entities",
            interval_s=POLL_S,
        )
        return found[-2]

    def _before(self, context: StepContext, chosen: Operation) -> str | None:
        """The value that the entity had before it was deleted."""
        earlier = [o for o in context.load.operations(self.admin) if o.entity == chosen.entity and o.op < chosen.op]
        return next((o.value for o in reversed(earlier) if o.value is not None), None)
