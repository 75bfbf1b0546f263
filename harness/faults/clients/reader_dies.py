"""An application dies between what it commits and what it processes: what it does twice then, or never."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.steps.step import EffectProof, Fault, GroupRef, Injection
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Count


@dataclass(frozen=True, kw_only=True)
class ReaderDies(Fault):
    """Lets the only member of a group die with `records` that it committed and did not process, or the other way.

    Which of the two is as its reader says (`commits`). It holds what it is given from the beginning of the step on
    until that is so many; then it dies, and another one takes its place. An event `reader_died` tells the offsets
    between. Of a share group a member is killed with a poll of `records` or more that it has not acknowledged; fewer it
    acknowledges, and its only member asks for none before there are so many (KIP-932).
    """

    do: ClassVar[str] = "reader_dies"
    group: GroupRef
    records: Count = 1

    def victims(self) -> str:
        """Nobody that a process of the cluster runs for."""
        return ""

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        if self.group in plan.scenario.share_groups:
            return
        members = [r.name for r in plan.scenario.readers if r.group == self.group]
        if len(members) > 1:
            raise BadInput(
                f"group: {', '.join(members)} are in {self.group}, and one of them alone would not be missed"
            )

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        death = stage.load.let_die(self.group, self.records)

        def probe() -> EffectProof:
            if death.refused:
                return EffectProof(False, f"what group {self.group} was to commit before it died was not acknowledged")
            if death.between is None:
                return EffectProof(False, f"group {self.group} was given {len(death.held)} of {self.records} records")
            between = {f"{t}/{p}": list(span) for (t, p), span in sorted(death.between.items())}
            count = sum(end - first for first, end in death.between.values())
            return EffectProof(
                True, f"group {self.group} died with {count} offsets between commit and processing", between
            )

        try:
            yield Injection(resolved={"records": self.records}, probe=probe)
        finally:
            death.called_off = True
            for (topic, partition), (first, end) in sorted((death.between or {}).items()):
                stage.record_event(
                    "reader_died",
                    topic=topic,
                    partition=partition,
                    group=self.group,
                    from_offset=first,
                    before_offset=end,
                )
