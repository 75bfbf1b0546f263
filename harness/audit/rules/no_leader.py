"""A partition has had no leader for too long."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.rules.restarts import Restarts
from harness.audit.rules.rule import Limit, Rule, Severity, Suspicion
from harness.audit.rules.sentences import numbers, of_state
from harness.audit.rules.standing import Brokers, Standing
from harness.audit.store.partitions import NS_PER_MS, UNKNOWN
from harness.model.history.changes import NO_LEADER, AnyChange, PartitionChange


class NoLeader(Rule):
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

    def _begin(self) -> None:
        self._standing = Standing(_waits_for)
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
                    f"{state.topic}/{state.partition} has had no leader for {lasted_s:.0f} s; of its replicas "
                    f"{[*state.replicas]}, {numbers(late.cause)} may lead."
                )
                seen = view.offsets(state.topic_id, state.partition)
                known = UNKNOWN not in (seen.log_start, seen.high_watermark)
                suspicion = of_state(self.name, state, cause=numbers(late.cause), what=what)
                yield replace(
                    suspicion,
                    at_ns=view.now_ns,
                    first_offset=seen.log_start if known else None,
                    end_offset=seen.high_watermark if known else None,
                    others=others,
                )
                others = 0

    def over(self, suspicion: Suspicion, view: View) -> bool:
        state = view.partition(suspicion.topic_id, suspicion.partition or 0)
        return state is None or state.leader != NO_LEADER

    def _is_late(self, view: View, state: PartitionChange, cause: Brokers, since_ms: int) -> bool:
        restarts = any(self._restarts.restarts(broker, since_ms, view) for broker in cause)
        allowed_s = self.limit_of(state.topic, "restart_s" if restarts else "allowed_s")
        return view.now_ns - since_ms * NS_PER_MS > allowed_s * 1e9


def _waits_for(state: PartitionChange, _view: View) -> Collection[Brokers]:
    if state.leader != NO_LEADER:
        return ()
    return (tuple(sorted({*state.isr, *state.elr} or {*state.last_known_elr} or {*state.replicas})),)
