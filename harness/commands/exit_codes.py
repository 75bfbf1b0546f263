"""How a process of ours ends: every way out has the exit code of DESIGN, and 1 is never an accident."""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TextIO

import click

from harness.model.errors import BadInput
from harness.model.exits import Exit


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived. Not an Exception: nothing but the way out may catch it."""


def open_streams() -> None:
    """Standard output and error as the rest may take them: open, and with an answer to every character.

    A closed standard output becomes a pipe that nobody reads, for what cannot be said is an error; a closed standard
    error loses nothing but words. Both keep their numbers, or the next file that is opened would get what is printed.
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
        os.fstat(number)  # something else got the number meanwhile
    except OSError:
        os.dup2(opened, number)
        os.close(opened)
        opened = number
    return os.fdopen(opened, "w", encoding="utf-8")


def guarded(body: Callable[[], Exit]) -> Exit:
    """Runs a command and returns the exit code, whatever happens in it; says why on standard error."""
    with _signals() as arrived:
        try:
            code = body()
            sys.stdout.flush()
        except Terminated:
            code = _ended_by(signal.SIGTERM)
        except (KeyboardInterrupt, click.Abort, EOFError):
            code = _ended_by(signal.SIGINT)
        except click.ClickException as usage:
            code = _said(_usage(usage), Exit.USAGE)
        except BadInput as refusal:
            code = _said(str(refusal), Exit.USAGE)
        except BaseException as crash:
            # What a signal broke off may say so in its own words: the bridge to Spark's Java does.
            code = _ended_by(arrived[0]) if arrived else _crashed(crash)
        _let_go_of_broken_streams()
        return code


def _usage(usage: click.ClickException) -> str:
    sentence = " ".join(usage.format_message().split()).rstrip(".")
    context = getattr(usage, "ctx", None)
    return f"{sentence}; `{context.command_path} --help` says more" if context else sentence


def _ended_by(number: int) -> Exit:
    if number == signal.SIGINT:
        return _said("interrupted; everything that was started is stopped", Exit.INTERRUPTED)
    return _said("terminated; everything that was started is stopped", Exit.TERMINATED)


def _crashed(crash: BaseException) -> Exit:
    """A harness error, standard output that takes no more, a bug: never 1, and the traceback is kept for a report."""
    if unsaid := _unsaid(crash):
        return _said(unsaid, Exit.HARNESS)
    sentence = str(crash).strip().splitlines()[0] if str(crash).strip() else type(crash).__name__
    try:
        handle, name = tempfile.mkstemp(prefix="durability-traceback-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as kept:
            traceback.print_exception(crash, file=kept)
    except OSError:
        with suppress(OSError):
            traceback.print_exception(crash)
        name = "above"
    return _said(f"the harness failed: {type(crash).__name__}: {sentence}; traceback: {name}", Exit.HARNESS)


def _unsaid(crash: BaseException) -> str:
    """Why standard output takes no more; empty when it does. Other broken pipes and full disks are failures of ours."""
    if not isinstance(crash, OSError):
        return ""
    try:
        print(flush=True)  # unbuffered, it would have nothing left to flush
    except BrokenPipeError:
        return "standard output was closed before everything was said"
    except OSError as full:
        return f"standard output takes no more ({full.strerror}): send it elsewhere"
    return ""


def _said(sentence: str, code: Exit) -> Exit:
    with suppress(OSError):  # nobody listens; the code is left
        print(f"durability: {sentence}", file=sys.stderr, flush=True)
    return code


def _let_go_of_broken_streams() -> None:
    """The interpreter flushes both once more when it ends, and would end in 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


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
    """BadInput unless `path` is a new or empty folder, or can be made one; leaves nothing."""
    try:
        if os.path.lexists(path) and not path.is_dir():
            raise BadInput(f"--out {path} is a file or a link to nothing; give a folder that does not exist yet")
        if path.is_dir() and any(path.iterdir()):
            raise BadInput(
                f"--out {path} is not empty; give a folder that does not exist yet, for evidence is not mixed"
            )
        _try_writing(path)
    except OSError as refused:
        raise BadInput(
            f"--out {path} cannot be made ({refused.strerror}): give a folder that you may write to"
        ) from None


def writable_here(folder: Path) -> None:
    """BadInput, with the way out, unless folders can be made in `folder`, the default place of the evidence."""
    try:
        _try_writing(folder)
    except OSError as refused:
        raise BadInput(
            f"{folder} cannot be written in the working directory ({refused.strerror}): give --out a folder"
        ) from None


def _try_writing(folder: Path) -> None:
    """OSError unless `folder` can be made and written to: tried where it would be, under a name that nobody else uses.

    Rights say nothing of a file system that is read-only, nor of one like /proc.
    """
    nearest = next(path for path in (folder, *folder.parents) if _is_there(path))
    with tempfile.TemporaryDirectory(dir=nearest):
        pass


def _is_there(path: Path) -> bool:
    """Or whatever makes it impossible: a name too long, a loop of links, no right to look."""
    try:
        path.lstat()
    except FileNotFoundError:
        return path == path.parent  # the root, or a working directory that was removed
    return True
