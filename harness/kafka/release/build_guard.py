"""Runs a build that ends when its harness ends, even by SIGKILL. Run as a script, by its path: standard library only.

    build_guard.py PARENT FOLDER COMMAND...

The build gets a process group of its own. When the harness closes standard input, or when it is no longer the parent of
this process, the whole group is killed and FOLDER, which holds everything that the build writes, is removed. The build
itself also gets PR_SET_PDEATHSIG=SIGKILL, in case this process is killed. The harness cannot start the build like that
itself: the kernel sends the signal when the *thread* that forked ends, and a harness prepares in threads.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36  # compilers become children of this process when their parent is killed
_LOOK_S = 0.2  # how often the build and the existence of the harness are checked
_NOT_STARTED = 127

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    parent, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        build = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=_die_with(os.getpid()))
    except OSError as error:
        print(f"it cannot be started ({error.strerror})")
        sys.exit(_NOT_STARTED)

    def abandon(*_: object) -> None:
        os.killpg(build.pid, signal.SIGKILL)
        while _reaped():
            pass
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(128 + signal.SIGKILL)

    signal.signal(signal.SIGTERM, abandon)
    while build.poll() is None:
        readable, _, _ = select.select([0], [], [], _LOOK_S)
        if (readable and not os.read(0, 1)) or os.getppid() != parent:
            abandon()
    sys.exit(build.returncode if build.returncode >= 0 else 128 - build.returncode)


def _reaped() -> bool:
    """Waits for the end of one process of the build; False when there is none left."""
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        return False
    return True


def _die_with(guard: int) -> Callable[[], None]:
    def before_exec() -> None:
        if _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != guard:  # it died in between: the signal would never come
            os._exit(1)

    return before_exec


if __name__ == "__main__":
    main()
