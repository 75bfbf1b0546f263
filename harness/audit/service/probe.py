"""The child process of --probe: starts it again when it ends, and makes alarms of what it finds."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from harness.audit.rules.reported import Probe
from harness.audit.rules.rule import Suspicion
from harness.model.errors import BadInput

STARTED_S: Final = 60.0
_PAUSE_S: Final = 5.0  # before a child that has ended is started again
_PAUSE_S_MAX: Final = 300.0
_END_S: Final = 15.0
_COMMAND: Final = (sys.executable, "-m", "harness.workload.probe")
_WORDS: Final = {
    "lost": "does not return",
    "corrupt": "returns other bytes for",
    "refused": "answers with an error for",
}
_TWICE: Final = "twice some seconds apart"
_LONG: Final = "for more than a minute"


class ProbeChild:
    """Supervises one child. `counts` and `problem` are replaced as a whole; problem: why nothing is probed now."""

    def __init__(
        self,
        task: Mapping[str, object],
        rule: Probe | None,
        command: tuple[str, ...] = _COMMAND,
        pause_s: float = _PAUSE_S,
    ) -> None:
        """BadInput if the child refuses the task at the start."""
        self.counts: Mapping[str, int] = {}
        self.problem: str | None = None
        self._task = json.dumps(task)
        self._rule = rule
        self._command = command
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._said = threading.Event()  # it has started, or refused
        self._started = False  # once at least, however soon it ended then
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._work, name="audit-probe", daemon=True)
        self._thread.start()
        if not self._said.wait(STARTED_S):
            self.close()
            raise BadInput(f"the probe did not start within {STARTED_S:g} s; start the auditor without --probe")
        if self.problem is not None and not self._started:
            self.close()
            raise BadInput(self.problem)

    def close(self) -> None:
        self._stop.set()
        process = self._process
        if process is not None:
            _end(process)
        self._thread.join(timeout=_END_S)

    def _work(self) -> None:
        pause_s = self._pause_s
        while not self._stop.is_set():
            with subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ) as process:
                self._process = process
                began = self._talk(process)
                _end(process)
            if self._stop.is_set():
                return
            self.problem = self.problem or f"its process ended with code {process.returncode}"
            self._said.set()
            pause_s = self._pause_s if began else min(2 * pause_s, _PAUSE_S_MAX)
            self._stop.wait(pause_s)

    def _talk(self, process: subprocess.Popen[str]) -> bool:
        """Reads rows until the child ends. Returns whether it started."""
        began = False
        with suppress(OSError, ValueError):  # it ended in the middle of a line
            _pipe(process.stdin).write(f"{self._task}\n")
            _pipe(process.stdin).flush()
            for line in _pipe(process.stdout):
                began = self._row(json.loads(line)) or began
        return began

    def _row(self, row: Mapping[str, object]) -> bool:
        """Takes a row of the child; whether it is the first one of a child that works."""
        match row["row"]:
            case "started":
                self.problem, self._started = None, True
                self._said.set()
                return True
            case "refused":
                self.problem = f"{row['why']}"
                self._said.set()
            case "counts":
                counts = row["counts"]
                assert isinstance(counts, dict)
                self.counts = {str(name): int(count) for name, count in counts.items()}
            case "finding" if self._rule is not None:
                self._rule.mailbox.report(suspicion_of(row))
        return False


def suspicion_of(row: Mapping[str, object]) -> Suspicion:
    """A finding of the child as a suspicion."""
    topic, wrong = str(row["topic"]), str(row["wrong"])
    partition, first, end = (_whole(row[name]) for name in ("partition", "first_offset", "end_offset"))
    where = "The remote tier, by way of leader" if row["tier"] else "Leader" if row["leads"] else "Follower"
    count = end - first
    records = f"{count:,} acknowledged records, offsets {first} to {end - 1}" if count > 1 else f"offset {first}"
    how_long = _LONG if wrong == "refused" else _TWICE
    return Suspicion(
        rule=Probe.name,
        cause=f"{topic}-{partition} {wrong}",
        what=f"{where} {row['broker']} {_WORDS[wrong]} {records} of {topic}-{partition}, {how_long}.",
        at_ns=_whole(row["at_ns"]),
        topic=topic,
        topic_id=str(row["topic_id"]),
        partition=partition,
        first_offset=first,
        end_offset=end,
        broker=_whole(row["broker"]),
    )


def task_of(bootstrap: str, client: Mapping[str, str], topic: str, folder: Path, *, tiered: bool) -> dict[str, object]:
    return {"bootstrap": bootstrap, "client": dict(client), "topic": topic, "folder": str(folder), "tiered": tiered}


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value


def _pipe(of: IO[str] | None) -> IO[str]:
    assert of is not None  # Popen was asked for it
    return of


def _end(process: subprocess.Popen[str]) -> None:
    """The child ends with its standard input; one that does not is killed."""
    with suppress(OSError):  # it has ended, and does not read what is left
        _pipe(process.stdin).close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
