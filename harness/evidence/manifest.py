"""manifest.json: what a bundle is, and the digest of every file in it. Written last, so it is also the seal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from harness.evidence.documents import SOURCE_AGAIN, read_json, write_json
from harness.model.errors import BadEvidence
from harness.model.schemas import FORMAT_VERSION, REQUIRED_DOCUMENTS, TABLES

MANIFEST: Final = "manifest.json"
LOGS: Final = "logs"


def write_manifest(bundle: Path, facts: Mapping[str, object], *, sealed_by: str) -> None:
    """Digests every file of the bundle and seals it. `facts`: release, scenario, seed, versions, clock."""
    files = {name: digest(bundle / name) for name in sealed_names(bundle)}
    write_json(bundle / MANIFEST, {"format_version": FORMAT_VERSION, "sealed_by": sealed_by, **facts, "files": files})


def sealed_names(bundle: Path) -> list[str]:
    """Relative paths of all files that belong to the evidence; what a judge writes beside them does not."""
    documents = [name for name in REQUIRED_DOCUMENTS if name != MANIFEST and (bundle / name).is_file()]
    return sorted([*documents, *_below(bundle, (*TABLES, LOGS))])


def digest(path: Path) -> dict[str, object]:
    """Size and SHA-256 of a file."""
    with path.open("rb") as stream:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}


def read_manifest(bundle: Path) -> dict[str, Any]:
    """The manifest of a sealed bundle; BadEvidence when it is damaged, foreign or of another version."""
    path = bundle / MANIFEST
    manifest = read_json(path)
    if not (isinstance(manifest, dict) and isinstance(manifest.get("files"), dict) and "format_version" in manifest):
        raise BadEvidence(f"{path} is not the manifest of an evidence bundle; give a folder that this harness wrote")
    if manifest["format_version"] != FORMAT_VERSION:
        raise BadEvidence(
            f"{path} has format version {manifest['format_version']}, this harness reads {FORMAT_VERSION}; "
            "judge it with the harness that wrote it"
        )
    return manifest


def check_digests(bundle: Path, manifest: Mapping[str, Any]) -> None:
    """BadEvidence when a sealed file is missing, added or not what it was when it was sealed."""
    sealed, present = manifest["files"], set(sealed_names(bundle))
    for name in sorted(sealed.keys() - present):
        raise BadEvidence(f"{bundle / name} is missing, though the manifest lists it; {SOURCE_AGAIN}")
    for name in sorted(present - sealed.keys()):
        raise BadEvidence(
            f"{bundle / name} was added after the bundle was sealed; remove it, "
            f"or `durability seal {bundle}` if it belongs"
        )
    for name, expected in sealed.items():
        actual = digest(bundle / name)
        if actual["bytes"] != expected["bytes"]:
            raise BadEvidence(
                f"{bundle / name} has {actual['bytes']} bytes and had {expected['bytes']} when it was sealed "
                f"(truncated or changed); {SOURCE_AGAIN}"
            )
        if actual["sha256"] != expected["sha256"]:
            raise BadEvidence(
                f"{bundle / name} was changed after it was sealed (its digest differs); {SOURCE_AGAIN}, "
                f"or `durability seal {bundle}` if you meant to edit it"
            )


def _below(bundle: Path, folders: tuple[str, ...]) -> Iterator[str]:
    for folder in folders:
        for found in (bundle / folder).rglob("*"):
            if found.is_file() and not found.name.endswith(".tmp"):
                yield found.relative_to(bundle).as_posix()
