"""Brokers that are restarted on purpose or came back, for which rules wait longer."""

from __future__ import annotations

from harness.audit.engine.view import View
from harness.model.clock import NS_PER_MS
from harness.model.history.changes import AnyChange, BrokerChange, BrokerEvent


class Restarts:
    """When brokers registered, by the clock of this machine."""

    def __init__(self) -> None:
        self._registered_ms: dict[int, int] = {}

    def note_change(self, after: AnyChange, view: View) -> None:
        if isinstance(after, BrokerChange) and after.event is BrokerEvent.REGISTERED and not after.from_snapshot:
            self._registered_ms[after.broker] = view.now_ns // NS_PER_MS

    def restarts(self, broker: int, since_ms: int, view: View) -> bool:
        """Whether it left by a controlled shutdown, or has registered since then."""
        known = view.broker(broker)
        in_shutdown = known is not None and known.shutting_down
        return in_shutdown or self._registered_ms.get(broker, -1) >= since_ms
