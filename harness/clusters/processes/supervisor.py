"""The process that starts the processes of a cluster and ends after them.

Run as a script, by its path, so it imports only the standard library. Every process that it starts gets
PR_SET_PDEATHSIG=SIGKILL. The kernel sends that signal when the *thread* that forked ends: therefore one long-lived
process with a single thread starts everything. When its harness ends, the supervisor ends all processes and itself,
unless it was started to stay. It notices the end of the harness even while a child of the harness holds the pipe open.

Protocol: one JSON object a line on standard input, one answer a line on standard output, both with the number of the
call ("call"). If the answer has an "error", the call did nothing.
    {"do": "start", "name", "argv", "cwd", "output", "env"}  -> {"pid"}
    {"do": "signal", "names", "signal"}                      -> {"sent": [names]}
    {"do": "status"}                                         -> {"processes": {name: {"pid", "returncode", "ended_ns"}}}
    {"do": "cleanup", "argv", "first"}                       -> {}   a command to run when all processes have ended, in
                                                                    the order of the calls; `first`: when they have
                                                                    been sent SIGKILL
    {"do": "stop"}                                           -> {}   ends all processes, then itself
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LOOK_S = 0.2  # interval at which it checks that the harness exists
_DEATH_S = 10.0  # from SIGKILL to the end of a process
_CLEANUP_S = 25.0  # shorter than the time that the harness waits for an answer

_libc = ctypes.CDLL(None, use_errno=True)


class Supervisor:
    """The main loop and its state. `stay`: the processes go on when the harness ends."""

    def __init__(self, parent: int, directory: Path, slot_fd: int, stay: bool) -> None:
        self.parent = parent
        self.directory = directory
        self.slot_fd = slot_fd
        self.stay = stay
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ended_ns: dict[str, int] = {}
        self.first: list[list[str]] = []
        self.last: list[list[str]] = []
        self.stopped = False

    def run(self) -> None:
        """Serves calls until it is stopped, or until the harness ends."""
        buffer = b""
        listening = True
        while not self.stopped:
            readable, _, _ = select.select([0] if listening else [], [], [], _LOOK_S)
            self._reap()
            if readable:
                chunk = os.read(0, 65536)
                listening = bool(chunk)
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    self._serve(line)
            if not self.stay and (not listening or os.getppid() != self.parent):
                if self.stop_everything():
                    shutil.rmtree(self.directory, ignore_errors=True)  # a later sweep removes what is left
                return

    def _serve(self, line: bytes) -> None:
        request = json.loads(line)
        call = request.pop("call")
        try:
            answer = getattr(self, f"do_{request.pop('do')}")(**request)
        except Exception as error:  # the harness decides what it means; the supervisor has to go on
            answer = {"error": f"{type(error).__name__}: {error}", "errno": getattr(error, "errno", None)}
        with contextlib.suppress(BrokenPipeError):  # the harness has just ended; the loop notices it
            os.write(1, json.dumps(answer | {"call": call}).encode() + b"\n")

    def do_start(self, name: str, argv: list[str], cwd: str, output: str, env: dict[str, str]) -> dict[str, object]:
        self._reap()
        if name in self.processes and name not in self.ended_ns:
            raise ValueError(f"{name} is running")
        with open(output, "ab") as out:  # noqa: PTH123
            self.processes[name] = subprocess.Popen(
                argv,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with(os.getpid()),
                pass_fds=(self.slot_fd,),  # the slot stays taken until the last process ends
            )
        self.ended_ns.pop(name, None)
        return {"pid": self.processes[name].pid}

    def do_signal(self, names: list[str], signal: int) -> dict[str, object]:
        self._reap()
        alive = [name for name in names if name in self.processes and name not in self.ended_ns]
        for name in alive:
            self.processes[name].send_signal(signal)
        return {"sent": alive}

    def do_status(self) -> dict[str, object]:
        self._reap()
        return {
            "processes": {
                name: {"pid": process.pid, "returncode": process.returncode, "ended_ns": self.ended_ns.get(name)}
                for name, process in self.processes.items()
            }
        }

    def do_cleanup(self, argv: list[str], first: bool = False) -> dict[str, object]:
        (self.first if first else self.last).append(argv)
        return {}

    def do_stop(self) -> dict[str, object]:
        self.stop_everything()
        self.stopped = True
        return {}

    def _reap(self) -> None:
        for name, process in self.processes.items():
            if name not in self.ended_ns and process.poll() is not None:
                self.ended_ns[name] = time.time_ns()

    def stop_everything(self) -> bool:
        """Kills all processes at one moment, waits for their end, and runs the cleanup commands.

        Returns whether all commands succeeded. The `first` ones run before the wait: they thaw frozen disks, and a
        process that waits for a frozen disk ends only after the thaw.
        """
        give_up_at = time.monotonic() + _CLEANUP_S
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
        first, self.first, last, self.last = self.first, [], self.last, []
        done = [_succeeded(argv, give_up_at) for argv in first]
        for process in self.processes.values():
            process.wait(_DEATH_S)
        return all([*done, *(_succeeded(argv, give_up_at) for argv in last)])


def _succeeded(argv: list[str], give_up_at: float) -> bool:
    """Runs a cleanup command within the time that is left. Returns whether it succeeded."""
    try:
        left_s = max(1.0, give_up_at - time.monotonic())
        return subprocess.run(argv, timeout=left_s, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _die_with(supervisor: int) -> Callable[[], None]:
    def before_exec() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != supervisor:  # it has ended meanwhile: the signal would never come
            os._exit(1)

    return before_exec


def main() -> None:
    parent, directory, slot_fd, stay = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "stay"
    supervisor = Supervisor(parent, directory, slot_fd, stay)

    def on_terminate(_number: int, _frame: object) -> None:
        supervisor.stop_everything()
        os._exit(0)

    # `durability clean` ends a cluster by SIGTERM. An interrupt from the terminal is for the harness.
    signal.signal(signal.SIGTERM, on_terminate)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    supervisor.run()


if __name__ == "__main__":
    main()
