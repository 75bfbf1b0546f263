"""The digests of a release: of its tarball, of all its jars, or of its container image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.kafka.release.cache import Digest
from harness.kafka.release.maven import in_parallel
from harness.kafka.release.release import Release
from harness.model.documents.manifest import BuildDigest
from harness.model.errors import BadInput

_ALGORITHM: Final = "sha512"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFiles:
    """digest: of the release. listing: its jars as `sha512sum` writes them, by name; "" for an image of brokers."""

    digest: BuildDigest
    listing: str


def files_of(release: Release) -> ReleaseFiles:
    """Reads all jars of a release, about 100 MB. BadInput if one of its files cannot be read.

    The digest of jars is that of the listing, so that `sha512sum` gives it as well.
    """
    jars = len(release.classpath)
    if release.image is not None:
        return ReleaseFiles(digest=BuildDigest(of="image", digest=release.image.id, jars=jars), listing="")
    listing = _listing(release.classpath)
    if release.tarball is not None:
        [digest] = _digests([release.tarball])
        return ReleaseFiles(digest=BuildDigest(of="tarball", digest=_named(digest), jars=jars), listing=listing)
    digest = Digest.of(listing.encode(), _ALGORITHM)
    return ReleaseFiles(digest=BuildDigest(of="jars", digest=_named(digest), jars=jars), listing=listing)


def _listing(jars: Sequence[Path]) -> str:
    digests = zip(jars, _digests(jars), strict=True)
    return "".join(sorted((f"{digest.hex}  {jar.name}\n" for jar, digest in digests), key=lambda line: line[130:]))


def _digests(files: Sequence[Path]) -> list[Digest]:
    try:
        return list(in_parallel(lambda file: Digest.of_file(file, _ALGORITHM), files))
    except OSError as refused:
        raise BadInput(
            f"{refused.filename} cannot be read ({refused.strerror}): make it readable, or give another --kafka"
        ) from refused


def _named(digest: Digest) -> str:
    return f"{digest.algorithm}:{digest.hex}"
