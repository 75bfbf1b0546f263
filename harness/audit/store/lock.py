"""The lock of a database: one auditor writes it. It is free again when its process ends, however that happens."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from harness.model.errors import BadInput

FILE: Final = "audit.lock"
_PATIENCE_S: Final = 1.0  # `audit status` holds the lock for a moment


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a database; BadInput if another process does, or if the folder cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / FILE).open("a+", encoding="ascii")
    except OSError as refused:
        raise BadInput(
            f"--db {folder} cannot be written ({refused.strerror}): give a folder that you may write to"
        ) from None
    with file:
        give_up_s = time.monotonic() + _PATIENCE_S
        while not _taken(file):
            if time.monotonic() > give_up_s:
                raise BadInput(
                    f"--db {folder} is in use by another auditor{_process(folder)}: stop that one, or give another "
                    "folder"
                )
            time.sleep(0.05)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def running(folder: Path) -> int | None:
    """The process of the auditor that writes the database now; None without one."""
    try:
        with (folder / FILE).open(encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return _number(file.read())
    except OSError:
        return None
    return None


def _taken(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _process(folder: Path) -> str:
    try:
        number = _number((folder / FILE).read_text(encoding="ascii"))
    except OSError:
        return ""
    return f" (process {number})" if number else ""


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
