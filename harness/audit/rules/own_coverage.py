"""Blind spots of the auditor itself: silence of the metadata log, looks that come late, and rules that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten
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


class RuleFailed(Rule):
    """The engine raises it when a rule raises an error. The alarm outlives a restart by `keep_s`, although the rule is
    on again then: no rule has judged the events in between."""

    name: ClassVar[str] = "rule_failed"
    severity: ClassVar[Severity] = Severity.NOTICE
    explanation: ClassVar[str] = (
        "A defect of the auditor switched one of its rules off: from then on it does not notice what this rule is for. "
        "Open alarms of the rule stay open. All other rules go on."
    )
    remedy: ClassVar[str] = (
        "Report the named error, and restart the auditor, which switches the rule on again. Check the cluster by other "
        "means for the time between."
    )
    source: ClassVar[str] = "own measure"
    always: ClassVar[bool] = True
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def _begin(self) -> None:
        self._off: set[str] = set()

    def suspicion(self, rule: str, why: str, at_ns: int) -> Suspicion:
        """About a rule that is off from now on."""
        self._off.add(rule)
        what = f"The rule {rule} failed and is off until a restart: {why}."
        return Suspicion(rule=self.name, cause=rule, what=what, at_ns=at_ns)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return suspicion.cause not in self._off and forgotten(self, suspicion, view)
