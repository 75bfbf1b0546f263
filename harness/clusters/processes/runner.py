"""Who starts and ends the processes of a cluster: a supervisor on this machine, or a container engine."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What is known of one process; `returncode` is negative for a signal, None while it lives.

    `why` follows on the status where whoever ran it knows more.
    """

    pid: int
    returncode: int | None
    ended_ns: int | None
    why: str = ""

    @property
    def alive(self) -> bool:
        return self.returncode is None

    @property
    def status(self) -> str:
        if self.returncode is None:
            return "running"
        if self.returncode < 0:
            return f"signal {signal.Signals(-self.returncode).name}{self.why}"
        return f"exit code {self.returncode}{self.why}"


class Memory(Protocol):
    """What limits the memory of each process."""

    def squeeze(self, name: str) -> int:
        """Lowers the limit of a running process to what it takes now, and returns it, in bytes."""
        ...

    def release(self, name: str) -> None:
        """The limit that it was started with. Idempotent."""
        ...


class Runner(Protocol):
    """Raises HarnessFailure when what runs the processes is gone or refuses."""

    def start(self, name: str, argv: Sequence[str], *, cwd: Path, output: Path, env: Mapping[str, str]) -> int:
        """Starts a process, its standard output and error appended to `output`, and returns its pid."""
        ...

    def signal(self, names: Sequence[str], number: int) -> list[str]:
        """Sends a signal to those of `names` that live, at one moment, and returns them."""
        ...

    def status(self) -> dict[str, ProcessState]:
        """Of everything that was ever started, by name."""
        ...

    def stop(self) -> None:
        """Everything dead, and nothing left of it but files. Idempotent."""
        ...

    def let_go(self) -> None:
        """Lets everything go on without the harness."""
        ...
