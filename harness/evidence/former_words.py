"""Keys of format version 1 that have another name since."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.model.errors import BadEvidence
from harness.model.schemas import FORMAT_VERSION

# Unknown keys are ignored, so evidence with these keys would be read as if it said nothing. "*" stands for every member
# of a list.
_FORMER: Final[dict[str, dict[tuple[str, ...], str]]] = {
    "run.json": {("weakened",): "negative_control"},
    "steps.json": {("*", "bite"): "effect"},
    "scenario.json": {
        ("guards",): "property",
        ("weakening",): "negative_control",
        ("permits",): "allowed_anomalies",
        ("share",): "load_weight",
        ("shape", "lone"): "isolated_client",
        ("producers", "*", "lone"): "isolated_client",
        ("readers", "*", "lone"): "isolated_client",
        ("admin", "*", "things"): "entities",
    },
}


def check_former_words(file: Path, document: object) -> None:
    """BadEvidence if a document has a key of an older format version."""
    for path, name in _FORMER.get(file.name, {}).items():
        if _has(document, path):
            raise BadEvidence(
                f"{file} has the key {path[-1]!r} of format version 1, which is {name!r} in version {FORMAT_VERSION}; "
                "judge the bundle with the harness that wrote it, or write it as FORMAT.md says if it is yours"
            )


def _has(value: object, path: tuple[str, ...]) -> bool:
    if not path:
        return True
    key, *rest = path
    if key == "*":
        return isinstance(value, list) and any(_has(one, tuple(rest)) for one in value)
    return isinstance(value, dict) and key in value and _has(value[key], tuple(rest))
