"""How a long command reports: to the terminal, a log or nowhere."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives one line of text at a time."""

    def __call__(self, text: str) -> None:
        """What is being done now. A terminal shows only the last one."""
        ...

    def line(self, text: str) -> None:
        """What stays on the screen: the release, the seed, a doubt. It goes to standard output."""
        ...
