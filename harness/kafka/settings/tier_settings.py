"""Settings of brokers with a remote tier (KIP-405), so small that segments go there within a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.model.contract.internal_topics import TIER_METADATA, TIER_PARTITIONS, TIER_REPLICAS
from harness.model.user_storage import UserStorage

METADATA_TOPIC: Final = TIER_METADATA
# The first release that has it, early access then (KIP-405).
SINCE: Final = (3, 6)
FAULTY: Final = "durability.FaultyStorage"
_FILE: Final = "durability.FileStorage"
_S3: Final = "durability.S3Storage"
_LOCAL_TIERED: Final = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
# Where LocalTieredStorage puts its objects, within the folder that it is given; so do ours, in a folder or a bucket.
BUCKET: Final = "kafka-tiered-storage"
# Of a server that listens on addresses of the run alone.
S3_ACCESS: Final = "durability"
S3_SECRET: Final = "durability-of-a-run"
# Within the store, beside what the tier itself makes there: what FaultyStorage is told to do, and what it did.
ORDERS: Final = "orders"
TOLD: Final = "reported"


@dataclass(frozen=True, slots=True)
class Tier:
    """A tier in a folder that all brokers share, in S3, or the user's own. `jars` lie where the brokers run.

    faulty: FaultyStorage, of one of them, stands before it; s3: by which a node reaches the server, whose bucket is a
    folder of the store; user: whose jars come first; local_tiered: it is Kafka's LocalTieredStorage.
    """

    jars: tuple[Path, ...]
    store: Path
    faulty: bool = False
    s3: str | None = None
    user: UserStorage | None = None
    local_tiered: bool = False


def tier_properties(tier: Tier, brokers: int, listener: str) -> Mapping[str, str]:
    """For every node: a controller that is not told of the tier refuses topics that are to have one.

    listener: by which a broker reaches the topic of the tier's metadata.
    """
    return {
        "remote.log.storage.system.enable": "true",
        **_manager(tier),
        "remote.log.metadata.manager.listener.name": listener,
        TIER_REPLICAS: str(min(3, brokers)),
        TIER_PARTITIONS[0]: str(TIER_PARTITIONS[1]),
        "remote.log.manager.task.interval.ms": "500",
        # A copy that failed is tried again after this, up to that; the defaults are 500 ms and 30 s.
        "remote.log.manager.task.retry.backoff.ms": "500",
        "remote.log.manager.task.retry.backoff.max.ms": "2000",
    }


def _manager(tier: Tier) -> dict[str, str]:
    storage = tier.user.class_name if tier.user else _S3 if tier.s3 else _LOCAL_TIERED if tier.local_tiered else _FILE
    paths = [*([tier.user.class_path] if tier.user else []), *map(str, tier.jars)]
    settings = {
        "remote.log.storage.manager.class.name": FAULTY if tier.faulty else storage,
        "remote.log.storage.manager.class.path": ":".join(paths),
    }
    if tier.faulty:
        settings |= {
            "rsm.config.durability.storage": storage,
            "rsm.config.durability.orders": str(tier.store / ORDERS),
            "rsm.config.durability.reported": str(tier.store / TOLD),
        }
    if tier.s3:
        settings |= {
            "rsm.config.durability.s3.endpoint": tier.s3,
            "rsm.config.durability.s3.bucket": BUCKET,
            "rsm.config.durability.s3.access": S3_ACCESS,
            "rsm.config.durability.s3.secret": S3_SECRET,
        }
    own = tier.user.config if tier.user else {"dir": str(tier.store), "durability.folder": str(tier.store / BUCKET)}
    return settings | {f"rsm.config.{key}": value for key, value in own.items()}
