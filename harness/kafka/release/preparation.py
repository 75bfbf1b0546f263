"""Preparations that run at the same time: a Go build needs the processors while downloads wait for the network.

Each task runs in a thread of its own. The locks of the cache hold between threads as they hold between processes, so
two tasks that need the same file make it once. A task fails with the exception that it would have raised alone, and
the caller gets that exception when it asks for the result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from harness.kafka.release.cache import Progress
from harness.model.errors import HarnessFailure

T = TypeVar("T")
_STOP_S: Final = 1.0


class Stopped(HarnessFailure):
    """A task reported progress after its preparation was given up."""


class Prepared(Generic[T]):
    """The result of a task that may still be running."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def result(self) -> T:
        """Waits for the task. Raises what the task raised."""
        return self._future.result()


class Preparation:
    """Starts tasks and joins them. A `with` block waits at its end for all of them, or until the first one fails.

    When the block ends with an error, its own or a task's, the other tasks are stopped: each of them ends at its next
    report of progress, which comes every few seconds.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._stopped = False
        self._futures: list[Future[Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.join()
        finally:
            with self._lock:
                self._stopped = True
            wait(self._futures, _STOP_S)

    def start(self, what: str, work: Callable[[Progress], T]) -> Prepared[T]:
        """Calls `work(progress)` in a thread, which is named by `what`."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work(self._say))
            except BaseException as error:  # raised again in the thread that asks for the result
                future.set_exception(error)

        self._futures.append(future)
        # A daemon thread, so that the end of the process waits for no download. build_guard.py ends a build.
        threading.Thread(target=run, name=f"prepare {what}", daemon=True).start()
        return Prepared(future)

    def join(self) -> None:
        """Waits for every task, or until one fails. Raises the error of the failed task that was started first."""
        wait(self._futures, return_when=FIRST_EXCEPTION)
        for future in self._futures:
            if future.done():
                future.result()

    def _say(self, text: str) -> None:
        """Passes on one text at a time. Raises Stopped in a task that is to stop, which ends its work."""
        with self._lock:
            if self._stopped:
                raise Stopped(f"stopped before the end: {text}")
            self._progress(text)
