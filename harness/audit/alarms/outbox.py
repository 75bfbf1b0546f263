"""A thread that delivers alarms, so that a slow receiver never holds up the engine."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

QUEUE_MAX: Final = 1000
_PAUSE_S: Final = 1.0  # before the second try; it doubles with each further one
_PAUSE_S_MAX: Final = 60.0
_CLOSE_S: Final = 5.0  # for what waits when the auditor ends


@dataclass(frozen=True, slots=True)
class Delivered:
    """The fate of the messages so far. failure: why the last try failed; None after a delivery."""

    sent: int = 0
    dropped: int = 0
    waiting: int = 0
    failure: str | None = None


class Outbox:
    """Delivers messages one by one, in their order.

    deliver: returns None, or why it failed. It may block. keep_s: how long one message is tried again; 0 = once.
    A full queue drops its oldest message, and so is a message dropped that was refused for `keep_s`; both are counted.
    """

    def __init__(self, name: str, deliver: Callable[[bytes], str | None], *, keep_s: float = 0.0) -> None:
        self._deliver = deliver
        self._keep_s = keep_s
        self._queue: deque[bytes] = deque()
        self._sent = self._dropped = self._under_way = 0
        self._failure: str | None = None
        self._changed = threading.Condition()
        self._closed_s: float | None = None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def put(self, message: bytes) -> None:
        with self._changed:
            if len(self._queue) >= QUEUE_MAX:
                self._queue.popleft()
                self._dropped += 1
            self._queue.append(message)
            self._changed.notify()

    @property
    def delivered(self) -> Delivered:
        with self._changed:
            return Delivered(self._sent, self._dropped, len(self._queue) + self._under_way, self._failure)

    def close(self) -> Delivered:
        """Tries to deliver what waits, within some seconds. What then still waits is dropped."""
        with self._changed:
            self._closed_s = time.monotonic()
            self._changed.notify()
        self._thread.join(_CLOSE_S)
        with self._changed:
            self._dropped += len(self._queue) + self._under_way
            self._under_way = 0
            self._queue.clear()
        return self.delivered

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed_s is not None)
                if not self._queue:
                    return
                message = self._queue.popleft()
                self._under_way = 1
            self._try(message)

    def _try(self, message: bytes) -> None:
        give_up_s, pause_s = time.monotonic() + self._keep_s, _PAUSE_S
        while True:
            failure = self._deliver(message)
            with self._changed:
                self._failure = failure
                if failure is None:
                    self._sent, self._under_way = self._sent + 1, 0
                    return
                left_s = give_up_s - time.monotonic()
                if left_s > 0 and self._closed_s is None:
                    self._changed.wait_for(lambda: self._closed_s is not None, timeout=min(pause_s, left_s))
                if self._closed_s is not None or left_s <= 0:
                    self._dropped, self._under_way = self._dropped + 1, 0
                    return
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)
