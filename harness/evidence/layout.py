"""What stands where in the folder of a bundle. A name that nobody knows may be evidence that nobody would read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from harness.evidence.documents import is_there
from harness.evidence.verdicts import FINDINGS, VERDICT
from harness.model.errors import BadEvidence
from harness.model.schemas import REQUIRED_DOCUMENTS, TABLES

LOGS: Final = "logs"
_JUNIT: Final = "junit.xml"  # `verify` of one bundle writes it beside the verdict
_FILES: Final = (*REQUIRED_DOCUMENTS, VERDICT, FINDINGS, _JUNIT)
_FOLDERS: Final = (*TABLES, LOGS)


def ignored(name: str) -> bool:
    """Hidden files are those of desktops and file systems; `.tmp` is what a writer did not finish."""
    return name.startswith(".") or name.endswith(".tmp")


def kind_of(table: str) -> str:
    """How names of parts end."""
    return ".jsonl" if table == "reservations" else ".parquet"


def check_names(bundle: Path) -> None:
    """BadEvidence for a name in the folder itself that the format does not know, and for a file that is a folder."""
    for found in _entries(bundle):
        if found.name in _FILES:
            is_there(found)
        elif found.name not in _FOLDERS:
            raise BadEvidence(
                f"{found} is nothing that a bundle has{_near(found.name, (*_FILES, *_FOLDERS), 0.7)}; rename it, or "
                f"move it out of the bundle or into {LOGS}/ (FORMAT.md lists what a bundle has)"
            )


def check_tables(bundle: Path, *, by_hand: bool = False) -> None:
    """BadEvidence for anything in the folder of a table that is no part of it. `by_hand`: JSON lines are parts too."""
    for folder in (bundle / name for name in _FOLDERS):
        if os.path.lexists(folder) and not folder.is_dir():
            raise BadEvidence(f"{folder} is not a folder; a bundle has its {folder.name} in a folder (see FORMAT.md)")
    for table in TABLES:
        kinds = dict.fromkeys([kind_of(table), *([".jsonl"] if by_hand else [])])
        for found in _entries(bundle / table) if (bundle / table).is_dir() else ():
            if found.suffix not in kinds or not is_there(found):
                raise _no_part(found, table, tuple(kinds))


def _no_part(found: Path, table: str, kinds: Sequence[str]) -> BadEvidence:
    names = [found.name.partition(".")[0] + kind for kind in kinds]
    wanted = " or ".join(f"<writer>{kind}" for kind in kinds)
    return BadEvidence(
        f"{found} is no part of {table}, whose parts are {wanted}{_near(found.name, names, 0.75)}; write it so, or "
        "move it out of the bundle (see FORMAT.md)"
    )


def _entries(folder: Path) -> Iterator[Path]:
    return (found for found in sorted(folder.iterdir()) if not ignored(found.name))


def _near(name: str, known: Sequence[str], cutoff: float) -> str:
    near = get_close_matches(name.lower(), known, n=1, cutoff=cutoff)
    return f" (did you mean {near[0]!r}?)" if near else ""
