"""The harness's client of the supervisor process."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from harness.clusters.processes.runner import ProcessState
from harness.model.errors import HarnessFailure, MachineFailure
from harness.model.scratch import DISK_REFUSES, REMEDY

_ANSWER_S = 30.0
_SCRIPT = Path(__file__).with_name("supervisor.py")


class _Process(TypedDict):
    """The state of a process."""

    pid: int
    returncode: int | None
    ended_ns: int | None


class _Answer(TypedDict, total=False):
    """An answer of the supervisor; see there which call has which of them."""

    call: int
    error: str
    errno: int | None
    pid: int
    sent: list[str]
    processes: dict[str, _Process]


class Supervision:
    """Starts the supervisor and calls it, one call at a time, from any thread. Implements `runner.Runner`."""

    def __init__(self, directory: Path, slot_fd: int, *, stay: bool) -> None:
        self._lock = threading.Lock()
        self._buffer = b""
        self._calls = 0
        arguments = [str(os.getpid()), str(directory), str(slot_fd), "stay" if stay else "leave"]
        with (directory / "supervisor.log").open("ab") as errors:
            self._process = subprocess.Popen(
                # -I: files in this directory and the user's environment cannot shadow the standard library.
                [sys.executable, "-I", "-S", str(_SCRIPT), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                pass_fds=(slot_fd,),
                start_new_session=True,  # Ctrl-C reaches only the harness, which ends its clusters in order
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, name: str, argv: Sequence[str], *, cwd: Path, output: Path, env: Mapping[str, str]) -> int:
        """See `Runner`."""
        answer = self._call(do="start", name=name, argv=list(argv), cwd=str(cwd), output=str(output), env=dict(env))
        return int(answer["pid"])

    def signal(self, names: Sequence[str], number: int) -> list[str]:
        """See `Runner`."""
        return list(self._call(do="signal", names=list(names), signal=int(number))["sent"])

    def status(self) -> dict[str, ProcessState]:
        """See `Runner`."""
        processes = self._call(do="status")["processes"]
        return {name: ProcessState(**state) for name, state in processes.items()}

    def add_cleanup(self, argv: Sequence[str], *, first: bool = False) -> None:
        """Adds a command that the supervisor runs after it has ended all processes, for whatever reason it ends them.

        Commands run in the order in which they were added. first: runs right after SIGKILL was sent to all processes,
        before they have ended.
        """
        self._call(do="cleanup", argv=list(argv), first=first)

    def stop(self) -> None:
        """See `Runner`. Ends the supervisor, too."""
        if self._process.poll() is None:
            try:
                self._call(do="stop")
            except HarnessFailure:
                self._process.kill()  # its children die with it (PR_SET_PDEATHSIG)
        self._process.wait(_ANSWER_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def detach(self) -> None:
        """See `Runner`. The supervisor was started to stay."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.returncode = 0  # it is meant to live on: suppresses a ResourceWarning

    def _call(self, **request: object) -> _Answer:
        with self._lock:
            self._calls += 1
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(json.dumps(request | {"call": self._calls}).encode() + b"\n")
                answer: _Answer = {}
                while answer.get("call") != self._calls:  # the answer to an interrupted call may come first
                    answer = json.loads(self._line())
            except (OSError, ValueError) as error:
                raise MachineFailure(f"the supervisor of the cluster has ended ({error})") from error
        if "error" in answer:
            what = f"{request['do']} {request.get('name', '')}".strip()
            remedy = f": {REMEDY}" if answer.get("errno") in DISK_REFUSES else ""
            raise MachineFailure(f"the supervisor of the cluster could not {what}: {answer['error']}{remedy}")
        return answer

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        give_up_at = time.monotonic() + _ANSWER_S
        poll = select.poll()  # not select(): the harness may have more than 1024 open files
        poll.register(self._process.stdout, select.POLLIN)
        while b"\n" not in self._buffer:
            if not poll.poll(max(0.0, give_up_at - time.monotonic()) * 1000):
                raise MachineFailure(f"the supervisor of the cluster did not answer within {_ANSWER_S:g} s")
            chunk = os.read(self._process.stdout.fileno(), 65536)
            if not chunk:
                raise OSError("end of file")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line
