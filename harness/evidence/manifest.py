"""manifest.json: what a bundle is, and the digest of every file in it. It is written last, so it is also the seal."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import convert

from harness.evidence.documents import SOURCE_AGAIN, WRITE_AGAIN, canonical, plain, read_json, write_json
from harness.evidence.layout import LOGS, ignored
from harness.evidence.parsing import MisfitError, converted, shown
from harness.model.documents.manifest import AnyManifest, Digest, Manifest, Origin, SealedBy
from harness.model.errors import BadEvidence
from harness.model.schemas import FORMAT_VERSION, OPTIONAL_DOCUMENTS, REQUIRED_DOCUMENTS, TABLES

MANIFEST: Final = "manifest.json"
SEALED_FROM: Final = "sealed_from"  # JSON lines that the seal turned into Parquet
OWN_DIGEST: Final = "own_sha256"  # the digest of the manifest itself


def write_manifest(bundle: Path, origin: Origin) -> None:
    """Digests every file of a bundle that this harness wrote, and writes the manifest."""
    files = {name: bundle / name for name in sealed_names(bundle)}
    write_json(bundle / MANIFEST, manifest_of(files, plain(origin), "harness"))


def manifest_of(files: Mapping[str, Path], facts: Mapping[str, object], sealed_by: SealedBy) -> dict[str, object]:
    """The content of the manifest of `files`. Their keys are their names in the sealed bundle.

    facts: the other keys. An earlier manifest of evidence that was sealed by hand may have more of them than `Origin`.
    """
    digests = {name: digest(file) for name, file in sorted(files.items())}
    content = {"format_version": FORMAT_VERSION, "sealed_by": sealed_by, **facts, "files": digests}
    return {**content, OWN_DIGEST: own_digest(content)}


def own_digest(manifest: Mapping[str, object]) -> str:
    """SHA-256 of the canonical form of a manifest without this digest."""
    return hashlib.sha256(canonical({k: v for k, v in manifest.items() if k != OWN_DIGEST})).hexdigest()


def sealed_names(bundle: Path) -> list[str]:
    """Relative paths of all files that belong to the evidence. Files that the judge writes do not."""
    documents = [
        name for name in (*REQUIRED_DOCUMENTS, *OPTIONAL_DOCUMENTS) if name != MANIFEST and (bundle / name).is_file()
    ]
    return sorted([*documents, *_below(bundle, (*TABLES, LOGS))])


def digest(path: Path) -> Digest:
    """Size and SHA-256 of a file."""
    with path.open("rb") as stream:
        return Digest(bytes=path.stat().st_size, sha256=hashlib.file_digest(stream, "sha256").hexdigest())


def read_manifest(bundle: Path) -> Manifest:
    """The manifest of a sealed bundle. BadEvidence if it is damaged, of another program or of another version."""
    path = bundle / MANIFEST
    content = read_json(path)
    try:
        any_version = converted(content, AnyManifest)
    except MisfitError as wrong:
        raise BadEvidence(
            f"{path} is not the manifest of an evidence bundle: {wrong}; give a folder that this harness wrote"
        ) from None
    check_version(path, any_version.format_version)
    manifest = parse_manifest(path, content)
    if manifest.own_sha256 is not None and manifest.own_sha256 != own_digest(convert(content, dict[str, object])):
        raise BadEvidence(
            f"{path} was changed after it was sealed (its own digest differs); {SOURCE_AGAIN}, "
            f"or `durability seal {bundle}` if you meant to edit it"
        )
    return manifest


def check_version(file: Path, version: object) -> None:
    """BadEvidence on any format version but the current one: the same words may mean other things there."""
    if version != FORMAT_VERSION:
        raise BadEvidence(
            f"{file} has format version {shown(version)}, and this harness reads version {FORMAT_VERSION}; judge the "
            "bundle with the harness that wrote it"
        )


def parse_manifest(path: Path, content: object) -> Manifest:
    """The content of a manifest as its record. BadEvidence that names the field which is not as FORMAT.md says."""
    try:
        return converted(content, Manifest)
    except MisfitError as wrong:
        raise BadEvidence(f"{path}: {wrong}; {WRITE_AGAIN}") from None


def check_digests(bundle: Path, manifest: Manifest, *, thinned: bool = False) -> None:
    """BadEvidence if a file is missing, was added, or was changed since the bundle was sealed.

    thinned: a night has removed files on purpose, so only the others are compared.
    """
    sealed, present = manifest.files, set(sealed_names(bundle))
    if thinned:
        sealed = {name: one for name, one in sealed.items() if name in present}
    for name in sorted(sealed.keys() - present):
        raise BadEvidence(f"{bundle / name} is missing, though the manifest lists it; {SOURCE_AGAIN}")
    for name in sorted(present - sealed.keys()):
        raise BadEvidence(
            f"{bundle / name} was added after the bundle was sealed; remove it, "
            f"or `durability seal {bundle}` if it belongs"
        )
    for name, expected in sealed.items():
        actual = digest(bundle / name)
        if actual.bytes != expected.bytes:
            raise BadEvidence(
                f"{bundle / name} has {actual.bytes} bytes, and had {expected.bytes} when it was sealed, by "
                f"{MANIFEST} (truncated or changed); {SOURCE_AGAIN}"
            )
        if actual.sha256 != expected.sha256:
            raise BadEvidence(
                f"{bundle / name} was changed after it was sealed (its digest differs); {SOURCE_AGAIN}, "
                f"or `durability seal {bundle}` if you meant to edit it"
            )


def _below(bundle: Path, folders: tuple[str, ...]) -> Iterator[str]:
    for folder in folders:
        for place, below, files in os.walk(bundle / folder, onerror=_unless_absent):
            below[:] = [name for name in below if not ignored(name)]
            for found in (Path(place) / name for name in files if not ignored(name)):
                if found.is_file():
                    yield found.relative_to(bundle).as_posix()


def _unless_absent(refusal: OSError) -> None:
    """A folder that cannot be read must not pass for an empty one."""
    if not isinstance(refusal, FileNotFoundError):
        raise refusal
