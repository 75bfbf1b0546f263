"""Working folders outside of any run. Their names have the owner's process id, so folders of dead processes are
known.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"durability-[a-z]+-(\d+)-\w+")


def scratch(what: str) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder of this process. It remains only if the process is killed. `what` is one word."""
    return tempfile.TemporaryDirectory(prefix=f"durability-{what}-{os.getpid()}-")


def abandoned() -> list[Path]:
    """Folders of this user whose process has ended."""
    found = []
    for path in Path(tempfile.gettempdir()).glob("durability-*"):
        match = _NAME.fullmatch(path.name)
        if match and not Path("/proc", match[1]).exists() and path.lstat().st_uid == os.getuid():
            found.append(path)
    return found
