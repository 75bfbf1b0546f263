"""The signals of an auditor: SIGTERM and SIGINT end it with 0 at any time, and SIGHUP reads --rules again."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Final, Self


class EndedEarly(BaseException):
    """A signal ended the auditor before it watched. It is no Exception, so that nothing on its way takes it for a
    refusal."""


class Signals:
    """A context. `stop` and `reload` are set by signals.

    Until `watching` is called, SIGTERM and SIGINT raise `EndedEarly` in the main thread, because the start waits for
    brokers. Afterwards they only set `stop`. A second one ends the process at once, as if there were no handler here.
    """

    def __init__(self) -> None:
        self.stop: Final = threading.Event()
        self.reload: Final = threading.Event()
        self._before: dict[int, signal._HANDLER] = {}
        self._starts = True

    def __enter__(self) -> Self:
        for number, handler in ((signal.SIGTERM, self._end), (signal.SIGINT, self._end), (signal.SIGHUP, self._again)):
            self._before[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def watching(self) -> None:
        """From now on the engine sees `stop`."""
        self._starts = False

    def _end(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.stop.is_set():
            signal.signal(number, self._before[number])
            signal.raise_signal(number)
        self.stop.set()
        if self._starts:
            raise EndedEarly

    def _again(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.reload.set()
