"""Alarms as lines on standard output: sentences, or one JSON object a line."""

from __future__ import annotations

import json
from typing import TextIO

from harness.audit.alarms.alarm import Alarm
from harness.audit.alarms.event import Event, event_plain, line
from harness.audit.alarms.outbox import Outbox
from harness.audit.alarms.sink import EventSink


class Lines(EventSink):
    """A terminal that accepts no more lines loses them and does not stop the auditor. They are counted as dropped."""

    def __init__(self, out: TextIO, *, cluster_id: str, as_json: bool) -> None:
        super().__init__(Outbox("audit-lines", self._write))
        self._out = out
        self._cluster_id = cluster_id
        self._as_json = as_json

    def form(self, event: Event, alarm: Alarm, at_ns: int, *, repeated: bool) -> str:
        if self._as_json:
            return json.dumps(event_plain(event, alarm, self._cluster_id, at_ns, repeated=repeated))
        return line(event, alarm, at_ns, repeated=repeated)

    def _write(self, message: bytes) -> str | None:
        try:
            self._out.write(f"{message.decode()}\n")
            self._out.flush()
        except (OSError, ValueError) as refused:  # ValueError: it is closed
            return f"standard output accepts no more lines ({refused})"
        return None
