"""Runs a build below a guard (`build_guard.py`), so that it ends with the harness and leaves no folder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

_LOOK_S = 0.5
_END_S = 10.0
_GUARD: Final = Path(__file__).with_name("build_guard.py")


def run_guarded(
    command: Sequence[str],
    *,
    folder: Path,
    output: Path,
    env: Mapping[str, str],
    deadline_s: float,
    look: Callable[[], object] = lambda: None,
) -> int | None:
    """The exit code of the build; None when it has not ended in time, and was killed. `look` is called every half
    second until then.

    folder: where the build runs and writes everything; when the harness ends first, the guard removes it.
    """
    with output.open("wb") as log:
        guard = subprocess.Popen(
            # -I: neither this directory nor the user's environment shadows the standard library.
            [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()), str(folder), *command],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C goes to the harness, which ends the build
        )
    assert guard.stdin is not None
    try:
        return _wait_for(guard, deadline_s, look)
    finally:
        guard.stdin.close()  # ends a build that still runs
        guard.wait(_END_S)


def _wait_for(guard: subprocess.Popen[bytes], deadline_s: float, look: Callable[[], object]) -> int | None:
    give_up_at = time.monotonic() + deadline_s
    while time.monotonic() < give_up_at:
        try:
            return guard.wait(min(_LOOK_S, max(0.0, give_up_at - time.monotonic())))
        except subprocess.TimeoutExpired:
            look()
    return None
