"""The interface that starts and ends the processes of a cluster: by a supervisor, or by a container engine."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.clusters.base import OUT_OF_MEMORY


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The state of one process. `returncode` is negative for a signal, and None while the process lives.

    out_of_memory: the runner knows that it reached the limit of its memory.
    """

    pid: int
    returncode: int | None
    ended_ns: int | None
    out_of_memory: bool = False

    @property
    def alive(self) -> bool:
        return self.returncode is None

    @property
    def status(self) -> str:
        if self.returncode is None:
            return "running"
        if self.returncode < 0:
            return f"signal {signal.Signals(-self.returncode).name}{self._memory}"
        return f"exit code {self.returncode}{self._memory}"

    @property
    def _memory(self) -> str:
        return f", {OUT_OF_MEMORY}" if self.out_of_memory else ""


class Memory(Protocol):
    """Limits the memory of single processes."""

    def squeeze(self, name: str) -> int:
        """Lowers the limit of a running process to the memory that it uses now. Returns the limit in bytes."""
        ...

    def release(self, name: str) -> None:
        """Restores the limit with which the process was started. Idempotent."""
        ...


class Runner(Protocol):
    """Starts, signals and ends processes by name. HarnessFailure when the supervisor or engine fails or refuses."""

    def start(self, name: str, argv: Sequence[str], *, cwd: Path, output: Path, env: Mapping[str, str]) -> int:
        """Starts a process and returns its pid. Its standard output and error are appended to `output`."""
        ...

    def signal(self, names: Sequence[str], number: int) -> list[str]:
        """Sends a signal at one moment to those of `names` that live, and returns these."""
        ...

    def status(self) -> dict[str, ProcessState]:
        """The state of every process that was ever started, by name."""
        ...

    def stop(self) -> None:
        """Ends all processes and removes everything except files. Idempotent."""
        ...

    def detach(self) -> None:
        """Leaves all processes running without the harness."""
        ...
