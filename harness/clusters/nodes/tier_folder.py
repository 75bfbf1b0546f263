"""The folder that all brokers of a run share as their remote tier (KIP-405)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.kafka.release.release import Release
from harness.kafka.settings.tier_settings import BUCKET, ORDERS, REPORTS, SINCE, Tier
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape

_STORE: Final = "tier"


def store_of(run: Path) -> Path:
    """The path of the folder. It is in the directory of the run, and is removed with it."""
    return run / _STORE


def make_store(run: Path, shape: ClusterShape) -> list[Path]:
    """Makes the folder before containers mount it, and returns it; an empty list if the shape has no tier."""
    if not shape.tier:
        return []
    store = store_of(run)
    store.mkdir()
    for name in (
        *((ORDERS, REPORTS) if shape.tier_faults else ()),
        *((BUCKET,) if shape.tier in ("local", "s3") else ()),
    ):
        (store / name).mkdir()
    return [store]


def tier_of(run: Path, shape: ClusterShape, release: Release, s3: str | None = None) -> Tier | None:
    """The settings of the tier for a node of this release. s3: the URL of the S3 server as the node sees it."""
    if not shape.tier:
        return None
    own, before = tier_jars(release, shape)
    user = release.user_storage if shape.tier == "user" else None
    return Tier(own + before, store_of(run), shape.tier_faults, s3, user, local_tiered=shape.tier == "kafka_local")


def tier_jars(release: Release, shape: ClusterShape) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Jars from which nodes load the storage, and jars that come before them on the class path."""
    ours = (release.file_storage,) if release.file_storage else ()
    own = {"": (), "local": ours, "kafka_local": release.tier_jars, "s3": release.s3_jars, "user": ()}[shape.tier]
    return own, (release.faulty_storage,) if shape.tier_faults and release.faulty_storage else ()


def check_tier(release: Release, shape: ClusterShape) -> None:
    """BadInput for a release that has no remote tier."""
    if shape.tier and release.numbers < SINCE:
        since = ".".join(map(str, SINCE))
        raise BadInput(
            f'shape: tier = "{shape.tier}": Kafka {release.version} has no remote storage (KIP-405): give a release '
            f"from {since} on, or remove tier from the shape"
        )
