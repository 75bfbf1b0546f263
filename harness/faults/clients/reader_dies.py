"""A consumer that dies between committing and processing, so that records are processed twice, or never."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import EffectProof, Fault, GroupRef, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.clock import now_ns
from harness.model.documents.steps import ReaderDied
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.scenario.scenario import Count, Scenario


@dataclass(frozen=True, kw_only=True)
class ReaderDies(Fault):
    """The reader's `commits` says which of the two. It holds the records that it receives until there are `records`;
    then it dies, and another member takes its place. An event `reader_died` records the offsets in between.

    A member of a share group is killed with a poll of at least `records` records that it has not acknowledged. It
    acknowledges smaller polls, and an only member polls not before there are that many (KIP-932). The broker releases
    what it holds when its connection closes. A `frozen` one stays connected, so that its locks have to expire; it is
    killed when the fault is healed.
    """

    do: ClassVar[str] = "reader_dies"
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"frozen": (False,)}
    facts: ClassVar[Declares] = (Declared(FactKind.CLIENT_DIED),)
    summary: ClassVar[str] = (
        "Makes the only member of a group die with `records` records committed and not processed, or the reverse."
    )
    proof: ClassVar[str] = (
        "it received that many records, its commit was acknowledged, and another member took over; of a share group, "
        "it received that many in one poll and acknowledged none"
    )
    group: GroupRef
    records: Count = 1
    frozen: bool = False

    @classmethod
    def drawn_in(cls, scenario: Scenario, chosen: Mapping[str, object]) -> Mapping[str, tuple[object, ...]]:
        return {"frozen": (False, True)} if chosen.get("group") in scenario.share_groups else cls.drawn

    def declared(self) -> Declares:
        return (Declared(FactKind.CLIENT_DIED, client=self.group),)

    def validate(self, plan: StepValidation) -> None:
        if self.group in plan.scenario.share_groups:
            return
        if self.frozen:
            raise BadInput(f"frozen: {self.group} is no share group, so no records are locked; leave out frozen")
        members = [r.name for r in plan.scenario.readers if r.group == self.group]
        if not members:
            raise BadInput(f"group: {self.group} is no group of a reader; for a processor use processor_dies")
        if len(members) > 1:
            raise BadInput(
                f"group: {self.group} has several members, {', '.join(members)}, and this step needs the only one; "
                "name a group with one reader"
            )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        death = context.load.crash_member(self.group, self.records, frozen=self.frozen)

        def probe() -> EffectProof:
            if death.refused:
                return EffectProof(False, f"the commit of group {self.group} before its death was not acknowledged")
            if death.between is None:
                return EffectProof(False, f"group {self.group} received {len(death.held)} of {self.records} records")
            between = {f"{t}/{p}": list(span) for (t, p), span in sorted(death.between.items())}
            count = sum(end - first for first, end in death.between.values())
            ends = "froze" if self.frozen else "died"
            because = f"the member of {self.group} {ends} with {count} offsets between commit and processing"
            return EffectProof(True, because, between)

        try:
            yield Injection(resolved={"records": self.records}, probe=probe)
        finally:
            death.called_off = True
            for (topic, partition), (first, end) in sorted((death.between or {}).items()):
                context.record_event(
                    ReaderDied(
                        topic=topic,
                        partition=partition,
                        at_ns=now_ns(),
                        group=self.group,
                        from_offset=first,
                        before_offset=end,
                    )
                )
