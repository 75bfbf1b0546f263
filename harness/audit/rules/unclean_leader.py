"""A leader was elected that may lack committed records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import clock, of_state
from harness.audit.store.partitions import UNKNOWN
from harness.model.history.changes import NO_LEADER, AnyChange, BrokerChange, BrokerEvent, PartitionChange
from harness.model.history.elections import ElectedFrom, elected_from
from harness.model.severity import Severity

_CLEAN: Final = frozenset({ElectedFrom.ISR, ElectedFrom.ELR})


class UncleanLeader(Rule):
    """It waits with one case: the last known leader is elected by the change in which a broker that ended uncleanly
    leaves the ELR. The record that proves this comes just after the change, in the same batch (KIP-966)."""

    name: ClassVar[str] = "unclean_leader"
    severity: ClassVar[Severity] = Severity.LOSS
    explanation: ClassVar[str] = (
        "The new leader was neither in the ISR nor an eligible leader replica. All replicas truncate to its log, so "
        "committed records that it lacks are lost. The last known leader may be elected when ISR and ELR are empty; it "
        "may lack only what it had not flushed."
    )
    remedy: ClassVar[str] = (
        "If a replica of the former ISR still has its disk, keep a copy of its log before it starts: it truncates when "
        "it follows the new leader. Set unclean.leader.election.enable=false and min.insync.replicas=2."
    )
    source: ClassVar[str] = "KIP-106, KIP-966; PartitionChangeBuilder"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def _begin(self) -> None:
        self._pending: list[tuple[PartitionChange, PartitionChange]] = []  # before and after, of one batch

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        found = self._decided(after, view) if self._pending else []
        if isinstance(after, PartitionChange) and isinstance(before, PartitionChange) and _is_election(before, after):
            found += self._elected(before, after, view)
        return found

    def on_tick(self, view: View) -> Iterable[Suspicion]:
        """Nothing came behind the pending changes."""
        return self._decided(None, view)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return forgotten(self, suspicion, view)

    def _elected(self, before: PartitionChange, after: PartitionChange, view: View) -> list[Suspicion]:
        chosen = elected_from(before, after, lambda _broker: False)
        if chosen is ElectedFrom.UNCLEAN and elected_from(before, after, _left(after)) is ElectedFrom.LAST_KNOWN:
            self._pending.append((before, after))
            return []
        if chosen is ElectedFrom.ELR and after.recovering and not before.recovering:
            chosen = ElectedFrom.LAST_KNOWN  # it had ended uncleanly and left the ELR by this change
        return [] if chosen in _CLEAN else [self._suspicion(chosen, before, after, view)]

    def _decided(self, change: AnyChange | None, view: View) -> list[Suspicion]:
        """Decides the pending elections once a record comes that is not of the same kind and batch."""
        batch_ns = self._pending[-1][1].time_ns if self._pending else 0
        if isinstance(change, PartitionChange) and change.time_ns == batch_ns:
            return []
        is_return = isinstance(change, BrokerChange) and change.event is BrokerEvent.REGISTERED
        returned = change.broker if isinstance(change, BrokerChange) and is_return else None
        if change is not None and change.time_ns != batch_ns:
            returned = None
        pending, self._pending = self._pending, []
        return [
            self._suspicion(elected_from(before, after, lambda broker: broker == returned), before, after, view)
            for before, after in pending
        ]

    def _suspicion(self, chosen: ElectedFrom, before: PartitionChange, after: PartitionChange, view: View) -> Suspicion:
        committed = view.offsets(after.topic_id, after.partition).high_watermark
        known = "" if committed == UNKNOWN else f" The last look saw the high watermark at {committed}."
        if chosen is ElectedFrom.LAST_KNOWN:
            which = "as the last known leader, because ISR and ELR were empty: it may lack what it had not flushed"
        else:
            which = f"although the ISR was {[*before.isr]} and the ELR {[*before.elr]}: it may lack committed records"
        what = (
            f"Broker {after.leader} was elected leader of {after.topic}/{after.partition} in leader epoch "
            f"{after.leader_epoch} {which}.{known}"
        )
        suspicion = of_state(self.name, after, cause=f"broker {after.leader}, {clock(after.time_ns)}", what=what)
        return replace(
            suspicion,
            end_offset=None if committed == UNKNOWN else committed,
            broker=after.leader,
            severity=Severity.DANGER if chosen is ElectedFrom.LAST_KNOWN else None,
        )


def _is_election(before: PartitionChange, after: PartitionChange) -> bool:
    changed = after.leader != before.leader and after.leader_epoch != before.leader_epoch
    return changed and after.leader != NO_LEADER and not after.from_snapshot


def _left(after: PartitionChange) -> Callable[[int], bool]:
    """Whether a broker is not in the ELR any more, if it was in it before the change."""
    return lambda broker: broker not in after.elr
