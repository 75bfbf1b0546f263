"""Work that is done when a command has ended, with its verdicts written and shown. It never changes the exit code.

It imports no library, so that it works where one is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from harness.model.exits import Exit

_JUDGED: Final = frozenset({Exit.PASS, Exit.FAIL, Exit.INCONCLUSIVE})


@dataclass(slots=True)
class _Afterwards:
    """runs: a command runs in this process, so the work will be done."""

    runs: bool = False
    work: list[tuple[Callable[[], object], Callable[[], object]]] = field(default_factory=list)


_AFTERWARDS: Final = _Afterwards()


def afterwards(work: Callable[[], object], *, release: Callable[[], object]) -> bool:
    """Has the work done once the command has ended with a verdict, and then `release`, which happens in any case.

    False, and nothing will be done, in a process that runs no command, such as one of tests.
    """
    if _AFTERWARDS.runs:
        _AFTERWARDS.work.append((work, release))
    return _AFTERWARDS.runs


def with_work_afterwards(command: Callable[[], int]) -> int:
    """The exit code of the command. Work is left out if it was interrupted or failed; whatever ends work, Ctrl-C too,
    is no error."""
    _AFTERWARDS.runs = True
    try:
        code = command()
    finally:
        _AFTERWARDS.runs = False
    while _AFTERWARDS.work:
        work, release = _AFTERWARDS.work.pop()
        with suppress(Exception, KeyboardInterrupt):
            try:
                if code in _JUDGED:
                    work()
            finally:
                release()
    return code
