"""A partition has had no leader for too long."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.rules.lasting import LastingRule
from harness.audit.rules.rule import Limit, Suspicion
from harness.audit.rules.sentences import numbers, of_state
from harness.audit.rules.standing import Brokers
from harness.audit.store.partitions import UNKNOWN
from harness.model.history.changes import NO_LEADER, PartitionChange
from harness.model.severity import Severity


class NoLeader(LastingRule):
    """The cause is the brokers that may lead: partitions that wait for the same ones are one incident."""

    name: ClassVar[str] = "no_leader"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = (
        "No producer writes and no consumer reads. The partition waits for a replica that has every committed record; "
        "if its disk is lost, so are records."
    )
    remedy: ClassVar[str] = (
        "Start one of the named brokers with its disk. An unclean election ends the wait, and may lose records."
    )
    source: ClassVar[str] = "KIP-106, KIP-966"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata"})
    limits: ClassVar[Mapping[str, Limit]] = {
        "allowed_s": Limit(30.0, "a partition may have no leader for so long"),
        "restart_s": Limit(300.0, "the same while a broker that may lead is restarted"),
    }

    def over(self, suspicion: Suspicion, view: View) -> bool:
        state = view.partition(suspicion.topic_id, suspicion.partition or 0)
        return state is None or state.leader != NO_LEADER

    def _causes(self, state: PartitionChange, view: View) -> Collection[Brokers]:
        if state.leader != NO_LEADER:
            return ()
        return (tuple(sorted({*state.isr, *state.elr} or {*state.last_known_elr} or {*state.replicas})),)

    def _suspicion(self, state: PartitionChange, cause: Brokers, lasted_s: float, view: View) -> Suspicion:
        what = (
            f"{state.topic}/{state.partition} has had no leader for {lasted_s:.0f} s; of its replicas "
            f"{[*state.replicas]}, {numbers(cause)} may lead."
        )
        seen = view.offsets(state.topic_id, state.partition)
        known = UNKNOWN not in (seen.log_start, seen.high_watermark)
        return replace(
            of_state(self.name, state, cause=numbers(cause), what=what),
            first_offset=seen.log_start if known else None,
            end_offset=seen.high_watermark if known else None,
        )
