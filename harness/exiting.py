"""How a process of ours ends: every way out has the exit code of DESIGN, and 1 is never an accident."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from harness.model.errors import BadInput
from harness.model.exits import Exit


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived. Not an Exception: nothing but the way out may catch it."""


def guarded(body: Callable[[], Exit]) -> Exit:
    """Runs a command and returns the exit code, whatever happens in it; says why on standard error."""
    with _signals() as arrived:
        try:
            code = body()
            sys.stdout.flush()
        except Terminated:
            return _ended_by(signal.SIGTERM)
        except (KeyboardInterrupt, click.Abort, EOFError):
            return _ended_by(signal.SIGINT)
        except click.ClickException as usage:
            usage.show()
            return Exit.USAGE
        except BadInput as refusal:
            return _said(str(refusal), Exit.USAGE)
        except BaseException as crash:
            # What a signal broke off may say so in its own words: the bridge to Spark's Java does.
            return _ended_by(arrived[0]) if arrived else _crashed(crash)
        return code


def _ended_by(number: int) -> Exit:
    if number == signal.SIGINT:
        return _said("interrupted; everything that was started is stopped", Exit.INTERRUPTED)
    return _said("terminated; everything that was started is stopped", Exit.TERMINATED)


def _crashed(crash: BaseException) -> Exit:
    """A harness error, click's own exit on a closed pipe, a bug: never 1, and the traceback is kept for a report."""
    if _is_closed_stdout(crash):
        _replace_closed_stdout()
        return _said("standard output was closed before everything was said", Exit.HARNESS)
    sentence = str(crash).strip().splitlines()[0] if str(crash).strip() else type(crash).__name__
    try:
        handle, name = tempfile.mkstemp(prefix="durability-traceback-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8") as kept:
            traceback.print_exception(crash, file=kept)
    except OSError:
        traceback.print_exception(crash)
        name = "above"
    return _said(f"the harness failed: {type(crash).__name__}: {sentence}; traceback: {name}", Exit.HARNESS)


def _is_closed_stdout(crash: BaseException) -> bool:
    """A pipe whose reader is gone; click answers that with sys.exit(1). Other broken pipes are failures of ours."""
    if isinstance(crash, SystemExit):
        return isinstance(crash.__context__, BrokenPipeError)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return isinstance(crash, BrokenPipeError)
    return False


def _said(sentence: str, code: Exit) -> Exit:
    print(f"durability: {sentence}", file=sys.stderr, flush=True)
    return code


def _replace_closed_stdout() -> None:
    """The interpreter flushes standard output once more when it ends, and would end in 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The first signal unwinds the stack, so that everything heals and stops; the third one leaves at once.

    Yields the signals that have arrived so far.
    """
    arrived: list[int] = []

    def unwind(number: int, frame: FrameType | None) -> None:
        del frame
        arrived.append(number)
        if len(arrived) == 2:
            os.write(2, b"\ndurability: still cleaning up; once more leaves at once\n")
        else:
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    wanted = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    # What is ignored on purpose (nohup) stays ignored.
    before = {s: signal.signal(s, unwind) for s in wanted if signal.getsignal(s) != signal.SIG_IGN}
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def writable_folder(path: Path) -> None:
    """BadInput unless `path` is a new or empty folder, or can be made one; makes nothing."""
    if path.exists() and not path.is_dir():
        raise BadInput(f"--out {path} is a file; give a folder that does not exist yet")
    if path.is_dir() and any(path.iterdir()):
        raise BadInput(f"--out {path} is not empty; give a folder that does not exist yet, for evidence is not mixed")
    parent = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise BadInput(f"--out {path} cannot be made: {parent} is not a folder that you may write to")
