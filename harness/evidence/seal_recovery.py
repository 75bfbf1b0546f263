"""Finishing or undoing a `durability seal` that was killed.

A seal first writes each Parquet part that it makes of JSON lines under a name that ends in `.sealing.tmp`. Then it
writes the manifest, which is the moment from which the seal holds. Then it gives the parts their own names, and removes
the JSON lines. A seal that was killed before that moment is undone: its staged parts are removed. One that was killed
after it is finished: the manifest lists the parts under `files` and the JSON lines under `sealed_from`, both with
digests.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.evidence.documents import read_json
from harness.evidence.manifest import MANIFEST, digest
from harness.evidence.parsing import MisfitError, converted
from harness.model.documents.manifest import SealedFiles
from harness.model.errors import BadEvidence
from harness.model.schemas import TABLES

STAGED: Final = ".sealing.tmp"


@contextmanager
def sealing(bundle: Path) -> Iterator[None]:
    """Keeps other processes from sealing the folder, and first finishes or undoes what a killed one left there."""
    with _locked(bundle) as free:
        if not free:
            raise BadEvidence(f"another process is sealing {bundle}; wait until it has ended")
        recover_locked(bundle)
        yield


def recover(bundle: Path) -> None:
    """Finishes or undoes a seal that was killed. It leaves a seal alone that another process is working on."""
    if not _left_behind(bundle):
        return
    with _locked(bundle) as free:
        if free:
            recover_locked(bundle)


@contextmanager
def _locked(bundle: Path) -> Iterator[bool]:
    """Yields False if another process has the lock, which the kernel releases when its owner dies."""
    folder = os.open(bundle, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        except OSError:  # a file system without locks, such as some network mounts
            yield True
        else:
            yield True
    finally:
        os.close(folder)


def _left_behind(bundle: Path) -> bool:
    return bool(_staged(bundle)) or any(_superseded(bundle))


def recover_locked(bundle: Path) -> None:
    """As `recover`, for a caller that is inside `sealing`."""
    sealed = _files(bundle).files
    for part in _staged(bundle):
        target = part.with_name(part.name.removesuffix(STAGED))
        listed = sealed.get(target.relative_to(bundle).as_posix())
        if listed is not None and not target.exists() and digest(part) == listed:
            part.replace(target)
        else:
            part.unlink()
    for lines in list(_superseded(bundle)):
        lines.unlink()


def _staged(bundle: Path) -> list[Path]:
    return [part for place in (bundle, *(bundle / table for table in TABLES)) for part in place.glob(f"*{STAGED}")]


def _superseded(bundle: Path) -> Iterator[Path]:
    """JSON lines that are sealed as Parquet already, byte for byte."""
    for name, was in _files(bundle).sealed_from.items():
        lines = bundle / name
        ours = lines.parent.parent == bundle and lines.parent.name in TABLES and lines.is_file()
        if ours and lines.with_suffix(".parquet").is_file() and digest(lines) == was:
            yield lines


def _files(bundle: Path) -> SealedFiles:
    """The files that the manifest lists; none where it cannot be read, and `read_manifest` says why."""
    if not (bundle / MANIFEST).is_file():
        return SealedFiles(files={})
    try:
        return converted(read_json(bundle / MANIFEST), SealedFiles)
    except (BadEvidence, MisfitError):
        return SealedFiles(files={})
