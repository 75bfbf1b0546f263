"""A command that ends with the thread that started it, so that nothing outlives a crash of the harness."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

# exec keeps the setting of prctl. If the parent died before prctl, the signal would never come: hence the comparison.
_LAUNCH: Final = (
    "import ctypes, os, sys; parent = int(sys.argv[1]); ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); "
    "os.getppid() == parent and os.execv(sys.argv[2], sys.argv[2:])"
)


def bound(command: Sequence[str]) -> list[str]:
    """The command, to be started by a thread that lives as long as the process may (PR_SET_PDEATHSIG=SIGKILL)."""
    return [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *command]
