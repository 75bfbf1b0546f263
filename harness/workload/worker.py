"""A thread of the load: it runs until it is stopped, and says how it ended."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Worker(ABC):
    """One thread, `what` of that name. What kills it becomes a doubt, handed over by `join`."""

    def __init__(self, what: str, name: str) -> None:
        self.failure: str | None = None
        self._who = f"{what} {name}"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=f"{what}-{name}", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Asks for the end; what is under way is seen through. `join` waits for it."""
        self._stopping.set()

    def join(self, deadline_s: float) -> str | None:
        """Waits for the end. Returns what went wrong, as the text of a doubt, or None."""
        self._thread.join(deadline_s)
        if self._thread.is_alive():
            return f"{self._who} hangs: {self._hanging(deadline_s)}"
        return None if self.failure is None else f"{self._who} died: {self.failure}"

    def _hanging(self, deadline_s: float) -> str:
        return f"it did not end within {deadline_s:.0f} s"

    def _guarded(self) -> None:
        try:
            self._live()
        except Exception as error:  # the thread's last word; `join` hands it on as a doubt
            self.failure = f"{type(error).__name__}: {error}"

    @abstractmethod
    def _live(self) -> None:
        """All that the thread does, until it is told to stop."""
