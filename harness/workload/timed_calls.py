"""Calls into a client library that may never return, each with a deadline."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar, cast

_T = TypeVar("_T")


class CallHung(Exception):  # noqa: N818 - a state of a call, not an error of ours
    """The call did not return in time and may still be running; its client must not be touched again."""


class TimedCalls:
    """Runs calls one at a time in a thread of its own, so that a call that hangs costs a thread and not the load."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[object, BaseException | None]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name=f"timed-calls-{name}", daemon=True).start()

    def call(self, call: Callable[[], _T], deadline_s: float) -> _T:
        """The call's result or exception. CallHung after `deadline_s` seconds; this object is useless from then on."""
        self._calls.put(call)
        try:
            result, error = self._answers.get(timeout=deadline_s)
        except queue.Empty:
            raise CallHung(f"no return within {deadline_s:g} s") from None
        if error is not None:
            raise error
        return cast(_T, result)

    def close(self) -> None:
        """Ends the thread after its current call."""
        self._calls.put(None)

    def _serve(self) -> None:
        while self._served(self._calls.get()):
            pass  # it keeps no call, and so no client, while it waits for the next one

    def _served(self, call: Callable[[], object] | None) -> bool:
        """Runs one call; False for the end."""
        if call is None:
            return False
        try:
            self._answers.put((call(), None))
        except BaseException as error:  # raised again in the caller's thread
            self._answers.put((None, error))
        return True
