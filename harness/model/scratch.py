"""Temporary files: working folders outside of any run, and one clear sentence when such files cannot be written."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from harness.model.errors import BadInput, HarnessError

# The name carries the process id, so that after a SIGKILL another process knows that the folder is not in use.
_NAME: Final = re.compile(r"durability-[a-z]+-(\d+)-\w+")
# Full, over quota, read-only: errors of the file system itself, which need not name a file.
DISK_REFUSES: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
REMEDY: Final = "free space there, or set TMPDIR to a folder that you may write to"


def scratch(what: str) -> tempfile.TemporaryDirectory[str]:
    """A working folder of this process, removed at its end unless the process is killed. `what` is one word.

    BadInput when it cannot be made.
    """
    try:
        return tempfile.TemporaryDirectory(prefix=f"durability-{what}-{os.getpid()}-")
    except OSError as refused:
        raise BadInput(_sentence(refused.filename, refused)) from refused


def abandoned() -> list[Path]:
    """Working folders of this user that belong to processes that no longer exist."""
    found = []
    for path in Path(tempfile.gettempdir()).glob("durability-*"):
        match = _NAME.fullmatch(path.name)
        with suppress(FileNotFoundError):  # another process has just removed it
            if match and not Path("/proc", match[1]).exists() and path.lstat().st_uid == os.getuid():
                found.append(path)
    return found


@contextmanager
def writing_below(folder: Path, kind: type[HarnessError] = BadInput) -> Iterator[None]:
    """Raises `kind`, with cause and remedy in one sentence, when files below the temporary `folder` cannot be written.

    The causes are a full or read-only disk, missing rights, and a file where a folder is needed. Other errors pass.
    """
    try:
        yield
    except shutil.Error as several:  # of copytree: one (source, target, text) for each file
        _, target, why = several.args[0][0]
        raise kind(f"{target} cannot be written ({why}): {REMEDY}") from several
    except OSError as refused:
        name = str(refused.filename) if refused.filename is not None else ""
        below = name and Path(name).absolute().is_relative_to(folder.absolute())
        if refused.errno not in DISK_REFUSES and not below:
            raise
        raise kind(_sentence(name or folder, refused)) from refused


def _sentence(path: str | Path | None, refused: OSError) -> str:
    return f"{path or 'a temporary folder'} cannot be written ({refused.strerror or refused}): {REMEDY}"
