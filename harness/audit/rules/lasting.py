"""The common part of rules about partitions in a state that must not last."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import replace

from harness.audit.engine.view import View
from harness.audit.rules.restarts import Restarts
from harness.audit.rules.rule import Rule, Suspicion
from harness.audit.rules.standing import Brokers, Standing
from harness.model.clock import NS_PER_MS
from harness.model.history.changes import AnyChange, PartitionChange


class LastingRule(Rule):
    """Its limits are `allowed_s`, and `restart_s` while a broker of the cause is restarted.

    A cause is one incident: its first partitions are named, and the others are counted with the first.
    """

    @abstractmethod
    def _causes(self, state: PartitionChange, view: View) -> Collection[Brokers]:
        """The brokers that are the reason, for each reason; empty if the partition is not in the state."""

    @abstractmethod
    def _suspicion(self, state: PartitionChange, cause: Brokers, lasted_s: float, view: View) -> Suspicion: ...

    def _begin(self) -> None:
        self._standing = Standing(self._causes)
        self._restarts = Restarts()

    def on_known(self, state: PartitionChange, view: View) -> None:
        self._standing.note(state, view)

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        self._standing.note_change(after, view)
        self._restarts.note_change(after, view)
        return ()

    def on_tick(self, view: View) -> Iterable[Suspicion]:
        for late in self._standing.survey(view, lambda *of: self._is_late(view, *of)):
            others = late.others
            for state, lasted_s in late.named:
                suspicion = self._suspicion(state, late.cause, lasted_s, view)
                yield replace(suspicion, at_ns=view.now_ns, others=others)
                others = 0

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return not self._standing.holds_for((suspicion.broker or 0,))

    def _is_late(self, view: View, state: PartitionChange, cause: Brokers, since_ms: int) -> bool:
        restarts = any(self._restarts.restarts(broker, since_ms, view) for broker in cause)
        allowed_s = self.limit_of(state.topic, "restart_s" if restarts else "allowed_s")
        return view.now_ns - since_ms * NS_PER_MS > allowed_s * 1e9
