"""A partition has had fewer replicas in sync than min.insync.replicas for too long."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.rules.restarts import Restarts
from harness.audit.rules.retention import whole
from harness.audit.rules.rule import Limit, Rule, Severity, Suspicion
from harness.audit.rules.sentences import numbers, of_state
from harness.audit.rules.standing import Brokers, Standing, missing_replicas
from harness.audit.store.partitions import NS_PER_MS
from harness.model.history.changes import NO_LEADER, AnyChange, ConfigChange, PartitionChange, ResourceKind

_MIN_ISR: Final = "min.insync.replicas"


class BelowMinIsr(Rule):
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

    def _begin(self) -> None:
        self._standing = Standing(_missing)
        self._restarts = Restarts()

    def on_known(self, state: PartitionChange, view: View) -> None:
        self._standing.note(state, view)

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        self._standing.note_change(after, view)
        self._restarts.note_change(after, view)
        if isinstance(after, ConfigChange) and after.key == _MIN_ISR and not after.from_snapshot:
            for state in view.partitions(after.name if after.kind is ResourceKind.TOPIC else None):
                self._standing.note(state, view)
        return ()

    def on_tick(self, view: View) -> Iterable[Suspicion]:
        for late in self._standing.survey(view, partial(self._is_late, view)):
            others = late.others
            for state, lasted_s in late.named:
                what = (
                    f"{state.topic}/{state.partition} has had fewer replicas in sync than min.insync.replicas="
                    f"{view.setting(state.topic, _MIN_ISR)} for {lasted_s:.0f} s: the ISR is {[*state.isr]}, and "
                    f"{numbers(late.cause)} is missing."
                )
                suspicion = of_state(self.name, state, cause=numbers(late.cause), what=what)
                yield replace(suspicion, at_ns=view.now_ns, broker=late.cause[0], others=others)
                others = 0

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return not self._standing.holds_for((suspicion.broker or 0,))

    def _is_late(self, view: View, state: PartitionChange, cause: Brokers, since_ms: int) -> bool:
        restarts = self._restarts.restarts(cause[0], since_ms, view)
        allowed_s = self.limit_of(state.topic, "restart_s" if restarts else "allowed_s")
        return view.now_ns - since_ms * NS_PER_MS > allowed_s * 1e9


def _missing(state: PartitionChange, view: View) -> Collection[Brokers]:
    needed = min(whole(view.setting(state.topic, _MIN_ISR)) or 1, len(state.replicas))
    if state.leader == NO_LEADER or len(state.isr) >= needed:
        return ()
    return missing_replicas(state, view)
