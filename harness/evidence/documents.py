"""JSON documents of a bundle, written so that each is whole or absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from harness.model.errors import BadEvidence

SOURCE_AGAIN: Final = "take the bundle from its source again"


def document_name(name: str) -> str:
    """`run` and `run.json` are the same document."""
    return name if name.endswith(".json") else f"{name}.json"


def write_json(path: Path, content: object) -> None:
    """Writes JSON so that readers see the old document or the new one, never a half."""
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(json.dumps(content, indent=1, default=_json_default) + "\n", encoding="utf-8")
    unfinished.replace(path)


def read_json(path: Path) -> Any:
    """A JSON document; BadEvidence when it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadEvidence(f"{path} is missing; {SOURCE_AGAIN}") from None
    except (ValueError, OSError) as damage:
        raise BadEvidence(f"{path} cannot be read as JSON ({damage}); {SOURCE_AGAIN}") from None


def _json_default(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot stand in a document of the evidence")
