"""Working folders outside of any run, named so that whoever comes after a SIGKILL knows that nobody uses them."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"durability-[a-z]+-(\d+)-\w+")


def scratch(what: str) -> tempfile.TemporaryDirectory[str]:
    """A folder of this process, gone with it unless it is killed. `what` is one word."""
    return tempfile.TemporaryDirectory(prefix=f"durability-{what}-{os.getpid()}-")


def forsaken() -> list[Path]:
    """Those of processes that are no more, of this user."""
    found = []
    for path in Path(tempfile.gettempdir()).glob("durability-*"):
        match = _NAME.fullmatch(path.name)
        if match and not Path("/proc", match[1]).exists() and path.lstat().st_uid == os.getuid():
            found.append(path)
    return found
