"""Runs hooks, keeps their output, and knows what they did that is not undone yet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from harness.model.errors import HarnessFailure, HarnessTimeout, MachineFailure
from harness.model.hooks import Hooks

_POLL_S: Final = 0.2
_KEPT_BYTES: Final = 4000  # of the output of one command
# Runs the command only when the keeper knows of it: else it might take effect after a harness that is killed just then.
_AT_WORD: Final = 'read -r go && exec "$@" </dev/null'
_SCRIPT: Final = Path(__file__).with_name("keeper.py")


class Ran(NamedTuple):
    """The end of a command. code: None = it did not end in time."""

    code: int | None
    output: str

    @property
    def words(self) -> str:
        """How it ended, and the last line of its output."""
        lines = self.output.strip().splitlines()
        how = "it did not end in time" if self.code is None else f"exit code {self.code}"
        return f"{how}: {lines[-1]}" if lines else how


@dataclass(frozen=True, slots=True)
class Done:
    """Something that a hook did. key: names it in messages, such as "kill of node 3"."""

    key: str
    operation: str
    values: Mapping[str, str]


class HookRunner:
    """Thread-safe. Close it after use: that undoes everything that is left."""

    def __init__(self, hooks: Hooks, log: Path) -> None:
        self.log = log
        self._hooks = hooks
        self._folder = hooks.file.absolute().parent
        self._left: dict[str, Done] = {}
        self._lock = threading.Lock()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SCRIPT), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C reaches only the harness, which undoes in order
            )

    @property
    def left(self) -> tuple[str, ...]:
        """The keys of what is not undone."""
        with self._lock:
            return tuple(self._left)

    def apply(self, done: Done) -> None:
        """Does something and returns when it has an effect. HarnessFailure or HarnessTimeout otherwise; what was begun
        is to be undone in any case."""
        hook = self._hooks.of[done.operation]
        with self._lock:
            self._left[done.key] = done
        self._tell(
            add=done.key,
            left={
                "inverse": self._argv(done, "inverse"),
                "undone": self._argv(done, "undone"),
                "deadline_s": hook.deadline_s,
                "cwd": str(self._folder),
            },
        )
        self._must(done, "command")
        self._await(done, "in_effect", "to have an effect")

    def undo(self, key: str) -> None:
        """Runs the inverse, if there is one, and does not wait for the result. Nothing where it is undone already."""
        with self._lock:
            done = self._left.get(key)
        if done is not None and self._argv(done, "inverse"):
            self._must(done, "inverse")

    def await_undone(self, key: str, deadline_s: float | None = None) -> None:
        """Waits until the hook's own command says that it is undone. HarnessTimeout otherwise."""
        with self._lock:
            done = self._left.get(key)
        if done is not None:
            self._await(done, "undone", "to be undone", deadline_s)
            self._forget(done)

    def is_undone(self, key: str) -> bool:
        """Whether it is undone, asked now. One that returns by itself is known to be so only by that."""
        with self._lock:
            done = self._left.get(key)
        if done is None:
            return True
        if self._run(done, "undone", quiet=True).code != 0:
            return False
        self._forget(done)
        return True

    def undo_all(self) -> list[str]:
        """Undoes everything, the last first. Returns a sentence for each thing that could not be undone."""
        failed = []
        for key in reversed(self.left):
            try:
                if not self.is_undone(key):
                    self.undo(key)
                self.await_undone(key)
            except HarnessFailure as problem:
                failed.append(str(problem))
        return failed

    def close(self) -> list[str]:
        """`undo_all`, and ends the keeper, which tries once more what is left. Returns what could not be undone."""
        failed = self.undo_all()
        if self._keeper.stdin is not None:
            with suppress(OSError):
                self._keeper.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._keeper.wait(max((hook.deadline_s for hook in self._hooks.of.values()), default=0) + 10)
        with suppress(FileNotFoundError):
            if not self.log.stat().st_size:
                self.log.unlink()
        return failed

    def _forget(self, done: Done) -> None:
        with self._lock:
            self._left.pop(done.key, None)
        self._tell(done=done.key)

    def _tell(self, **said: object) -> None:
        """Tells the keeper. It is missed only if the harness is killed, so its death stops new faults alone."""
        pipe = self._keeper.stdin
        assert pipe is not None
        try:
            with self._lock:
                pipe.write(json.dumps(said).encode() + b"\n")
                pipe.flush()
        except (OSError, ValueError) as broken:  # ValueError: it is closed, after a signal interrupted that
            if "add" in said:
                raise MachineFailure(f"the process that undoes hooks after a crash has ended: {broken}") from broken

    def _argv(self, done: Done, part: str) -> list[str]:
        return self._hooks.argv(done.operation, part, done.values)

    def _must(self, done: Done, part: str) -> None:
        ran = self._run(done, part)
        if ran.code != 0:
            kind = HarnessTimeout if ran.code is None else HarnessFailure
            raise kind(f"the hook's {part} for the {done.key} failed ({ran.words}): {' '.join(self._argv(done, part))}")

    def _await(self, done: Done, part: str, what: str, deadline_s: float | None = None) -> None:
        deadline_s = self._hooks.of[done.operation].deadline_s if deadline_s is None else deadline_s
        give_up_at, first = time.monotonic() + deadline_s, True
        while (ran := self._run(done, part, quiet=not first)).code != 0:
            if time.monotonic() >= give_up_at:
                raise HarnessTimeout(
                    f"waited {deadline_s:g} s for the {done.key} {what}; the hook's {part} last said {ran.words}"
                )
            first = False
            time.sleep(_POLL_S)
        if not first:
            self._note(done, part, ran, 0.0)

    def _run(self, done: Done, part: str, *, quiet: bool = False) -> Ran:
        """Runs one command to its end. quiet: it is not noted, because it runs often."""
        argv, deadline_s = self._argv(done, part), self._hooks.of[done.operation].deadline_s
        began_s = time.monotonic()
        # Not a pipe: a node that a command starts in the background may keep it open for as long as it runs.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                ["sh", "-c", _AT_WORD, "sh", *argv],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._tell(running=process.pid)
            assert process.stdin is not None
            with suppress(OSError), process.stdin as word:
                word.write(b"go\n")
            code = _ended(process, deadline_s)
            self._tell(ended=process.pid)
            output.seek(max(0, output.seek(0, os.SEEK_END) - _KEPT_BYTES))
            ran = Ran(code, output.read().decode("utf-8", "replace"))
        if not quiet:
            self._note(done, part, ran, time.monotonic() - began_s)
        return ran

    def _note(self, done: Done, part: str, ran: Ran, took_s: float) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        lines = [f"{at} {done.key}, {part} ({took_s:.2f} s): {' '.join(self._argv(done, part))}"]
        lines += [f"    {line}" for line in ran.output.strip().splitlines()]
        lines.append(f"    -> {'no end in time' if ran.code is None else ran.code}")
        with self._lock, self.log.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def _ended(process: subprocess.Popen[bytes], deadline_s: float) -> int | None:
    """The exit code; None, and the command is killed, if it does not end in time."""
    try:
        return process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        _kill(process.pid)
        process.wait()
        return None
    except BaseException:  # a signal: the command must not go on after its inverse
        _kill(process.pid)
        process.wait()
        raise


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
