"""A process that undoes what hooks did when the harness ends without doing so itself, for example by SIGKILL.

Run as a script, by its path, so it imports only the standard library. It reads JSON lines from standard input:
    {"add": KEY, "left": {"inverse": ARGV, "undone": ARGV, "deadline_s": S, "cwd": FOLDER}}    it is about to be done
    {"done": KEY}                                                                               it was undone
    {"running": PID}, {"ended": PID}                                                            a command that does it
When the harness has ended, it kills commands that still run, since they might take effect later. Then it runs the
inverse of everything that is left, the last one first, until the command `undone` exits with 0 or the deadline is over.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TypedDict

_LOOK_S = 0.5  # interval at which it checks that the harness exists
_AGAIN_S = 2.0
_PROBE_S = 0.5


class Left(TypedDict):
    """What is to be undone."""

    inverse: list[str]
    undone: list[str]
    deadline_s: float
    cwd: str


class Said(TypedDict, total=False):
    """A line of the harness."""

    add: str
    left: Left
    done: str
    running: int
    ended: int


def main(parent: int) -> None:
    """Listens until the harness has ended, and then undoes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    left: dict[str, Left] = {}
    running: set[int] = set()
    buffer = b""
    while True:
        readable, _, _ = select.select([0], [], [], _LOOK_S)
        chunk = os.read(0, 65536) if readable else b""
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            _note(json.loads(line), left, running)
        if (readable and not chunk) or os.getppid() != parent:
            break
    for pid in running:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    for key in reversed(list(left)):
        _undo(key, left[key])


def _note(said: Said, left: dict[str, Left], running: set[int]) -> None:
    if "add" in said:
        left[said["add"]] = said["left"]
    if "done" in said:
        left.pop(said["done"], None)
    if "running" in said:
        running.add(said["running"])
    if "ended" in said:
        running.discard(said["ended"])


def _undo(key: str, of: Left) -> None:
    """Runs the inverse at once: what is not in effect yet may look undone."""
    give_up_at = time.monotonic() + of["deadline_s"]
    tried_at = -math.inf
    while True:
        if of["inverse"] and time.monotonic() - tried_at >= _AGAIN_S:
            print(f"{key}: the harness has ended; undoing it: {' '.join(of['inverse'])}", flush=True)
            _run(of["inverse"], of["cwd"], give_up_at)
            tried_at = time.monotonic()
        if _run(of["undone"], of["cwd"], give_up_at) == 0:
            print(f"{key}: undone", flush=True)
            return
        if time.monotonic() >= give_up_at:
            print(f"{key}: NOT undone; run this: {' '.join(of['inverse'])}", flush=True)
            return
        time.sleep(_PROBE_S)


def _run(argv: list[str], cwd: str, give_up_at: float) -> int:
    """Its exit code; -1 if it cannot run, or does not end in time."""
    left_s = max(1.0, give_up_at - time.monotonic())
    try:
        return subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, timeout=left_s, check=False).returncode
    except (OSError, subprocess.TimeoutExpired) as failed:
        print(f"{' '.join(argv)}: {failed}", flush=True)
        return -1


if __name__ == "__main__":
    main(int(sys.argv[1]))
