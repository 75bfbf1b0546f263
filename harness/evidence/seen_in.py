"""Which kinds of findings the evidence of a bundle can show, by what each kind declares (`Kind.seen_in`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from harness.evidence.documents import is_there, read_json
from harness.evidence.layout import ignored
from harness.model.errors import BadEvidence
from harness.model.finding import FindingKind, Kind

_KEY: Final = ": "  # between a document and its key


def kinds_shown_by(bundle: Path) -> frozenset[FindingKind]:
    """The built-in kinds that this bundle can show. A damaged document shows nothing."""
    return kinds_shown_with(parts_in(bundle))


def kinds_shown_with(has: Callable[[str], bool]) -> frozenset[FindingKind]:
    """The built-in kinds that evidence can show. has: whether it has a part, in the form of `Kind.seen_in`."""
    return frozenset(kind for kind in Kind if any(all(map(has, parts)) for parts in kind.seen_in))


def parts_in(bundle: Path) -> Callable[[str], bool]:
    """A function that says whether the bundle has a part, in the form of `Kind.seen_in`. It reads each once."""

    @cache
    def document(name: str) -> object:
        try:
            return read_json(bundle / name) if is_there(bundle / name) else None
        except BadEvidence:
            return None

    @cache
    def has(part: str) -> bool:
        name, _, key = part.partition(_KEY)
        if not name.endswith(".json"):
            return any(not ignored(file.name) for file in (bundle / name).glob("*.parquet"))
        if not key:
            return document(name) is not None
        content = document(name)
        return isinstance(content, dict) and content.get(key) is not None

    return has
