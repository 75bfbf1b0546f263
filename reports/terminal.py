"""Standard output and error: rich in a terminal, plain lines without control characters in CI or a pipe."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

Line = tuple[str, str]  # text, rich style


def is_plain(stream: TextIO | None) -> bool:
    """True if control characters would end up in a log. CI systems that fake a terminal set CI=true.

    None is a closed stream, which is no terminal.
    """
    return stream is None or bool(os.environ.get("CI")) or not stream.isatty() or os.environ.get("TERM") == "dumb"


def clean(text: str) -> str:
    """One printable line: text from a broker or a file name must not control the terminal."""
    return "".join(c if c.isprintable() else "�" for c in text.replace("\n", " ").replace("\t", " "))


def warn(sentence: str) -> None:
    """Prints one line of warning to standard error."""
    print(clean(f"durability: {sentence}")[:500], file=sys.stderr, flush=True)


def print_lines(lines: Sequence[Line], to: TextIO | None = None) -> None:
    """Prints lines; to standard output by default."""
    stream = sys.stdout if to is None else to
    if is_plain(stream):
        for text, _ in lines:
            print(clean(text).rstrip(), file=stream)
        stream.flush()
        return
    console = Console(file=stream)
    for text, style in lines:
        console.print(Text(clean(text), style=style), soft_wrap=True)


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table. In plain output the columns are aligned with spaces."""
    if is_plain(sys.stdout):
        cells = [[clean(cell) for cell in line] for line in (heading, *rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(heading))]
        for line in cells:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        return
    drawn = Table(box=None, pad_edge=False)
    for name in heading:
        drawn.add_column(name, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(clean(cell)) for cell in row))
    Console().print(drawn)


class TerminalProgress:
    """`progress(text)` shows the current action on standard error, `progress.line(text)` a result on `lines_to`.

    lines_to: a stream; None = standard output. quiet: neither is shown.
    """

    def __init__(self, status: Status | None, lines_to: TextIO | None = None, *, quiet: bool = False) -> None:
        self._status = status
        self._lines_to = lines_to
        self._quiet = quiet
        self._started_s = time.monotonic()
        self._last = ""

    def __call__(self, text: str) -> None:
        if text == self._last or self._quiet:
            return
        self._last = text
        elapsed = int(time.monotonic() - self._started_s)
        stamp = f"{elapsed // 60}:{elapsed % 60:02d}"
        if self._status is None:
            print(f"[{stamp}] {clean(text)}", file=sys.stderr, flush=True)
        else:
            self._status.update(Text(f"{stamp}  {clean(text)}"))

    def detail(self, text: str) -> None:
        """Shows an activity inside of a scenario where it does not fill a log."""
        if self._status is not None:
            self(text)

    def line(self, text: str) -> None:
        if self._quiet:
            return
        if self._status is None:
            print_lines([(text, "")], self._lines_to)
            return
        self._status.stop()  # the spinner redraws standard output while it runs
        print_lines([(text, "")], self._lines_to)
        self._status.start()


@contextmanager
def progress(lines_to: TextIO | None = None, *, quiet: bool = False) -> Iterator[TerminalProgress]:
    """Shows progress on standard error while it is open; see `TerminalProgress` for the arguments."""
    if quiet or is_plain(sys.stderr) or is_plain(sys.stdout if lines_to is None else lines_to):
        yield TerminalProgress(None, lines_to, quiet=quiet)
        return
    with Status(Text("starting"), console=Console(stderr=True)) as status:
        yield TerminalProgress(status, lines_to)
