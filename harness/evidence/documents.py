"""JSON documents of a bundle, written so that each is whole or absent."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from harness.model.documents.record import Record
from harness.model.errors import BadEvidence
from harness.model.finding import OwnKind
from harness.model.user_files import DOCUMENT_MAX, read_text

SOURCE_AGAIN: Final = "copy the bundle from its source again"
WRITE_AGAIN: Final = f"correct it if you wrote it, else {SOURCE_AGAIN}"


def document_name(name: str) -> str:
    """`run` and `run.json` are the same document."""
    return name if name.endswith(".json") else f"{name}.json"


def write_json(path: Path, content: object) -> None:
    """Writes JSON atomically: a reader sees the old document or the new one."""
    unfinished = path.with_name(path.name + ".tmp")
    try:
        unfinished.write_text(json.dumps(content, indent=1, default=_json_default) + "\n", encoding="utf-8")
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def canonical(content: object) -> bytes:
    """The content of a document in the one form of which a digest is taken: keys in order, no spaces, ASCII."""
    return json.dumps(content, default=_json_default, sort_keys=True, separators=(",", ":")).encode("ascii")


def plain(record: Record) -> dict[str, object]:
    """A record in plain JSON types."""
    fields: dict[str, object] = json.loads(json.dumps(record, default=_json_default))
    return fields


def _keys(record: Record) -> dict[str, object]:
    """The written fields of a record by their keys. Records in it are left as they are."""
    config, written = record.__struct_config__, record.written
    keys = zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True)
    tag = {} if config.tag_field is None else {config.tag_field: config.tag}
    return tag | {key: getattr(record, name) for name, key in keys if name in written}


def read_json(path: Path, remedy: str = WRITE_AGAIN) -> object:
    """A JSON document. BadEvidence if it is missing or damaged. remedy: what helps against damage."""
    if not is_there(path):
        raise BadEvidence(f"{path} is missing; {SOURCE_AGAIN}")
    try:
        return json.loads(read_text(path, DOCUMENT_MAX))
    except (ValueError, RecursionError) as damage:
        raise BadEvidence(f"{path} cannot be read as JSON ({damage}); {remedy}") from None
    except OSError as refusal:
        raise BadEvidence(f"{path} cannot be read ({refusal.strerror}); {_remedy(refusal)}") from None


def _remedy(refusal: OSError) -> str:
    return WRITE_AGAIN if refusal.errno == errno.EFBIG else "make it readable for you"


def is_there(path: Path) -> bool:
    """Whether the file is there. BadEvidence if a folder or a broken link has its name."""
    if path.is_file():
        return True
    if os.path.lexists(path):
        what = "a folder" if path.is_dir() else "no file that can be read (a broken link?)"
        raise BadEvidence(f"{path} is {what}, and must be a file; {WRITE_AGAIN}")
    return False


@contextmanager
def with_rights(folder: Path, remedy: str) -> Iterator[None]:
    """Turns an OSError in a folder of evidence into BadEvidence, because only the user can change rights and disks."""
    try:
        yield
    except OSError as refusal:
        name, why = refusal.filename or folder, refusal.strerror or refusal
        raise BadEvidence(f"{name} cannot be read or written ({why}); {remedy}") from None


def _json_default(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Record):
        return _keys(value)
    if isinstance(value, OwnKind):
        return value.value
    raise TypeError(f"{type(value).__name__} cannot be written into a document of the evidence")
