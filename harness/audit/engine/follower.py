"""The thread that reads the metadata log from a feed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from harness.audit.engine.failure import Failed
from harness.audit.feeds.feed import Feed, FeedSilent, Portion

POLL_S = 0.8  # one question to a controller, which writes a record every 0.5 s by default, and time for its answer
_SILENT_S = 0.1


@dataclass(frozen=True, slots=True)
class Silence:
    """The feed gave no answer."""

    why: str


class FollowerThread:
    """Hands over portions one by one: the next poll waits until the engine has used the last one, because a snapshot
    can be read only until then."""

    def __init__(self, feed: Feed, heard: Callable[[Portion | Silence | Failed | None], None]) -> None:
        self._feed = feed
        self._heard = heard
        self._used = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="audit-feed", daemon=True)
        self._thread.start()

    def used(self) -> None:
        """The engine needs the last portion no more."""
        self._used.set()

    def close(self) -> None:
        self._stop.set()
        self._used.set()
        self._feed.close()
        self._thread.join(timeout=10)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                heard: Portion | Silence | Failed | None = self._feed.poll(POLL_S)
            except FeedSilent as silent:
                heard = Silence(str(silent))
                self._stop.wait(_SILENT_S)  # a refused connection answers at once
            except Exception as defect:
                heard = Failed(f"reading from {self._feed.name}", defect)
            if self._stop.is_set():
                return
            self._used.clear()
            self._heard(heard)
            self._used.wait()
