"""An auditor as a process of its own: its command, and its last words."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def command(options: Mapping[str, object]) -> list[str]:
    """The command with these options; those with None are left out."""
    given = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    return [sys.executable, "-m", "harness.commands.main", "audit", *given]


def last_line(errors: Path) -> str:
    """The last line that it wrote to this file, which is the reason if it ended with an error."""
    lines = errors.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it wrote nothing"
