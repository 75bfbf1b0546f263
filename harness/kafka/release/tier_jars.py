"""What a release's own remote tier, LocalTieredStorage (KIP-405), comes in: test jars, which no distribution holds.

Not every release is published with them (4.4.0 is not), so only `tier = "kafka_local"` takes them.

They are looked for beside a build of this machine, where `./gradlew storage:testJar clients:testJar` leaves them, and
else fetched in the build's version. The plugin sees brokers through a public interface alone, so that of a published
version fits a patched build of it: what is judged, the brokers' side, stays the build's own.
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

# The classes of clients' tests are what the storage's are made with in some versions.
ARTIFACTS: Final = ("kafka-storage", "kafka-clients")
_CLASSIFIER: Final = "test"
_BUILT: Final = ("storage/build/libs", "clients/build/libs")  # of a checkout
_UP: Final = 4  # from a tarball in core/build/distributions to its checkout


def with_tier_jars(release: Release, *, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    """The release with the jars of its own remote tier. BadInput, with what to pass, where there are none."""
    if release.tier_jars:
        return release
    beside = _beside(release)
    return replace(release, tier_jars=beside or _fetched(release, maven_repo, Cache(cache), progress))


def names_of(version: str) -> list[str]:
    """The files by their names."""
    return [f"{artifact}-{version}-{_CLASSIFIER}.jar" for artifact in ARTIFACTS]


def _beside(release: Release) -> tuple[Path, ...]:
    """Of a build of this machine: in its folder, in its libs, or in the checkout that it lies in; all, or none."""
    if release.place is None:
        return ()
    near = [release.place, *release.place.parents[:_UP]]
    folders = [release.place / "libs", *near[:2], *(place / built for place in near for built in _BUILT)]
    found = [
        next((folder / name for folder in folders if (folder / name).is_file()), None)
        for name in names_of(release.version)
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
    names = " and ".join(names_of(release.version))
    remedy = (
        "give --maven-repo a repository that has them"
        if release.place is None
        else "build them (./gradlew storage:testJar clients:testJar) and put them beside it"
    )
    return (
        f'tier = "kafka_local" needs {names}, and Kafka {release.version} from {release.source} comes without ({why}): '
        f'{remedy}, or take tier = "local", which needs none of them'
    )
