"""The process that starts a cluster's processes and dies last. Run as a script, by its path: standard library only.

Everything that it starts gets PR_SET_PDEATHSIG=SIGKILL. That signal fires when the *thread* that forked ends, hence one
long-lived process whose only thread starts everything. It ends, and takes everything with it, when its harness is gone
(the harness's death is seen even while a child of the harness holds the pipe open) unless it is told to stay.

Protocol: one JSON object a line on standard input, one answer a line on standard output, both with the call's number
("call"); an answer with an "error" did nothing.
    {"do": "start", "name", "argv", "cwd", "output", "env"}  -> {"pid"}
    {"do": "signal", "names", "signal"}                      -> {"sent": [names]}
    {"do": "status"}                                         -> {"processes": {name: {"pid", "returncode", "ended_ns"}}}
    {"do": "stay", "stay": bool}                             -> {}
    {"do": "farewell", "argv", "first"}                      -> {}   run, after those told before, when everything else
                                                                    is dead; `first`: when it has been sent SIGKILL
    {"do": "stop"}                                           -> {}   everything dead; then it ends itself
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
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_LOOK_S = 0.2  # how often the harness's existence is checked
_DEATH_S = 10.0  # SIGKILL to the end of a process
_FAREWELL_S = 25.0  # within the time that the harness waits for an answer

_libc = ctypes.CDLL(None, use_errno=True)


class Supervisor:
    """State of the loop: what was started, and whether the end of the harness is the end of everything."""

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
        """Serves until it is stopped, or the harness is gone."""
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
                    shutil.rmtree(self.directory, ignore_errors=True)  # a sweep finds what could not be removed
                return

    def _serve(self, line: bytes) -> None:
        request = json.loads(line)
        call = request.pop("call")
        try:
            answer = getattr(self, f"do_{request.pop('do')}")(**request)
        except Exception as error:  # the harness decides what it means; we have to go on living
            answer = {"error": f"{type(error).__name__}: {error}"}
        with contextlib.suppress(BrokenPipeError):  # the harness has just ended; the loop sees that
            os.write(1, json.dumps(answer | {"call": call}).encode() + b"\n")

    def do_start(self, name: str, argv: list[str], cwd: str, output: str, env: dict[str, str]) -> dict[str, Any]:
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
                pass_fds=(self.slot_fd,),  # the slot is taken until the last of them is gone
            )
        self.ended_ns.pop(name, None)
        return {"pid": self.processes[name].pid}

    def do_signal(self, names: list[str], signal: int) -> dict[str, Any]:
        self._reap()
        alive = [name for name in names if name in self.processes and name not in self.ended_ns]
        for name in alive:
            self.processes[name].send_signal(signal)
        return {"sent": alive}

    def do_status(self) -> dict[str, Any]:
        self._reap()
        return {
            "processes": {
                name: {"pid": process.pid, "returncode": process.returncode, "ended_ns": self.ended_ns.get(name)}
                for name, process in self.processes.items()
            }
        }

    def do_stay(self, stay: bool) -> dict[str, Any]:
        self.stay = stay
        return {}

    def do_farewell(self, argv: list[str], first: bool = False) -> dict[str, Any]:
        (self.first if first else self.last).append(argv)
        return {}

    def do_stop(self) -> dict[str, Any]:
        self.stop_everything()
        self.stopped = True
        return {}

    def _reap(self) -> None:
        for name, process in self.processes.items():
            if name not in self.ended_ns and process.poll() is not None:
                self.ended_ns[name] = time.time_ns()

    def stop_everything(self) -> bool:
        """SIGKILL, at one moment, and until they are gone; then the farewells, and whether they did what they should.

        Who waits for a frozen disk dies only when that is thawed, hence those that come first.
        """
        give_up_at = time.monotonic() + _FAREWELL_S
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
        first, self.first, last, self.last = self.first, [], self.last, []
        done = [_did(argv, give_up_at) for argv in first]
        for process in self.processes.values():
            process.wait(_DEATH_S)
        return all([*done, *(_did(argv, give_up_at) for argv in last)])


def _did(argv: list[str], give_up_at: float) -> bool:
    """Runs a farewell, within what is left of the time; whether it did what it should."""
    try:
        left_s = max(1.0, give_up_at - time.monotonic())
        return subprocess.run(argv, timeout=left_s, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _die_with(supervisor: int) -> Any:
    def before_exec() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != supervisor:  # it died in between: the signal would never come
            os._exit(1)

    return before_exec


def main() -> None:
    parent, directory, slot_fd, stay = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "stay"
    supervisor = Supervisor(parent, directory, slot_fd, stay)

    def on_terminate(_number: int, _frame: object) -> None:
        supervisor.stop_everything()
        os._exit(0)

    # SIGTERM is how `clean` ends a cluster; an interrupt of the terminal is the harness's affair.
    signal.signal(signal.SIGTERM, on_terminate)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    supervisor.run()


if __name__ == "__main__":
    main()
