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
from typing import Final, Generic, Self, TypeVar

from harness.kafka.release.cache import Progress
from harness.model.errors import HarnessFailure

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_STOP_S: Final = 1.0


class Stopped(HarnessFailure):
    """A task reported progress after its preparation was given up."""


class Prepared(Generic[T_co]):
    """The result of a task that may still be running."""

    def __init__(self) -> None:
        self.future: Future[T_co] = Future()
        self.asked = False  # its end, and its error if any, is known to the caller

    def result(self) -> T_co:
        """Waits for the task. Raises what the task raised, which the end of the preparation then does not raise again.

        So a caller may go on without the result of a task that failed.
        """
        try:
            return self.future.result()
        finally:
            self.asked = self.future.done()

    def run(self, work: Callable[[], T_co]) -> None:
        """Does the work in the calling thread and keeps its result or its error."""
        try:
            self.future.set_result(work())
        except BaseException as error:  # raised again in the thread that asks for the result
            self.future.set_exception(error)


class Preparation:
    """Starts tasks and joins them. A `with` block waits at its end for all of them, or until the first one fails.

    When the block ends with an error, its own or a task's, the other tasks are stopped: each of them ends at its next
    report of progress, which comes every few seconds.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._stopped = False
        self._tasks: list[Prepared[object]] = []

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
            wait([task.future for task in self._tasks], _STOP_S)

    def start(self, what: str, work: Callable[[Progress], T]) -> Prepared[T]:
        """Calls `work(progress)` in a thread, which is named by `what`."""
        task: Prepared[T] = Prepared()
        self._tasks.append(task)
        # A daemon thread, so that the end of the process waits for no download. build_guard.py ends a build.
        threading.Thread(target=task.run, args=(lambda: work(self._say),), name=f"prepare {what}", daemon=True).start()
        return task

    def join(self) -> None:
        """Waits for every task, or until one fails. Raises the error of the failed task that was started first."""
        left = [task.future for task in self._tasks if not task.asked]
        wait(left, return_when=FIRST_EXCEPTION)
        for future in left:
            if future.done():
                future.result()

    def _say(self, text: str) -> None:
        """Passes on one text at a time. Raises Stopped in a task that is to stop, which ends its work."""
        with self._lock:
            if self._stopped:
                raise Stopped(f"stopped before the end: {text}")
            self._progress(text)
