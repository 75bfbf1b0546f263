"""A partition has had fewer replicas in sync than min.insync.replicas for too long."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.rules.lasting import LastingRule
from harness.audit.rules.rule import Limit, Suspicion
from harness.audit.rules.sentences import numbers, of_state
from harness.audit.rules.standing import MIN_ISR, Brokers, missing_replicas, needed_in_sync
from harness.model.history.changes import NO_LEADER, AnyChange, ConfigChange, PartitionChange, ResourceKind
from harness.model.severity import Severity


class BelowMinIsr(LastingRule):
    """A partition without a leader is the subject of `no_leader`. A broker that is missing is one cause."""

    name: ClassVar[str] = "below_min_isr"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = (
        "Writes with acks=all are refused. Records that other producers write are on fewer replicas than was asked for."
    )
    remedy: ClassVar[str] = "Start the missing brokers. Lowering min.insync.replicas gives up the protection."
    source: ClassVar[str] = "Kafka documentation, min.insync.replicas; KAFKA-15583"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata"})
    limits: ClassVar[Mapping[str, Limit]] = {
        "allowed_s": Limit(60.0, "a partition may lack a replica for so long"),
        "restart_s": Limit(300.0, "the same while its broker is restarted"),
    }

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        if isinstance(after, ConfigChange) and after.key == MIN_ISR and not after.from_snapshot:
            for state in view.partitions(after.name if after.kind is ResourceKind.TOPIC else None):
                self._standing.note(state, view)
        return super().on_change(after, before, view)

    def _causes(self, state: PartitionChange, view: View) -> Collection[Brokers]:
        if state.leader == NO_LEADER or len(state.isr) >= needed_in_sync(state, view):
            return ()
        return missing_replicas(state, view)

    def _suspicion(self, state: PartitionChange, cause: Brokers, lasted_s: float, view: View) -> Suspicion:
        what = (
            f"{state.topic}/{state.partition} has had fewer replicas in sync than min.insync.replicas="
            f"{view.setting(state.topic, MIN_ISR)} for {lasted_s:.0f} s: the ISR is {[*state.isr]}, and "
            f"{numbers(cause)} is missing."
        )
        return replace(of_state(self.name, state, cause=numbers(cause), what=what), broker=cause[0])
