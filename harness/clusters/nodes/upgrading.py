"""The release that a cluster begins on where that is not the one under test, as in a rolling upgrade."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.kafka.release.release import Release, resolve
from harness.kafka.release.repository import NotPublished
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape
from harness.model.version import numbers_of


@dataclass(frozen=True, slots=True)
class Releases:
    """The release under test, and those that clusters begin on, by `ClusterShape.starts_on`."""

    tested: Release
    earlier: Mapping[str, Release] = field(default_factory=dict)

    def start(self, shape: ClusterShape) -> Release | None:
        """What a cluster of this shape begins on; None where that is the release under test."""
        return None if shape.starts_on is None else self.earlier[shape.starts_on]


def refuse_upgrade(shape: ClusterShape, tested: Release) -> None:
    """BadInput when nodes that begin on `shape.starts_on` cannot be upgraded to the release under test."""
    if shape.starts_on is None:
        return
    if tested.image:
        raise BadInput(
            f"starts_on: no container of Kafka {shape.starts_on} can become one of {tested.image.spec}, for each keeps "
            "the image that it was made of; give --kafka a version, a directory or a tarball"
        )
    if tested.numbers <= numbers_of(shape.starts_on):
        raise BadInput(
            f"starts_on: Kafka {tested.version} is no upgrade of {shape.starts_on}; give --kafka a newer release, "
            "or leave this scenario away"
        )


def find_start(
    shape: ClusterShape, tested: Release, *, maven_repo: str | None, cache: Path, progress: Callable[[str], None]
) -> Release | None:
    """The release of `shape.starts_on`; None when the shape names none. A repository of candidates that lacks it is
    no reason not to have it: then Maven Central is asked. BadInput where it cannot be had, or cannot be upgraded.
    """
    refuse_upgrade(shape, tested)
    if shape.starts_on is None:
        return None
    try:
        return resolve(shape.starts_on, maven_repo=maven_repo, cache=cache, progress=progress)
    except NotPublished:
        if maven_repo is None:
            raise
        return resolve(shape.starts_on, maven_repo=None, cache=cache, progress=progress)
