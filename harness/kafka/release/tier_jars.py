"""Finds the test jars with a release's own remote tier, LocalTieredStorage (KIP-405). No distribution contains them.

Some releases are published without them (4.4.0), so only `tier = "kafka_local"` uses them.

For a build on this machine they are searched in and near its folder, where `./gradlew storage:testJar clients:testJar`
writes them. Otherwise they are downloaded in the version of the build. LocalTieredStorage uses only a public interface
of brokers, so the jars of a published version fit a patched build of it, and the judged code, the brokers' side, is
still that of the build.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.kafka.release.cache import Cache, Progress
from harness.kafka.release.maven import KAFKA_GROUP
from harness.kafka.release.pom import Dependency
from harness.kafka.release.published import fetched
from harness.kafka.release.release import Release
from harness.kafka.release.repository import NotPublished
from harness.model.errors import BadInput

# In some versions the test classes of kafka-storage use those of kafka-clients.
ARTIFACTS: Final = ("kafka-storage", "kafka-clients")
_CLASSIFIER: Final = "test"
_BUILT: Final = ("storage/build/libs", "clients/build/libs")  # in a checkout
_UP: Final = 4  # levels from a tarball in core/build/distributions up to its checkout


def with_tier_jars(release: Release, *, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    """The release with the jars of its own remote tier. BadInput, with the remedy, when there are none."""
    if release.tier_jars:
        return release
    local = _local_jars(release)
    return replace(release, tier_jars=local or _fetched(release, maven_repo, Cache(cache), progress))


def jar_names(version: str) -> list[str]:
    return [f"{artifact}-{version}-{_CLASSIFIER}.jar" for artifact in ARTIFACTS]


def _local_jars(release: Release) -> tuple[Path, ...]:
    """Jars in the folder of a build on this machine, in its libs, or in its checkout. Empty if one is missing."""
    if release.place is None:
        return ()
    near = [release.place, *release.place.parents[:_UP]]
    folders = [release.place / "libs", *near[:2], *(place / built for place in near for built in _BUILT)]
    found = [
        next((folder / name for folder in folders if (folder / name).is_file()), None)
        for name in jar_names(release.version)
    ]
    return tuple(path for path in found if path is not None) if all(found) else ()


def _fetched(release: Release, maven_repo: str | None, cache: Cache, progress: Progress) -> tuple[Path, ...]:
    dependencies = [
        Dependency(KAFKA_GROUP, artifact, release.version, classifier=_CLASSIFIER) for artifact in ARTIFACTS
    ]
    try:
        return fetched(dependencies, f"tier-{release.version}", maven_repo, cache, progress)
    except NotPublished as error:
        raise BadInput(_remedy(release, str(error))) from error


def _remedy(release: Release, why: str) -> str:
    names = " and ".join(jar_names(release.version))
    remedy = (
        "give --maven-repo a repository that has them"
        if release.place is None
        else "build them (./gradlew storage:testJar clients:testJar) and put them next to it"
    )
    return (
        f'tier = "kafka_local" needs {names}, and Kafka {release.version} from {release.source} lacks them ({why}): '
        f'{remedy}, or use tier = "local", which does not need them'
    )
