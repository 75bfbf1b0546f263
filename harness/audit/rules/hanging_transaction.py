"""A transaction has been open for longer than its timeout: its coordinator should have aborted it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeAlias

from harness.audit.engine.view import View
from harness.audit.look import TransactionLook
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import NAMED_MAX, lasting
from harness.model.clock import NS_PER_S
from harness.model.severity import Severity

_OPEN: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_MS_PER_S: Final = 1_000
_TRANSACTIONS_MAX: Final = 10_000
_UNLIMITED_MS: Final = 2**31 - 1  # of a client with two-phase commit (KIP-939)
_Key: TypeAlias = tuple[str, int, int, int]


@dataclass(slots=True)
class _Open:
    first_ns: int
    last_ns: int
    reported: bool = False


class HangingTransaction(Rule):
    """The time is that between two looks of this machine, and not the coordinator's clock: clocks differ."""

    name: ClassVar[str] = "hanging_transaction"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = (
        "Readers with read_committed receive nothing that was written after the transaction began. Retention may "
        "delete those records before they are read."
    )
    remedy: ClassVar[str] = "See why the coordinator cannot end it, or abort it (kafka-transactions.sh abort)."
    source: ClassVar[str] = "KIP-664, KIP-890, KAFKA-16352; TransactionStateManager"
    needs: ClassVar[frozenset[str]] = frozenset({"transactions"})
    limits: ClassVar[Mapping[str, Limit]] = {"slack_s": Limit(60.0, "time beyond the timeout of the transaction")}

    def _begin(self) -> None:
        self._open: dict[_Key, _Open] = {}

    def on_transaction(self, look: TransactionLook, view: View) -> Iterable[Suspicion]:
        key = look.transactional_id, look.producer_id, look.producer_epoch, look.started_ms
        if look.state not in _OPEN:
            self._open.pop(key, None)
            return ()
        known = self._open.setdefault(key, _Open(look.answered_ns, look.answered_ns))
        known.last_ns = look.answered_ns
        if len(self._open) > _TRANSACTIONS_MAX:
            del self._open[next(iter(self._open))]
        lasted_s = (look.answered_ns - known.first_ns) / NS_PER_S
        allowed_s = look.timeout_ms / _MS_PER_S + self.limit["slack_s"]
        if known.reported or lasted_s <= allowed_s or look.timeout_ms >= _UNLIMITED_MS:
            return ()
        known.reported = True
        return self._hanging(look, lasted_s, view)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        """It is over when it was not seen open for `slack_s`."""
        last_ns = max(
            (seen.last_ns for key, seen in self._open.items() if key[0] == suspicion.detail["transactional.id"]),
            default=suspicion.at_ns,
        )
        return view.covers("transactions") and view.now_ns - last_ns > self.limit["slack_s"] * NS_PER_S

    def _hanging(self, look: TransactionLook, lasted_s: float, view: View) -> Iterable[Suspicion]:
        what = (
            f"A transaction of {look.transactional_id} (producer {look.producer_id}, epoch {look.producer_epoch}) has "
            f"been seen in state {look.state} for {lasted_s:.0f} s; its timeout is {lasting(look.timeout_ms)}."
        )
        first = Suspicion(
            rule=self.name,
            cause=f"transactional.id {look.transactional_id}",
            what=what,
            at_ns=look.answered_ns,
            detail={"transactional.id": look.transactional_id},
        )
        others = max(0, len(look.places) - NAMED_MAX)
        for topic, partition in look.places[:NAMED_MAX]:
            yield replace(first, topic=topic, topic_id=view.topic_id(topic) or "", partition=partition, others=others)
            others = 0
        if not look.places:
            yield first
