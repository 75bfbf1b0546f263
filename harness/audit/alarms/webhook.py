"""Alarms as HTTP requests: one POST with a JSON object for each event. README.md shows the object."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from harness.audit.alarms.alarm import Alarm
from harness.audit.alarms.event import Event, event_plain
from harness.audit.alarms.outbox import Outbox
from harness.audit.alarms.sink import EventSink

KEEP_S: Final = 600.0  # how long an event is tried again that the server did not accept


class Webhook(EventSink):
    """post: sends a body, and returns None if the server accepted it, else a sentence."""

    def __init__(self, post: Callable[[bytes], str | None], *, cluster_id: str, keep_s: float = KEEP_S) -> None:
        super().__init__(Outbox("audit-webhook", post, keep_s=keep_s))
        self._cluster_id = cluster_id

    def form(self, event: Event, alarm: Alarm, at_ns: int, *, repeated: bool) -> str:
        return json.dumps(event_plain(event, alarm, self._cluster_id, at_ns, repeated=repeated))
