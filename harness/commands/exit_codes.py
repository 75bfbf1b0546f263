"""How a process of ours ends: every way out has its exit code (`harness.model.exits`), and 1 is never an accident.

It imports no library, so that it works where one is broken.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TextIO

from harness.commands.tracebacks import first_line, save_traceback
from harness.model.errors import BadInput, HarnessError
from harness.model.exits import Exit


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived. It is not an Exception, so that only `guarded` catches it."""


def open_streams() -> None:
    """Makes standard output and error usable: both are open, and both accept every character.

    A standard output that was closed becomes a pipe without a reader: output that cannot be delivered is an error. A
    standard error that was closed becomes /dev/null. Both keep their file descriptors 1 and 2, or the next file that
    the process opens would receive the output.
    """
    if sys.stdout is None:
        reader, writer = os.pipe()
        os.close(reader)
        sys.stdout = _in_place_of(1, writer)
    if sys.stderr is None:
        sys.stderr = _in_place_of(2, os.open(os.devnull, os.O_WRONLY))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _in_place_of(number: int, opened: int) -> TextIO:
    try:
        os.fstat(number)  # another file may have got the number meanwhile
    except OSError:
        os.dup2(opened, number)
        os.close(opened)
        opened = number
    return os.fdopen(opened, "w", encoding="utf-8")


def guarded(body: Callable[[], Exit]) -> Exit:
    """Runs a command and returns its exit code, whatever is raised in it; standard error says why in one sentence."""
    with _signals() as arrived:
        try:
            code = body()
            sys.stdout.flush()
        except Terminated:
            code = _ended_by(signal.SIGTERM)
        except KeyboardInterrupt:
            code = _ended_by(signal.SIGINT)
        except BadInput as refusal:
            code = _say(str(refusal), Exit.USAGE)
        except BaseException as crash:
            # A library may replace the exception of a signal by its own: the bridge to Spark's Java does.
            code = _ended_by(arrived[0]) if arrived else _crashed(crash)
        _replace_broken_streams()
        return code


def _ended_by(number: int) -> Exit:
    if number == signal.SIGINT:
        return _say("interrupted; everything that was started is stopped", Exit.INTERRUPTED)
    return _say("terminated; everything that was started is stopped", Exit.TERMINATED)


def _crashed(crash: BaseException) -> Exit:
    """An error of the harness, a bug, or a standard output that accepts no more. The traceback is kept in a file."""
    if broken := _broken_output(crash):
        return _say(broken, Exit.HARNESS)
    where = save_traceback(crash)
    if isinstance(crash, MemoryError):
        return _say(f"the memory of this process does not suffice: see ulimit -v; traceback: {where}", Exit.HARNESS)
    # Sentences of HarnessError are complete; of any other error its class is part of the message.
    name = "" if isinstance(crash, HarnessError) else f"{type(crash).__name__}: "
    return _say(f"the harness failed: {name}{first_line(crash)}; traceback: {where}", Exit.HARNESS)


def _broken_output(crash: BaseException) -> str:
    """Why standard output accepts no more; empty when it does: then the broken pipe or full disk is another one."""
    if not isinstance(crash, OSError):
        return ""
    try:
        print(flush=True)  # not flush() alone: an unbuffered stream has nothing left to flush
    except BrokenPipeError:
        return "standard output was closed before all output was written"
    except OSError as full:
        return f"standard output accepts no more ({full.strerror}): redirect it to another place"
    return ""


def _say(sentence: str, code: Exit) -> Exit:
    with suppress(OSError):  # without a reader for the sentence, the exit code is left
        print(f"durability: {sentence}", file=sys.stderr, flush=True)
    return code


def _replace_broken_streams() -> None:
    """The interpreter flushes both streams once more when it ends, and would end in 120 where that fails."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The first signal unwinds the stack, so that faults are healed and clusters stopped; the third ends the process.

    Yields the list of the signals that have arrived so far.
    """
    arrived: list[int] = []

    def unwind(number: int, frame: FrameType | None) -> None:
        del frame
        arrived.append(number)
        if len(arrived) == 2:
            os.write(2, b"\ndurability: still cleaning up; one more signal ends this at once\n")
        else:
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    wanted = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    # A signal that is ignored on purpose (nohup) stays ignored.
    before = {s: signal.signal(s, unwind) for s in wanted if signal.getsignal(s) != signal.SIG_IGN}
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def writable_folder(path: Path) -> None:
    """BadInput unless `path` is a new or empty folder, or can become one; leaves nothing behind."""
    try:
        if os.path.lexists(path) and not path.is_dir():
            raise BadInput(f"--out {path} is a file or a link to nothing; give a folder that does not exist yet")
        if path.is_dir() and any(path.iterdir()):
            raise BadInput(f"--out {path} is not empty; give a folder that does not exist yet: evidence is not mixed")
        _try_writing(path)
    except OSError as refused:
        raise BadInput(
            f"--out {path} cannot be made ({refused.strerror}): give a folder that you may write to"
        ) from None


def may_be_written(folder: Path, option: str) -> None:
    """BadInput unless `folder` is one, or can be made, and files can be written there; leaves nothing behind."""
    try:
        if os.path.lexists(folder) and not folder.is_dir():
            raise BadInput(f"{option} {folder} is a file or a link to nothing; give a folder")
        _try_writing(folder)
    except OSError as refused:
        raise BadInput(
            f"{option} {folder} cannot be written ({refused.strerror}): give a folder that you may write to"
        ) from None


def writable_here(folder: Path) -> None:
    """BadInput unless folders can be made in `folder`, the default place of the evidence; leaves nothing behind."""
    try:
        _try_writing(folder)
    except OSError as refused:
        raise BadInput(
            f"{folder} cannot be written in the working directory ({refused.strerror}): give --out a folder"
        ) from None


def _try_writing(folder: Path) -> None:
    """OSError unless `folder` can be made and written to: a temporary folder is made where it would be.

    Access rights alone do not show a file system that is read-only, nor one like /proc.
    """
    nearest = next(path for path in (folder, *folder.parents) if _blocks(path))
    with tempfile.TemporaryDirectory(dir=nearest):
        pass


def _blocks(path: Path) -> bool:
    """Whether a path exists, or has what makes it impossible: a name too long, a loop of links, no right to look."""
    try:
        path.lstat()
    except FileNotFoundError:
        return path == path.parent  # the root, or a working directory that was removed
    return True
