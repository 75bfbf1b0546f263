"""The pairs that former nights covered on a release: a file in the cache, one line for each episode that added some.

Nights append to it at the same time; a line that a kill cut off is skipped.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from harness.chaos.coverage import Pair
from harness.model.errors import BadInput

FOLDER: Final = "chaos"
_OTHER: Final = re.compile(r"[^A-Za-z0-9.-]")


class FormerPairs:
    """cache: the folder of the cache. version: of the release; another one begins with nothing covered."""

    def __init__(self, cache: Path, version: str) -> None:
        self.file = cache / FOLDER / f"pairs-{_OTHER.sub('_', version)}.jsonl"
        self.pairs: frozenset[Pair] = frozenset(_read(self.file))

    def add(self, pairs: Iterable[Pair]) -> None:
        """Appends pairs that are not in the file yet. BadInput if it cannot be written."""
        fresh = sorted(set(pairs) - self.pairs)
        if not fresh:
            return
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(b"\n" + msgspec.json.encode(fresh) + b"\n")  # after half a line, too
        except OSError as error:
            raise BadInput(
                f"{self.file} cannot be written ({error.strerror or error}): free some space or point XDG_CACHE_HOME "
                "at a directory that can be written"
            ) from error
        self.pairs |= set(fresh)


def _read(file: Path) -> Iterable[Pair]:
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadInput(
            f"{file} cannot be read ({error.strerror or error}); remove it to forget former nights"
        ) from error
    for line in lines:
        try:
            yield from msgspec.json.decode(line, type=list[tuple[str, str]]) if line else ()
        except msgspec.MsgspecError:
            continue
