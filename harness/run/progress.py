"""How a long command reports: to the terminal, a log or nowhere."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives one line of text at a time."""

    def __call__(self, text: str) -> None:
        """Reports the present activity. A terminal shows only the last one."""
        ...

    def line(self, text: str) -> None:
        """Prints a line that stays, such as the release, the seed or a doubt, to standard output."""
        ...
