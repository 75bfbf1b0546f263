"""Settings of brokers with a remote tier (KIP-405). Their intervals are short: segments are copied within a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.model.contract.internal_topics import TIER_METADATA, TIER_PARTITIONS, TIER_REPLICAS
from harness.model.user_storage import UserStorage

METADATA_TOPIC: Final = TIER_METADATA
# The first release with a remote tier, then in early access (KIP-405).
SINCE: Final = (3, 6)
FAULTY: Final = "durability.FaultyStorage"
_FILE: Final = "durability.FileStorage"
_S3: Final = "durability.S3Storage"
_LOCAL_TIERED: Final = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
# The subfolder for objects in the folder that LocalTieredStorage is configured with. The storages of this harness use
# the same name, for a folder or an S3 bucket.
BUCKET: Final = "kafka-tiered-storage"
# Credentials of the S3 server, which listens only on addresses of the run.
S3_ACCESS: Final = "durability"
S3_SECRET: Final = "durability-of-a-run"
# Folders in the store, next to those of the tier itself: orders to FaultyStorage, and its reports of what it did.
ORDERS: Final = "orders"
REPORTS: Final = "reported"


@dataclass(frozen=True, slots=True)
class Tier:
    """A tier in a folder that all brokers share, in S3, or with a storage manager of the user.

    jars: paths where the brokers run. store: the folder of the tier. faulty: FaultyStorage wraps the storage; its jar
    is one of `jars`. s3: the URL of the S3 server as a node sees it; the bucket is a folder of the store. user: its
    jars come first on the class path. local_tiered: the storage is Kafka's LocalTieredStorage.
    """

    jars: tuple[Path, ...]
    store: Path
    faulty: bool = False
    s3: str | None = None
    user: UserStorage | None = None
    local_tiered: bool = False


def tier_properties(tier: Tier, brokers: int, listener: str) -> Mapping[str, str]:
    """Settings for every node: a controller without them refuses topics with remote storage.

    listener: the name of the listener that a broker uses for the metadata topic of the tier.
    """
    return {
        "remote.log.storage.system.enable": "true",
        **_manager(tier),
        "remote.log.metadata.manager.listener.name": listener,
        TIER_REPLICAS: str(min(3, brokers)),
        TIER_PARTITIONS[0]: str(TIER_PARTITIONS[1]),
        "remote.log.manager.task.interval.ms": "500",
        # First and longest wait before a failed copy is retried. The defaults are 500 ms and 30 s.
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
            "rsm.config.durability.reported": str(tier.store / REPORTS),
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
