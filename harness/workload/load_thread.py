"""The base of every thread that runs with the load: it runs until it is stopped, and reports how it ended."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence

from harness.evidence.writer import TableWriter


class LoadThread(ABC):
    """One daemon thread, described as "`what` `name`" in doubts. An exception that ends it becomes a doubt of `join`.

    `tables`: the tables that only this thread writes, set before it starts. A thread that hangs may wake up while the
    bundle is being closed. So `join` closes its tables, and the thread's next row raises an error that ends the thread.
    """

    def __init__(self, what: str, name: str) -> None:
        self.failure: str | None = None
        self.tables: Sequence[TableWriter] = ()
        self._who = f"{what} {name}"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=f"{what}-{name}", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it runs, and nothing has ended it."""
        return self._thread.is_alive() and self.failure is None

    def stop(self) -> None:
        """Asks the thread to end after its current work; does not wait, see `join`."""
        self._stopping.set()

    def join(self, deadline_s: float) -> str | None:
        """Waits up to `deadline_s` for the end. Returns what went wrong as the text of a doubt, or None."""
        self._thread.join(deadline_s)
        if self._thread.is_alive():
            for table in self.tables:
                table.close()
            return f"{self._who} hangs: {self._hanging(deadline_s)}; its tables were closed without its last rows"
        return None if self.failure is None else f"{self._who} died: {self.failure}"

    def _hanging(self, deadline_s: float) -> str:
        return f"it did not end within {deadline_s:.0f} s"

    def _guarded(self) -> None:
        try:
            self._live()
        except Exception as error:  # the thread ends here; `join` reports the error as a doubt
            self.failure = f"{type(error).__name__}: {error}"

    @abstractmethod
    def _live(self) -> None:
        """The work of the thread, until `_stopping` is set."""
