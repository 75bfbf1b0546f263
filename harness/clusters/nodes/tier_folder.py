"""The folder that all brokers of a run share as their remote tier (KIP-405)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.kafka.release.release import Release
from harness.kafka.settings.tier_settings import BUCKET, ORDERS, SINCE, TOLD, Tier
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape

_STORE: Final = "tier"


def store_of(run: Path) -> Path:
    """Where it is, within the directory of a run; so it goes with that."""
    return run / _STORE


def make_store(run: Path, shape: ClusterShape) -> list[Path]:
    """Makes it, before anybody mounts it; none where the shape has no tier."""
    if not shape.tier:
        return []
    store = store_of(run)
    store.mkdir()
    for name in (*((ORDERS, TOLD) if shape.tier_faults else ()), *((BUCKET,) if shape.tier in ("local", "s3") else ())):
        (store / name).mkdir()
    return [store]


def tier_of(run: Path, shape: ClusterShape, release: Release, s3: str | None = None) -> Tier | None:
    """What a node of this release is told of it. s3: by which it reaches the server of one in S3."""
    if not shape.tier:
        return None
    own, before = tier_jars(release, shape)
    user = release.user_storage if shape.tier == "user" else None
    return Tier(own + before, store_of(run), shape.tier_faults, s3, user, local_tiered=shape.tier == "kafka_local")


def tier_jars(release: Release, shape: ClusterShape) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """What its nodes load the storage from, and what stands before that: jars that lie in places of their own."""
    ours = (release.file_storage,) if release.file_storage else ()
    own = {"": (), "local": ours, "kafka_local": release.tier_jars, "s3": release.s3_jars, "user": ()}[shape.tier]
    return own, (release.faulty_storage,) if shape.tier_faults and release.faulty_storage else ()


def check_tier(release: Release, shape: ClusterShape) -> None:
    """BadInput for a release that has no remote tier."""
    if shape.tier and release.numbers < SINCE:
        since = ".".join(map(str, SINCE))
        raise BadInput(
            f'shape: tier = "{shape.tier}": Kafka {release.version} has no remote storage (KIP-405): give a release '
            f"from {since} on, or leave tier away"
        )
