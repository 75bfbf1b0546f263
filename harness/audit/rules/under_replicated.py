"""A replica has been out of the ISR for too long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.rules.restarts import Restarts
from harness.audit.rules.rule import Limit, Rule, Severity, Suspicion
from harness.audit.rules.sentences import numbers, of_state
from harness.audit.rules.standing import Brokers, Standing, missing_replicas
from harness.audit.store.partitions import NS_PER_MS
from harness.model.history.changes import AnyChange, PartitionChange


class UnderReplicated(Rule):
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

    def _begin(self) -> None:
        self._standing = Standing(missing_replicas)
        self._restarts = Restarts()

    def on_known(self, state: PartitionChange, view: View) -> None:
        self._standing.note(state, view)

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        self._standing.note_change(after, view)
        self._restarts.note_change(after, view)
        return ()

    def on_tick(self, view: View) -> Iterable[Suspicion]:
        for late in self._standing.survey(view, partial(self._is_late, view)):
            others = late.others
            for state, lasted_s in late.named:
                what = (
                    f"{state.topic}/{state.partition} has been without {numbers(late.cause)} in its ISR for "
                    f"{lasted_s:.0f} s: the ISR is {[*state.isr]} of the replicas {[*state.replicas]}."
                )
                suspicion = of_state(self.name, state, cause=numbers(late.cause), what=what)
                yield replace(
                    suspicion,
                    at_ns=view.now_ns,
                    broker=late.cause[0],
                    others=others,
                    severity=Severity.NOTICE if len(state.isr) > 1 else None,
                )
                others = 0

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return not self._standing.holds_for((suspicion.broker or 0,))

    def _is_late(self, view: View, state: PartitionChange, cause: Brokers, since_ms: int) -> bool:
        restarts = self._restarts.restarts(cause[0], since_ms, view)
        allowed_s = self.limit_of(state.topic, "restart_s" if restarts else "allowed_s")
        return view.now_ns - since_ms * NS_PER_MS > allowed_s * 1e9
