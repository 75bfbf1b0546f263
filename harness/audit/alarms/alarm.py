"""An alarm: an incident with everything that has the same cause, from its first sign to its end."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.audit.rules.rule import Suspicion
from harness.model.severity import Severity

_IDS: Final = uuid.UUID("6b1c0c3e-9d3f-4f0e-8c57-2a4f6e1d7b90")
PLACES_MAX: Final = 100  # partitions that an alarm names; the others are counted


@dataclass(slots=True)
class Alarm:
    """One incident: all suspicions of one rule with one cause. Times are the wall clock of the auditor's machine."""

    rule: str
    cause: str
    severity: Severity
    explanation: str
    remedy: str
    source: str
    opened_ns: int
    seen_ns: int  # the last suspicion
    suspicions: list[Suspicion] = field(default_factory=list)  # at most PLACES_MAX, one a partition
    partitions: int = 0  # all
    ended_ns: int | None = None
    ended_why: str = ""

    @property
    def incident(self) -> str:
        return f"{self.rule}: {self.cause}"

    @property
    def id(self) -> str:
        """Another one for each alarm, even of the same incident, and the same after a restart."""
        return str(uuid.uuid5(_IDS, f"{self.opened_ns} {self.incident}"))

    @property
    def what(self) -> str:
        """The sentence of the first suspicion, and how many other partitions there are."""
        others = self.partitions - 1
        more = f" The same of {others:,} more partition{'s' if others > 1 else ''}." if others > 0 else ""
        return f"{self.suspicions[0].what}{more}"

    @property
    def records(self) -> int | None:
        """Records at risk, of the named partitions; None if that is not known of any."""
        return _total([s.records for s in self.suspicions])


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
