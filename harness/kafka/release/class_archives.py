"""Files of class-data archives (JEP 310) in the cache, which all harnesses of a user share."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def usable(archive: Path) -> bool:
    """Whether the archive exists and is not empty. Marks it as used, so that it is not pruned."""
    with suppress(OSError):  # a cache that may only be read has archives, too
        os.utime(archive)
    try:
        return archive.stat().st_size > 0
    except FileNotFoundError:
        return False


def prune(folder: Path, pattern: str, kept: int) -> None:
    """Removes all but the last used files of this pattern: builds come and go. A JVM keeps an archive that it has
    mapped."""
    files = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in files[kept:]:
        path.unlink(missing_ok=True)
