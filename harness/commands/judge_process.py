"""Judges bundles while further scenarios run, in a process of its own that takes only what the brokers leave idle.

Judging one batch costs far more for the batch than for each of its bundles (planning), so the process always takes all
bundles that wait. It reads the path of one bundle from each line of its standard input, answers with lines of JSON, and
ends when its standard input ends: at the latest with the gate, also by SIGKILL.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from harness.commands.exit_codes import guarded
from harness.commands.verify import BatchVerdicts, judge_each, start_spark
from harness.evidence.verdicts import read_verdict
from harness.model.exits import Exit
from harness.run.progress import Progress

_LOWEST_PRIORITY: Final = 19
_LOOK_S: Final = 0.2
_END_S: Final = 10.0


class JudgeProcess:
    """The process, for a `with` statement. Bundles that it leaves without an answer are judged in this process."""

    def __init__(self) -> None:
        self._started = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.commands.judge_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,  # Ctrl-C goes to the gate, which ends it
        )
        self._waiting: list[Path] = []
        self._answered: dict[Path, str | None] = {}  # why there is no verdict; None where it is written
        self._crashed: set[Path] = set()
        self._doing = "starting Spark"
        self._reader = threading.Thread(target=self._read, name="judge", daemon=True)
        self._reader.start()

    @property
    def process(self) -> psutil.Process:
        """The process itself; the Java process of Spark is below it."""
        return psutil.Process(self._started.pid)

    def __enter__(self) -> JudgeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        _close(self._started)
        self._reader.join()

    def add(self, bundle: Path) -> None:
        """Has a sealed bundle judged, soon."""
        self._waiting.append(bundle)
        assert self._started.stdin is not None
        with suppress(BrokenPipeError):  # `verdicts` reports the end of the process
            self._started.stdin.write(f"{bundle.absolute()}\n")
            self._started.stdin.flush()

    def verdicts(self, progress: Progress) -> BatchVerdicts:
        """The verdicts on all bundles since the last call. Called when no broker runs: it has the machine then."""
        bundles, self._waiting = self._waiting, []
        with suppress(OSError):  # only root may raise it again; and the process may have ended
            os.setpriority(os.PRIO_PGRP, self._started.pid, 0)
        self._wait_for(bundles, progress)
        answered = {path: self._answered[path.absolute()] for path in bundles if path.absolute() in self._answered}
        here = BatchVerdicts()
        if missing := [path for path in bundles if path not in answered]:
            progress.line(f"the judging process ended early ({self._end()}); judging again here: {len(missing)}")
            here = judge_each(missing, progress)
        without = {path: why for path, why in answered.items() if why is not None}
        crashed = {path for path in without if path.absolute() in self._crashed}
        return BatchVerdicts(
            verdicts={**here.verdicts, **{path: read_verdict(path) for path in answered if path not in without}},
            refused={**here.refused, **{path: why for path, why in without.items() if path not in crashed}},
            crashed={**here.crashed, **{path: without[path] for path in crashed}},
        )

    def _wait_for(self, bundles: Sequence[Path], progress: Progress) -> None:
        while self._reader.is_alive():
            left = sum(path.absolute() not in self._answered for path in bundles)
            if not left:
                return
            progress(f"judging {left} of {len(bundles)} bundles: {self._doing}")
            time.sleep(_LOOK_S)

    def _read(self) -> None:
        assert self._started.stdout is not None
        with self._started.stdout as answers:
            for line in answers:
                self._note(json.loads(line))

    def _note(self, answer: dict[str, Any]) -> None:
        if "doing" in answer:
            self._doing = answer["doing"]
            return
        self._crashed.update(map(Path, answer["crashed"]))
        self._answered.update({Path(path): None for path in answer["judged"]})
        self._answered.update({Path(p): why for p, why in {**answer["refused"], **answer["crashed"]}.items()})

    def _end(self) -> str:
        code = self._started.wait(_END_S)
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _close(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Answers:
    """What the process answers, as lines of JSON. What Java prints to standard output goes to standard error."""

    def __init__(self) -> None:
        self._lines = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def __call__(self, text: str) -> None:
        self.send({"doing": text})

    line = __call__

    def send(self, answer: Mapping[str, object]) -> None:
        print(json.dumps(answer), file=self._lines, flush=True)


def _serve() -> Exit:
    """Judges until standard input ends, which interrupts it at any moment."""
    os.nice(_LOWEST_PRIORITY)
    answers, ended = _Answers(), threading.Event()
    given: queue.SimpleQueue[Path] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(given, ended), daemon=True).start()
    try:
        start_spark()
        while True:
            bundles = [given.get()]
            while not given.empty():
                bundles.append(given.get())
            _judge(bundles, answers)
    except BaseException:  # the bridge to Java replaces the exception of a signal by its own
        if ended.is_set():
            return Exit.PASS
        raise


def _receive(given: queue.SimpleQueue[Path], ended: threading.Event) -> None:
    for line in sys.stdin:
        given.put(Path(line.rstrip("\n")))
    ended.set()
    os.kill(os.getpid(), signal.SIGTERM)


def _judge(bundles: Sequence[Path], answers: _Answers) -> None:
    each = judge_each(bundles, answers)
    answers.send(
        {
            "judged": [str(path) for path in each.verdicts],
            "refused": {str(path): why for path, why in each.refused.items()},
            "crashed": {str(path): why for path, why in each.crashed.items()},
        }
    )


if __name__ == "__main__":
    sys.exit(int(guarded(_serve)))
