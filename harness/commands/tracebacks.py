"""Tracebacks go into a file that the message names: a terminal shows one sentence, and a report has all of it."""

from __future__ import annotations

import os
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path


def save_traceback(crash: BaseException, file: Path | None = None) -> str:
    """Writes the traceback to `file`, or to a new file of the temporary folder, and returns where it is.

    `file` is replaced where it exists. Where neither place can be written, the traceback goes to standard error.
    """
    for name in (file, None):
        with suppress(OSError, MemoryError):
            return _write(crash, name)
    with suppress(OSError, MemoryError):
        traceback.print_exception(crash)
    return "above"


def first_line(crash: BaseException) -> str:
    """The first line of the error's text; the name of its class where it has no text."""
    return next(iter(str(crash).strip().splitlines()), type(crash).__name__)


def _write(crash: BaseException, file: Path | None) -> str:
    if file is None:
        handle, name = tempfile.mkstemp(prefix="durability-traceback-", suffix=".txt")
    else:
        handle, name = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644), str(file)
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as kept:
        traceback.print_exception(crash, file=kept)
    return name
