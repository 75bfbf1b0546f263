"""Reports of helpers of the auditor, which no record of the metadata log and no look at offsets can show."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.model.severity import Severity


class Mailbox:
    """Suspicions from other threads, which the rule hands over at its next tick."""

    def __init__(self) -> None:
        self._reported: deque[Suspicion] = deque()

    def report(self, suspicion: Suspicion) -> None:
        self._reported.append(suspicion)

    def taken(self) -> list[Suspicion]:
        return [self._reported.popleft() for _ in range(len(self._reported))]


class Probe(Rule):
    """The child process of --probe finds it, by the checksums in the auditor's own records."""

    name: ClassVar[str] = "probe"
    severity: ClassVar[Severity] = Severity.LOSS
    explanation: ClassVar[str] = (
        "A record of the auditor's own topic was acknowledged with acks=all, and a replica or the remote tier does not "
        "return it as it was written. Other topics on the same brokers may have lost records in the same way."
    )
    remedy: ClassVar[str] = (
        "Compare the replicas of the named partition (kafka-dump-log) before a broker is restarted, and look for the "
        "same offsets in the logs of its brokers."
    )
    source: ClassVar[str] = "self-certifying records, as in the gate"
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def _begin(self) -> None:
        self.mailbox = Mailbox()

    def on_tick(self, view: View) -> Iterable[Suspicion]:
        return self.mailbox.taken()

    def over(self, suspicion: Suspicion, view: View) -> bool:
        """A lost record does not return: the alarm ends some time after the last one, or with its topic."""
        return forgotten(self, suspicion, view) or view.topic_id(suspicion.topic) != suspicion.topic_id


class OverBudget(Rule):
    """The process of the auditor sees it."""

    name: ClassVar[str] = "over_budget"
    severity: ClassVar[Severity] = Severity.NOTICE
    explanation: ClassVar[str] = (
        "The auditor needs more memory than its budget allows. It looks at partitions as rarely as it can, and skips "
        "none."
    )
    remedy: ClassVar[str] = "Raise mem in --budget, or watch fewer topics with --topics."
    source: ClassVar[str] = "own measure"

    def _begin(self) -> None:
        self.mailbox = Mailbox()
        self.now = False  # whether it is over its budget

    def on_tick(self, view: View) -> Iterable[Suspicion]:
        return self.mailbox.taken()

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return not self.now
