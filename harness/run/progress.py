"""How a long command reports: to the terminal, a log or nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable


class Progress(Protocol):
    """Receives one line of text at a time."""

    def __call__(self, text: str) -> None:
        """Reports the present activity. A terminal shows only the last one."""
        ...

    def line(self, text: str) -> None:
        """Prints a line that stays, such as the release, the seed or a doubt, to standard output."""
        ...


@runtime_checkable
class DetailedProgress(Progress, Protocol):
    """A progress that separates activities inside of a scenario, which a log omits, from all others."""

    def detail(self, text: str) -> None:
        """Reports the present activity inside of a scenario. A log omits it: it has one line a scenario."""
        ...


def detail_of(progress: Progress) -> Callable[[str], None]:
    """Where the activities inside of a scenario go."""
    return progress.detail if isinstance(progress, DetailedProgress) else progress
