"""The release's own Java clients. A class of the harness, compiled against them, drives each in its own process."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.kafka.release.cache import Cache, Progress
from harness.kafka.release.java_compiler import SOURCES, compiled
from harness.kafka.release.maven import KAFKA_GROUP
from harness.kafka.release.pom import Dependency
from harness.kafka.release.published import fetched
from harness.kafka.release.release import Release
from harness.kafka.release.repository import NotPublished, Unreachable
from harness.model.errors import BadInput
from harness.model.scenario.scenario import SHARE_GROUPS_SINCE

DRIVER: Final = SOURCES.joinpath("ClientDriver.java")
CLIENTS: Final = "clients"  # the key of this need of scenarios
MAIN: Final = "durability.ClientDriver"
_ALSO: Final = tuple(DRIVER.with_name(f"{name}.java") for name in ("ClientProducer", "ClientConsumer", "ClientCommits"))
# Classes for clients that not every release has, and the first version with them. They are started by name.
_LATER: Final = {"ClientShare": SHARE_GROUPS_SINCE}
_API: Final = ("kafka-clients",)
_LEAVE: Final = 'scenarios that have clients with client = "java"'
# The libraries that kafka-clients needs: codecs and the logging interface.
_GROUPS: Final = {
    "lz4-java": "at.yawk.lz4",
    "snappy-java": "org.xerial.snappy",
    "zstd-jni": "com.github.luben",
    "slf4j-api": "org.slf4j",
}
_MOVED: Final = frozenset({"lz4-java-1.7.1.jar", "lz4-java-1.8.0.jar"})  # before it moved to another group
_VERSIONED: Final = re.compile(r"(?P<artifact>.+?)-(?P<version>\d.*)\.jar")


def with_java_clients(release: Release, *, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    """The release with the classpath of its own clients. BadInput when that cannot be downloaded or compiled."""
    if release.java_clients:
        return release
    driver = compiled(
        DRIVER,
        release,
        also=(*_ALSO, *(DRIVER.with_name(f"{n}.java") for n, since in _LATER.items() if release.numbers >= since)),
        api=_API,
        leave=_LEAVE,
        maven_repo=maven_repo,
        cache=cache,
        progress=progress,
    )
    jars = release.classpath if release.image is None else _published(release, maven_repo, cache, progress)
    return replace(release, java_clients=(driver, *jars))


def equip_clients(
    release: Release, lacking: Mapping[str, str], *, maven_repo: str | None, cache: Path, progress: Progress
) -> tuple[Release, dict[str, str]]:
    """The release with its clients. When that fails, the unchanged release and, in `lacking`, the reason."""
    try:
        given = with_java_clients(release, maven_repo=maven_repo, cache=cache, progress=progress)
    except BadInput as refused:
        return release, {**lacking, CLIENTS: str(refused)}
    return given, dict(lacking)


def _published(release: Release, maven_repo: str | None, cache: Path, progress: Progress) -> tuple[Path, ...]:
    """The published jars in place of those in an image, which are not files of this machine."""
    wanted = [Dependency(KAFKA_GROUP, "kafka-clients", release.version), *_libraries(release)]
    try:
        what = f"the Java clients of Kafka {release.version}"
        return fetched(wanted, f"own-clients-{release.version}", maven_repo, Cache(cache), progress, what)
    except (NotPublished, Unreachable) as error:
        raise BadInput(
            f"the Java clients of Kafka {release.version} cannot be downloaded ({error}): "
            f"give --maven-repo a repository that has them, or leave out {_LEAVE}"
        ) from error


def _libraries(release: Release) -> Iterator[Dependency]:
    for jar in release.classpath:
        found = _VERSIONED.fullmatch(jar.name)
        if found and found["artifact"] in _GROUPS:
            group = "org.lz4" if jar.name in _MOVED else _GROUPS[found["artifact"]]
            yield Dependency(group, found["artifact"], found["version"])
