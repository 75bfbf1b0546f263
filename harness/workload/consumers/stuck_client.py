"""Whether librdkafka's consumer has stopped by itself, whatever its brokers do.

Its main thread can wait for ever for a lock that one of its broker threads has, which in turn waits for a lock of the
main thread: when the leader with which it checks its position dies, and the client has just removed that broker (its
issue 5476). Polls then return nothing, and closing never returns. The main thread also reports statistics at fixed
times, without any broker: a client that is polled and reports none for long is stuck. So is one that does not return
from a commit: it gives up its requests after socket.timeout.ms, and its wait for a coordinator after the session.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

from harness.model.clock import now_ns

WHY: Final = "librdkafka waited for itself for ever (such as its issue 5476)"
STUCK_S: Final = 10.0  # many intervals of statistics
# A poll hands over the statistics. Between two polls a reader may wait for long, for example for its coordinator.
STUCK_POLLS: Final = 20


class Pulse:
    """The times of a client's statistics. `note`: what else is done with them."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self.begin()

    def begin(self) -> None:
        """Another client begins."""
        self._hangs = False
        self._reset()

    def take(self, statistics: str) -> None:
        """The `stats_cb` of the client."""
        self._reset()
        self._note(statistics)

    def hang(self) -> None:
        """A call of the client does not return."""
        self._hangs = True

    def polled(self) -> None:
        """A poll of the client has returned."""
        self._polls += 1

    @property
    def stuck(self) -> bool:
        """Whether a call hangs, or the client, although it was polled, has reported nothing for too long."""
        silent = self._polls >= STUCK_POLLS and now_ns() - self._last_ns > STUCK_S * 1e9
        return self._hangs or silent

    def _reset(self) -> None:
        self._last_ns, self._polls = now_ns(), 0


def keep_for_ever(client: object) -> None:
    """Keeps a stuck client alive until the process ends: destroying it would never return."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
