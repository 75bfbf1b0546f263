"""The log of a step: all that is known of it while the steps run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.model.documents.steps import Effect, Event, Step
from harness.model.doubt_names import DoubtOrigin
from harness.model.errors import HarnessFailure
from harness.model.facts import Fact


@dataclass(slots=True, kw_only=True)
class StepLog:
    """A step, with all that happened in it by now. The fields are those of its row in steps.json."""

    name: str
    do: str
    args: Mapping[str, object]
    is_fault: bool
    resolved: Mapping[str, object] = field(default_factory=dict)
    started_ns: int | None = None
    ended_ns: int | None = None
    healed_ns: int | None = None
    effect: Effect | None = None
    facts: tuple[Fact, ...] = ()
    events: tuple[Event, ...] = ()
    error: str | None = None
    error_origin: DoubtOrigin | None = None

    @property
    def row(self) -> Step:
        """The row of steps.json."""
        return Step(
            name=self.name,
            do=self.do,
            args=self.args,
            is_fault=self.is_fault,
            resolved=self.resolved,
            started_ns=self.started_ns,
            ended_ns=self.ended_ns,
            healed_ns=self.healed_ns,
            effect=self.effect,
            facts=self.facts,
            events=self.events,
            error=self.error,
            error_origin=self.error_origin,
        )

    def failed(self, text: str, error: Exception) -> None:
        """The step failed because of this error. An error of unknown cause may be the brokers' doing."""
        self.error = text
        self.error_origin = error.origin if isinstance(error, HarnessFailure) else DoubtOrigin.RELEASE
