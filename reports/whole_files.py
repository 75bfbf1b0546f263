"""Files that are written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_whole(target: Path) -> Iterator[BinaryIO]:
    """A file to write to, which becomes `target` at the end, or is deleted."""
    unfinished = target.with_name(f"{target.name}.tmp")
    try:
        with unfinished.open("wb") as stream:
            yield stream
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_text(target: Path, text: str) -> Path:
    """Writes a text as UTF-8 and returns the path. Names of files may have parts that are no text; they are escaped."""
    with written_whole(target) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
    return target
