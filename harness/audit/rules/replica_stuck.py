"""A replica on a running broker never returns to the ISR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.look import PartitionLook
from harness.audit.rules.ending import undecided
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import numbers, of_look
from harness.audit.rules.standing import Standing, missing_replicas
from harness.audit.store.partitions import UNKNOWN, Offsets
from harness.model.clock import NS_PER_S
from harness.model.history.changes import AnyChange, PartitionChange
from harness.model.severity import Severity

# A broker that is stuck is one incident, so a sample of its replicas shows it. When a broker returns, all of its
# replicas are out of the ISR for a while.
_REPLICAS_MAX: Final = 1_000


@dataclass(slots=True)
class _Out:
    """A replica out of the ISR, with the log ends of it and of the leader when it last made progress."""

    log_end: int
    leader_end: int
    since_ns: int
    reported: bool = False


class ReplicaStuck(Rule):
    """A replica that is behind catches up, and one that has caught up joins the ISR at its next fetch. One that does
    neither for `stuck_s` has a fetcher that gave the partition up, or is refused by the controller."""

    name: ClassVar[str] = "replica_stuck"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = (
        "The broker is up and does not replicate this partition. Kafka does not try again by itself, so the partition "
        "has a copy less until an operator acts."
    )
    remedy: ClassVar[str] = (
        "Look in the log of the broker for 'marked as failed' of this partition, and restart the broker. If it fails "
        "again, take the replica away and add it again by a reassignment, so that it fetches everything."
    )
    source: ClassVar[str] = "KAFKA-17375, KIP-461; ReplicaFetcherThread"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata", "replicas"})
    limits: ClassVar[Mapping[str, Limit]] = {"stuck_s": Limit(300.0, "a replica may stand still for so long")}

    def _begin(self) -> None:
        self._standing = Standing(missing_replicas)
        self._out: dict[tuple[str, int, int], _Out] = {}

    def on_known(self, state: PartitionChange, view: View) -> None:
        self._standing.note(state, view)

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        self._standing.note_change(after, view)
        if isinstance(after, PartitionChange) and self._out:
            for replica in after.isr:
                self._out.pop((after.topic_id, after.partition, replica), None)
        return ()

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        if not self._standing.holds(look.topic_id, look.partition):
            return ()
        state = view.partition(look.topic_id, look.partition)
        if state is None or look.error is not None or look.offsets.log_end == UNKNOWN:
            return ()
        return [
            suspicion
            for replica in state.replicas
            if (suspicion := self._of_replica(replica, state, look, view)) is not None
        ]

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        state, replica = view.partition(look.topic_id, look.partition), suspicion.broker or 0
        if state is None or not _is_out(replica, state, view):
            return None
        log_end = look.log_ends.get(replica, UNKNOWN)
        if UNKNOWN in (log_end, look.offsets.log_end):
            return undecided(suspicion, look)
        moves = log_end > (suspicion.first_offset or 0) and log_end < look.offsets.log_end
        return None if moves else suspicion

    def over(self, suspicion: Suspicion, view: View) -> bool:
        state = view.partition(suspicion.topic_id, suspicion.partition or 0)
        return state is None or not _is_out(suspicion.broker or 0, state, view)

    def _of_replica(self, replica: int, state: PartitionChange, look: PartitionLook, view: View) -> Suspicion | None:
        key, log_end, leader_end = (
            (look.topic_id, look.partition, replica),
            look.log_ends.get(replica, UNKNOWN),
            look.offsets.log_end,
        )
        if log_end == UNKNOWN or not _is_out(replica, state, view):
            self._out.pop(key, None)
            return None
        known = self._out.get(key)
        moved = known is not None and log_end != known.log_end and log_end < leader_end
        if known is None or moved:
            if known is not None or len(self._out) < _REPLICAS_MAX:
                self._out[key] = _Out(log_end, leader_end, look.asked_ns)
            return None
        stood_s = (look.answered_ns - known.since_ns) / NS_PER_S
        if known.reported or stood_s <= self.limit_of(look.topic, "stuck_s"):
            return None
        known.reported = True
        behind = leader_end - log_end
        how = (
            f"its log end has been {log_end} since then, {behind:,} below the leader's"
            if behind > 0
            else f"its log ends at {log_end} like the leader's"
        )
        what = (
            f"Broker {replica} is up, but its replica of {look.topic}/{look.partition} has not returned to the ISR for "
            f"{stood_s:.0f} s: {how}."
        )
        suspicion = of_look(self.name, look, cause=numbers([replica]), what=what)
        return replace(
            suspicion,
            first_offset=log_end,
            end_offset=max(log_end, look.offsets.high_watermark),
            broker=replica,
            metadata_offset=state.offset,
        )


def _is_out(replica: int, state: PartitionChange, view: View) -> bool:
    """Whether it should be in the ISR and is not: its broker is up, and no reassignment adds it."""
    broker = view.broker(replica)
    if replica in state.isr or replica in state.adding or replica not in state.replicas:
        return False
    return broker is not None and not broker.fenced and not broker.shutting_down
