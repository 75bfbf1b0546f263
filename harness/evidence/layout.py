"""The files and folders of a bundle. An unknown name is refused, because it may be evidence under a wrong name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from harness.evidence.documents import is_there
from harness.evidence.verdicts import FINDINGS, VERDICT
from harness.model.errors import BadEvidence
from harness.model.schemas import OPTIONAL_DOCUMENTS, REQUIRED_DOCUMENTS, TABLES

LOGS: Final = "logs"
_JUNIT: Final = "junit.xml"  # `verify` of one bundle writes it next to the verdict
RELEASE_JARS: Final = "release-jars.sha512"  # in OUT: the jars of the tested release, as sha512sum lists them
PAGE: Final = "index.html"  # in REPORT: the review page
REPORT: Final = "report"  # the folder of the review page of one bundle
_FILES: Final = (*REQUIRED_DOCUMENTS, *OPTIONAL_DOCUMENTS, VERDICT, FINDINGS, _JUNIT)
_FOLDERS: Final = (*TABLES, LOGS, REPORT)


def ignored(name: str) -> bool:
    """Whether a name is no evidence: desktops and file systems leave hidden files, killed writers leave `.tmp`
    files.
    """
    return name.startswith(".") or name.endswith(".tmp")


def kind_of(table: str) -> str:
    """The suffix of a table's parts."""
    return ".jsonl" if table == "reservations" else ".parquet"


def check_names(bundle: Path) -> None:
    """BadEvidence for an unknown name in the folder itself, and for a folder that has the name of a file."""
    for found in _entries(bundle):
        if found.name in _FILES:
            is_there(found)
        elif found.name not in _FOLDERS:
            raise BadEvidence(
                f"{found} is no file or folder of a bundle{_near(found.name, (*_FILES, *_FOLDERS), 0.7)}; rename it, "
                f"or move it out of the bundle or into {LOGS}/ (FORMAT.md lists what a bundle has)"
            )


def check_tables(bundle: Path, *, by_hand: bool = False) -> None:
    """BadEvidence for a file in a table's folder that is no part of the table. `by_hand`: JSON lines are parts too."""
    for folder in (bundle / name for name in _FOLDERS):
        if os.path.lexists(folder) and not folder.is_dir():
            raise BadEvidence(f"{folder} is not a folder; put the {folder.name} into a folder of that name")
    for table in TABLES:
        kinds = dict.fromkeys([kind_of(table), *([".jsonl"] if by_hand else [])])
        for found in _entries(bundle / table) if (bundle / table).is_dir() else ():
            if found.suffix not in kinds or not is_there(found):
                raise _no_part(found, table, tuple(kinds))


def _no_part(found: Path, table: str, kinds: Sequence[str]) -> BadEvidence:
    names = [found.name.partition(".")[0] + kind for kind in kinds]
    wanted = " or ".join(f"<writer>{kind}" for kind in kinds)
    return BadEvidence(
        f"{found} is no part of {table}; its parts are {wanted}{_near(found.name, names, 0.75)}; write it as one, or "
        "move it out of the bundle (see FORMAT.md)"
    )


def _entries(folder: Path) -> Iterator[Path]:
    return (found for found in sorted(folder.iterdir()) if not ignored(found.name))


def _near(name: str, known: Sequence[str], cutoff: float) -> str:
    near = get_close_matches(name.lower(), known, n=1, cutoff=cutoff)
    return f" (did you mean {near[0]!r}?)" if near else ""
