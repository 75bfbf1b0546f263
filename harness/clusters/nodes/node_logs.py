"""The logs of nodes: their last lines, the last error among these, and a text that appears."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

STARTED: Final = b"Kafka Server started"


class LogWatch:
    """Looks for a text, by default "Kafka Server started", in the lines that a log gains after this was made."""

    def __init__(self, path: Path, wanted: bytes = STARTED) -> None:
        self._path = path
        self._wanted = wanted
        self._position = path.stat().st_size if path.exists() else 0
        self._seen = False

    def seen(self) -> bool:
        """Whether the text has appeared. Reads only the part that is new since the last call."""
        if not self._seen and self._path.exists():
            with self._path.open("rb") as log:
                log.seek(self._position)
                new = log.read()
            self._seen = self._wanted in new
            self._position += max(0, len(new) - len(self._wanted))  # the text may arrive in two parts
        return self._seen


def tail(path: Path, lines: int = 20, reach_bytes: int = 16384, since_bytes: int = 0) -> str:
    """The last lines of a log, from at most its last `reach_bytes`, and behind its first `since_bytes`.

    Empty if the log does not exist. One that has become shorter since is a new one.
    """
    try:
        with path.open("rb") as log:
            size = path.stat().st_size
            log.seek(max(0, size - reach_bytes, since_bytes if since_bytes <= size else 0))
            return "\n".join(log.read().decode("utf-8", "replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def last_line(path: Path) -> str:
    """The last line of a log; empty if there is none."""
    lines = tail(path).splitlines()
    return lines[-1] if lines else ""


def last_error_of(lines: Sequence[str]) -> str:
    """The last line with an error; without one, the last line that is not blank."""
    errors = [line for line in lines if any(word in line for word in (" ERROR ", " FATAL ", "Exception"))]
    return (errors or [line for line in lines if line.strip()] or ["no output"])[-1].strip()
