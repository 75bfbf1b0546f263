"""What the auditor itself does not see: silence of the metadata log, and looks that come late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.model.severity import Severity


class Blind(Rule):
    """The engine raises it, because no record and no look can show it."""

    name: ClassVar[str] = "blind"
    severity: ClassVar[Severity] = Severity.NOTICE
    explanation: ClassVar[str] = (
        "The active controller writes a record at least every metadata.max.idle.interval.ms. Nothing was heard for "
        "longer than that, so the auditor does not know what happens in the cluster."
    )
    remedy: ClassVar[str] = (
        "See whether a controller is active and whether the auditor reaches it. Records of this time are read "
        "afterwards, and alarms about them come late."
    )
    source: ClassVar[str] = "KIP-835 (NoOpRecord), metadata.max.idle.interval.ms"
    always: ClassVar[bool] = True
    limits: ClassVar[Mapping[str, Limit]] = {"silent_s": Limit(3.0, "the metadata log may be silent for so long")}

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return view.covers("metadata")


class Overdue(Rule):
    """The engine raises it: the budget or the brokers do not allow a look at every partition in time."""

    name: ClassVar[str] = "overdue"
    severity: ClassVar[Severity] = Severity.NOTICE
    explanation: ClassVar[str] = "Some partitions were not looked at in time, so alarms that rest on offsets come late."
    remedy: ClassVar[str] = "Raise --budget, or look less often with round_s of this rule."
    source: ClassVar[str] = "own measure"
    always: ClassVar[bool] = True
    limits: ClassVar[Mapping[str, Limit]] = {"round_s": Limit(60.0, "a round of looks may last so long")}

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return view.covers("offsets")
