"""The earlier release on which a cluster starts when a scenario upgrades it to the release under test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harness.kafka.release.release import KRAFT_SINCE, Release, newest_before, resolve
from harness.kafka.release.repository import NotPublished
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape
from harness.model.version import PREVIOUS_MINOR, numbers_of


@dataclass(frozen=True, slots=True)
class Releases:
    """The release under test, and the earlier releases on which clusters start, by `ClusterShape.starts_on`."""

    tested: Release
    earlier: Mapping[str, Release] = field(default_factory=dict)

    def start(self, shape: ClusterShape) -> Release | None:
        """The earlier release on which a cluster of this shape starts; None if it starts on the one under test."""
        return None if shape.starts_on is None else self.earlier[shape.starts_on]


def refuse_upgrade(shape: ClusterShape, tested: Release) -> None:
    """BadInput if nodes that start on `shape.starts_on` cannot be upgraded to the release under test."""
    if shape.starts_on is None:
        return
    if tested.image:
        start = "the previous minor release" if shape.starts_on == PREVIOUS_MINOR else f"Kafka {shape.starts_on}"
        raise BadInput(
            f"starts_on: a container of {start} keeps its image, so it cannot be upgraded to one of "
            f"{tested.image.spec}; give --kafka a version, a directory or a tarball"
        )
    if shape.starts_on == PREVIOUS_MINOR:
        if tested.numbers[:2] <= KRAFT_SINCE:
            raise BadInput(
                f"starts_on: no release before Kafka {tested.version} has KRaft for production (KIP-833); give --kafka "
                "a newer release, or leave this scenario out"
            )
    elif tested.numbers <= numbers_of(shape.starts_on):
        raise BadInput(
            f"starts_on: Kafka {tested.version} is no upgrade of {shape.starts_on}; give --kafka a newer release, "
            "or leave this scenario out"
        )


def find_start(
    shape: ClusterShape, tested: Release, *, maven_repo: str | None, cache: Path, progress: Callable[[str], None]
) -> Release | None:
    """The release of `shape.starts_on`; None if the shape names none.

    A repository of release candidates may lack it, and then Maven Central is asked. BadInput if the release cannot be
    found, or cannot be upgraded to the one under test.
    """
    refuse_upgrade(shape, tested)
    if shape.starts_on is None:
        return None
    if shape.starts_on == PREVIOUS_MINOR:
        found = partial(newest_before, tested.numbers, cache=cache, progress=progress)
    else:
        found = partial(resolve, shape.starts_on, cache=cache, progress=progress)
    try:
        return found(maven_repo=maven_repo)
    except NotPublished:
        if maven_repo is None:
            raise
        return found(maven_repo=None)
