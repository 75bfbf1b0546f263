"""When an alarm about a single event ends, and when a suspicion that no look decides does."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.audit.engine.view import View
from harness.audit.look import PartitionLook
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.model.clock import NS_PER_S
from harness.model.severity import Severity

KEEP: Final = "keep_s"
KEEP_S: Final = Limit(86_400.0, "an alarm about an event stays open for so long, if nothing ends it before")
_UNDECIDED_S: Final = 60


def forgotten(rule: Rule, suspicion: Suspicion, view: View) -> bool:
    """Whether the partition was deleted, or the event happened longer than `keep_s` ago."""
    age_ns = view.now_ns - suspicion.at_ns
    if age_ns > rule.limit_of(suspicion.topic, KEEP) * NS_PER_S:
        return True
    return suspicion.partition is not None and view.partition(suspicion.topic_id, suspicion.partition) is None


def undecided(suspicion: Suspicion, look: PartitionLook) -> Suspicion:
    """The answer about a look that lacks the offset in question: one more look, and after a minute a notice."""
    if look.answered_ns - suspicion.at_ns < _UNDECIDED_S * NS_PER_S:
        return replace(suspicion, again=True)
    what = f"{suspicion.what} No later look confirmed or disproved it."
    return replace(suspicion, what=what, severity=Severity.NOTICE)
