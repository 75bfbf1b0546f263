"""Processes that ended without a signal from the harness, and the reason as far as their logs have it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from harness.clusters.nodes.node_files import NodeFiles
from harness.clusters.nodes.node_logs import tail
from harness.clusters.processes.runner import ProcessState
from harness.model.documents.process_exit import ProcessExit

_LINES: Final = 20
_SEARCHED: Final = 200  # lines in which the error is
_REACH_BYTES: Final = 1 << 17
_OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"
_NO_SPACE: Final = "No space left on device"
_ADDRESS_IN_USE: Final = "java.net.BindException"
# A JVM says so where the machine refuses memory; its own limit is another error, and the kernel kills without a word.
_NO_MEMORY: Final = ("insufficient memory for the Java Runtime", "Could not reserve enough space for")
REFUSED_SETTINGS: Final = "ConfigException"  # in the error of a node that did not accept its settings
_ERRORS: Final = (" ERROR ", " FATAL ", "Exception", _OUT_OF_MEMORY, "fatal error has been detected")
_Process = tuple[str, int]  # its name, and when it ended: a container that has ended has no pid


class Exits:
    """Remembers every end of a process that the harness has sent no signal to end.

    nodes: files by name. beside: the logs of processes beside the nodes. own_disks: brokers do not use the machine's.
    """

    def __init__(self, nodes: Mapping[str, NodeFiles], beside: Mapping[str, Path], *, own_disks: bool) -> None:
        self._nodes = nodes
        self._beside = beside
        self._own_disks = own_disks
        self._found: dict[_Process, ProcessExit] = {}
        self._recorded: set[_Process] = set()
        self._expected: set[_Process] = set()
        self._sent: set[str] = set()  # names of processes that got a signal since their start
        self._let: set[str] = set()  # names of processes that a fault may end
        self._halts: dict[str, int] = {}  # name of a process -> the exit code with which the harness may end it
        self._sizes: dict[Path, int] = {}  # of logs, when their process started

    def begun(self, name: str) -> None:
        """A new process of this name starts."""
        self._sent.discard(name)
        self._let.discard(name)
        self._halts.pop(name, None)
        self._sizes |= {log: log.stat().st_size if log.exists() else 0 for log in self._logs(name)}

    def sent(self, names: Iterable[str]) -> None:
        """Processes that lived got a signal that ends them."""
        self._sent.update(names)

    def let_end(self, name: str) -> None:
        """A fault may end this process."""
        self._let.add(name)

    def let_halt(self, name: str, code: int) -> None:
        """The harness has told this process to end with this exit code at some moment; that replaces a signal."""
        self._halts[name] = code

    def note(self, states: Mapping[str, ProcessState]) -> None:
        """Remembers those that have ended by now."""
        for name, process in states.items():
            known = name in self._nodes or name in self._beside
            ended = name, process.ended_ns or process.pid
            caused = name in self._sent or process.returncode == self._halts.get(name)
            if process.returncode is None or not known or caused or ended in self._found:
                continue
            self._found[ended] = self._exit(name, process, process.returncode)
            if name in self._let:
                self._expected.add(ended)

    def known(self, *, unexpected: bool = False) -> list[ProcessExit]:
        """Those that no run has recorded, oldest first. unexpected: only those that no fault may have ended."""
        left_out = self._recorded | (self._expected if unexpected else set())
        found = [exit_ for process, exit_ in self._found.items() if process not in left_out]
        return sorted(found, key=lambda exit_: exit_.at_ns)

    def forget(self) -> None:
        """A run has recorded those that are remembered by now."""
        self._recorded |= self._found.keys()

    def _exit(self, name: str, process: ProcessState, code: int) -> ProcessExit:
        logs = self._logs(name)
        searched = [line for log in logs for line in self._last(log, _SEARCHED)]
        errors = [line for line in searched if any(word in line for word in _ERRORS)]
        full = any(_NO_SPACE in line for line in errors) and not self._own_disks
        return ProcessExit(
            name=name,
            node=int(name[1:]) if name in self._nodes else None,
            at_ns=process.ended_ns or time.time_ns(),
            code=None if code < 0 else code,
            signal=-code if code < 0 else None,
            out_of_memory=process.out_of_memory or any(_OUT_OF_MEMORY in line for line in errors),
            host_disk_full=full and name in self._nodes,
            host_memory_full=any(text in line for line in searched for text in _NO_MEMORY) and name in self._nodes,
            address_in_use=any(_ADDRESS_IN_USE in line for line in errors) and name in self._nodes,
            error=errors[-1].strip() if errors else None,
            log=tuple(line for log in logs for line in self._last(log, _LINES)),
        )

    def _logs(self, name: str) -> tuple[Path, ...]:
        files = self._nodes.get(name)
        return (self._beside[name],) if files is None else (files.console, files.server_log)

    def _last(self, log: Path, lines: int) -> list[str]:
        return tail(log, lines, _REACH_BYTES, self._sizes.get(log, 0)).splitlines()
