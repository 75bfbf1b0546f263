"""A sink that shows each event of an alarm in its own form."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from harness.audit.alarms.alarm import Alarm
from harness.audit.alarms.event import Event
from harness.audit.alarms.outbox import Delivered, Outbox


class EventSink(ABC):
    """A `Sink` with an outbox, so that it never blocks the engine."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    @abstractmethod
    def form(self, event: Event, alarm: Alarm, at_ns: int, *, repeated: bool) -> str:
        """The message of one event."""

    def show(self, event: Event, alarm: Alarm, *, repeated: bool = False) -> None:
        self.put(self.form(event, alarm, time.time_ns(), repeated=repeated))

    @property
    def idle(self) -> bool:
        return self._outbox.delivered.waiting == 0

    @property
    def delivered(self) -> Delivered:
        return self._outbox.delivered

    def close(self) -> Delivered:
        """Delivers what waits, within some seconds."""
        return self._outbox.close()

    def put(self, text: str) -> None:
        """A message that is about no alarm, or about one."""
        self._outbox.put(text.encode(errors="backslashreplace"))
