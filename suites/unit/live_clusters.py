"""An existing cluster, for unit tests: three brokers and a controller with Kafka's own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.model.live_cluster import LiveCluster

SETTINGS: Mapping[str, str] = {
    "auto.create.topics.enable": "true",
    "log.cleaner.backoff.ms": "15000",
    "log.retention.check.interval.ms": "300000",
    "min.insync.replicas": "1",
    "offsets.retention.check.interval.ms": "600000",
    "offsets.retention.minutes": "10080",
    "offsets.topic.num.partitions": "50",
    "offsets.topic.replication.factor": "3",
    "producer.id.expiration.check.interval.ms": "600000",
    "producer.id.expiration.ms": "86400000",
    "replica.lag.time.max.ms": "30000",
    "share.coordinator.state.topic.num.partitions": "50",
    "share.coordinator.state.topic.replication.factor": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "3600000",
    "transaction.state.log.num.partitions": "50",
    "transaction.state.log.replication.factor": "3",
    "unclean.leader.election.enable": "false",
}
_LIVE = LiveCluster(
    cluster_id="ID",
    bootstrap="h:9091",
    brokers={broker: ("h", 9090 + broker) for broker in (1, 2, 3)},
    voters=(9,),
    settings=dict.fromkeys((1, 2, 3), SETTINGS),
    features={"transaction.version": 2, "share.version": 1, "eligible.leader.replicas.version": 1},
    internal={},
    log_dirs=1,
    version="4.4.0",
)


def live(*, version: str | None = "4.4.0", combined: bool = False, ids: tuple[int, ...] = (1, 2, 3)) -> LiveCluster:
    """The cluster. combined: its brokers are its controllers. ids: of its brokers."""
    return replace(
        _LIVE,
        version=version,
        voters=ids if combined else (max(ids) + 6,),
        brokers={broker: ("h", 9090 + broker) for broker in ids},
        settings=dict.fromkeys(ids, SETTINGS),
    )


def with_settings(cluster: LiveCluster, broker: int | None = None, **settings: str) -> LiveCluster:
    """The cluster with other settings of one broker, or of each; `_` in a name stands for a dot."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    changed = {b: {**s, **given} if broker in (b, None) else s for b, s in cluster.settings.items()}
    return replace(cluster, settings=changed)
