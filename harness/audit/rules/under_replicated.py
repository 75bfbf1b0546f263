"""A replica has been out of the ISR for too long."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.rules.lasting import LastingRule
from harness.audit.rules.rule import Limit, Suspicion
from harness.audit.rules.sentences import numbers, of_state
from harness.audit.rules.standing import Brokers, missing_replicas
from harness.model.history.changes import PartitionChange
from harness.model.severity import Severity


class UnderReplicated(LastingRule):
    """Replicas that a reassignment adds are not missing. A broker that is missing is one cause for all partitions."""

    name: ClassVar[str] = "under_replicated"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = (
        "Partitions have fewer copies than they should. With one copy left, records are lost with its disk; with more, "
        "it is a notice."
    )
    remedy: ClassVar[str] = "Start the missing broker, or see in its log why it does not catch up, or reassign."
    source: ClassVar[str] = "Kafka documentation, replication; KIP-455"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata"})
    limits: ClassVar[Mapping[str, Limit]] = {
        "allowed_s": Limit(300.0, "a replica may be out of the ISR for so long"),
        "restart_s": Limit(900.0, "the same while its broker is restarted"),
    }

    def _causes(self, state: PartitionChange, view: View) -> Collection[Brokers]:
        return missing_replicas(state, view)

    def _suspicion(self, state: PartitionChange, cause: Brokers, lasted_s: float, view: View) -> Suspicion:
        what = (
            f"{state.topic}/{state.partition} has been without {numbers(cause)} in its ISR for {lasted_s:.0f} s: the "
            f"ISR is {[*state.isr]} of the replicas {[*state.replicas]}."
        )
        suspicion = of_state(self.name, state, cause=numbers(cause), what=what)
        return replace(suspicion, broker=cause[0], severity=Severity.NOTICE if len(state.isr) > 1 else None)
