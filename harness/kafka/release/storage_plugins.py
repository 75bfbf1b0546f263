"""The remote storages of this harness (KIP-405): one in a folder, one in an S3 bucket, and one that injects faults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.kafka.release.cache import Cache, Progress
from harness.kafka.release.java_compiler import SOURCES, compiled
from harness.kafka.release.pom import Dependency
from harness.kafka.release.published import fetched
from harness.kafka.release.release import Release
from harness.kafka.release.repository import NotPublished
from harness.model.errors import BadInput

FILE: Final = SOURCES.joinpath("FileStorage.java")
FAULTY: Final = SOURCES.joinpath("FaultyStorage.java")
S3: Final = SOURCES.joinpath("S3Storage.java")
_SDK: Final = "2.57.8"
# The modules that an S3 client needs at run time when it uses the JDK's own HTTP classes. Its other dependencies are
# never loaded.
_SDK_PARTS: Final = (
    "s3 aws-xml-protocol aws-query-protocol protocol-core aws-core sdk-core auth regions profiles identity-spi "
    "http-auth-spi http-auth http-auth-aws http-auth-aws-eventstream checksums-spi checksums crt-core arns "
    "endpoints-spi metrics-spi json-utils third-party-jackson-core http-client-spi url-connection-client annotations "
    "utils utils-lite retries retries-spi"
)
SDK: Final = (
    *(Dependency("software.amazon.awssdk", name, _SDK) for name in _SDK_PARTS.split()),
    Dependency("software.amazon.eventstream", "eventstream", "1.0.1"),
    Dependency("org.reactivestreams", "reactive-streams", "1.0.4"),
)


def with_file_storage(release: Release, *, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    """The release with the storage in a folder. BadInput when its jar cannot be made."""
    if release.file_storage is not None:
        return release
    jar = compiled(FILE, release, maven_repo=maven_repo, cache=cache, progress=progress)
    return replace(release, file_storage=jar)


def with_faulty_storage(release: Release, *, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    """The release with the storage that takes orders to inject faults. BadInput when its jar cannot be made."""
    if release.faulty_storage is not None:
        return release
    jar = compiled(FAULTY, release, maven_repo=maven_repo, cache=cache, progress=progress)
    return replace(release, faulty_storage=jar)


def with_s3_storage(release: Release, *, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    """The release with the storage in S3, and with the SDK of Amazon that it uses. BadInput when a jar is missing."""
    if release.s3_jars:
        return release
    try:
        sdk = fetched(SDK, f"aws-sdk-{_SDK}", maven_repo, Cache(cache), progress)
    except NotPublished as error:
        raise BadInput(
            f'tier = "s3" needs Amazon\'s SDK {_SDK} ({error}): give --maven-repo a repository that has it, or leave '
            "out the scenarios with that tier"
        ) from error
    jar = compiled(S3, release, sdk, maven_repo=maven_repo, cache=cache, progress=progress)
    return replace(release, s3_jars=(jar, *sdk))
