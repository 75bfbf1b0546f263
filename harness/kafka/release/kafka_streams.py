"""The release's own Kafka Streams: an application of the harness, compiled against it and the release's own clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.kafka.release.cache import Cache, Progress
from harness.kafka.release.java_clients import with_java_clients
from harness.kafka.release.java_compiler import SOURCES, compiled
from harness.kafka.release.maven import KAFKA_GROUP
from harness.kafka.release.pom import Dependency
from harness.kafka.release.published import fetched
from harness.kafka.release.release import Release
from harness.kafka.release.repository import NotPublished, Unreachable
from harness.model.errors import BadInput

DRIVER: Final = SOURCES.joinpath("StreamsDriver.java")
STREAMS: Final = "streams"  # the key of this need of scenarios
MAIN: Final = "durability.StreamsDriver"
_ALSO: Final = (DRIVER.with_name("StreamsClients.java"),)
_LIBRARY: Final = "kafka-streams"
_LEAVE: Final = 'scenarios that have applications with client = "streams"'


def with_kafka_streams(release: Release, *, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    """The release with the classpath of an application of its Kafka Streams. BadInput when that cannot be had.

    The application keeps no state, so RocksDB is never loaded and is not on the classpath.
    """
    if release.kafka_streams:
        return release
    release = with_java_clients(release, maven_repo=maven_repo, cache=cache, progress=progress)
    library = _library(release, maven_repo, cache, progress)
    driver = compiled(
        DRIVER,
        release,
        (release.java_clients[0], library),
        also=_ALSO,
        api=("kafka-clients",),
        leave=_LEAVE,
        maven_repo=maven_repo,
        cache=cache,
        progress=progress,
    )
    return replace(release, kafka_streams=(driver, library, *release.java_clients))


def equip_streams(
    release: Release, lacking: Mapping[str, str], *, maven_repo: str | None, cache: Path, progress: Progress
) -> tuple[Release, dict[str, str]]:
    """The release with its Kafka Streams. When that fails, the unchanged release and, in `lacking`, the reason."""
    try:
        given = with_kafka_streams(release, maven_repo=maven_repo, cache=cache, progress=progress)
    except BadInput as refused:
        return release, {**lacking, STREAMS: str(refused)}
    return given, dict(lacking)


def _library(release: Release, maven_repo: str | None, cache: Path, progress: Progress) -> Path:
    """The jar of Kafka Streams: from the tarball or directory; the published one for a version or an image."""
    name = f"{_LIBRARY}-{release.version}.jar"
    here = next((path for path in release.classpath if path.name == name), None)
    if here is not None and release.image is None:
        return here
    wanted = [Dependency(KAFKA_GROUP, _LIBRARY, release.version)]
    try:
        what = f"Kafka Streams {release.version}"
        (jar,) = fetched(wanted, f"{_LIBRARY}-{release.version}", maven_repo, Cache(cache), progress, what)
    except (NotPublished, Unreachable) as error:
        raise BadInput(f"Kafka Streams {release.version} cannot be downloaded ({error}): leave out {_LEAVE}") from error
    return jar
