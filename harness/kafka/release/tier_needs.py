"""Adds to a release the jars that clusters with a remote tier (KIP-405) or an agent need, and reports missing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from harness.kafka.release.byteman import with_agent
from harness.kafka.release.cache import Progress
from harness.kafka.release.release import Release
from harness.kafka.release.storage_plugins import with_faulty_storage, with_file_storage, with_s3_storage
from harness.kafka.release.tier_jars import with_tier_jars
from harness.kafka.release.user_tier import with_user_storage
from harness.kafka.settings.tier_settings import SINCE
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape

NEEDS: Final[dict[str, Callable[..., Release]]] = {
    "local": with_file_storage,
    "kafka_local": with_tier_jars,
    "s3": with_s3_storage,
    "user": with_user_storage,
    "faults": with_faulty_storage,
    "agent": with_agent,
}


def asked(shape: ClusterShape) -> set[str]:
    """The keys of NEEDS that a shape requires."""
    wanted = (("faults", shape.tier_faults), (shape.tier, shape.tier), ("agent", shape.agent))
    return {need for need, is_wanted in wanted if is_wanted}


def equip(
    release: Release, shapes: Iterable[ClusterShape], *, maven_repo: str | None, cache: Path, progress: Progress
) -> tuple[Release, dict[str, str]]:
    """The release with all available needs of these shapes, and for each missing need the reason.

    A release that is older than the remote tier gets nothing for it; starting a cluster with it reports the error.
    """
    lacking: dict[str, str] = {}
    wanted = set().union(*map(asked, shapes))
    if release.numbers < SINCE:
        wanted &= {"agent"}
    for need in sorted(wanted):
        try:
            release = NEEDS[need](release, maven_repo=maven_repo, cache=cache, progress=progress)
        except BadInput as refused:
            lacking[need] = str(refused)
    return release, lacking


def equipped(
    release: Release, shapes: Iterable[ClusterShape], *, maven_repo: str | None, cache: Path, progress: Progress
) -> Release:
    """The release with everything that these shapes need. BadInput when something is missing."""
    given, lacking = equip(release, shapes, maven_repo=maven_repo, cache=cache, progress=progress)
    if lacking:
        raise BadInput(next(iter(lacking.values())))
    return given
