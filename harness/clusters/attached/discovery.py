"""Looks at an existing cluster. It only reads, and it refuses what no run could be judged on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.kafka.admin.addresses import addresses_of
from harness.kafka.admin.client import AdminView, PartitionState
from harness.kafka.admin.reach import reach
from harness.kafka.admin.security import PLAINTEXT, Security, security_of
from harness.model.contract.internal_topics import OFFSETS, SHARE_STATE, TRANSACTIONS
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.live_cluster import InternalTopic, LiveCluster

_INTERNAL: Final = (OFFSETS, TRANSACTIONS, SHARE_STATE)


@dataclass(frozen=True, slots=True)
class Door:
    """How clients reach a cluster: the addresses as the user gave them, and settings in the names of librdkafka.

    file: where the user keeps those settings; None = there are none.
    """

    bootstrap: str
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    security: Security = field(default=PLAINTEXT, repr=False)
    file: Path | None = None

    @classmethod
    def of(cls, bootstrap: str, config: Mapping[str, str], file: Path | None = None) -> Door:
        """BadInput for an address or for settings that no client can use."""
        addresses_of(bootstrap)
        try:
            return cls(bootstrap, dict(config), security_of(config), file)
        except BadInput as refused:
            raise BadInput(f"--command-config {file}: {refused}") from refused


def discover(door: Door, version: str | None = None) -> LiveCluster:
    """The cluster behind the door. version: of Kafka, which no broker reports. BadInput for one that cannot be used."""
    found = reach(addresses_of(door.bootstrap), door.security)
    with AdminView(found.brokers, security=door.security) as admin:
        settings = admin.broker_configs()
        if silent := [broker for broker in sorted(found.brokers) if not settings.get(broker)]:
            # Only the broker itself answers for its own settings, so this also shows that each address is its own.
            host, port = found.brokers[silent[0]]
            raise BadInput(
                f"--bootstrap {door.bootstrap}: broker {silent[0]} does not report its settings at {host}:{port}, "
                "where it tells clients to go; make that address reachable from here, and allow this client "
                "DESCRIBE_CONFIGS on the cluster"
            )
        states = admin.partitions(_INTERNAL)
        _check_healthy(door, found.brokers, states)
        return LiveCluster(
            cluster_id=found.cluster_id,
            bootstrap=door.bootstrap,
            brokers=found.brokers,
            voters=_voters(admin, door),
            settings=settings,
            features=admin.features(),
            internal=_internal(admin, states),
            log_dirs=_log_dirs(admin, found.brokers),
            version=version,
        )


def _check_healthy(door: Door, brokers: Mapping[int, object], states: list[PartitionState]) -> None:
    """BadInput where Kafka's own topics are not whole: a run could not tell this from what it does itself."""
    short = [state for state in states if set(state.isr) != set(state.replicas)]
    if short:
        one = short[0]
        raise BadInput(
            f"--bootstrap {door.bootstrap}: the cluster is not healthy: the ISR of {one.topic}/{one.partition} is "
            f"{sorted(one.isr)} of {sorted(one.replicas)}; wait until every replica is in sync"
        )
    if gone := sorted({broker for state in states for broker in state.replicas} - brokers.keys()):
        raise BadInput(f"--bootstrap {door.bootstrap}: broker {gone[0]} is down; start it first")


def _voters(admin: AdminView, door: Door) -> tuple[int, ...]:
    try:
        return tuple(sorted(admin.quorum().voters))
    except HarnessTimeout as late:
        raise BadInput(
            f"--bootstrap {door.bootstrap}: the cluster does not describe its quorum of controllers ({late}); allow "
            "this client DESCRIBE on the cluster; clusters with ZooKeeper are not supported"
        ) from late


def _internal(admin: AdminView, states: list[PartitionState]) -> dict[str, InternalTopic]:
    names = sorted({state.topic for state in states})
    settings = admin.topic_configs(names)
    of = {name: [state for state in states if state.topic == name] for name in names}
    return {
        name: InternalTopic(
            partitions=len(of[name]),
            replicas=min(len(state.replicas) for state in of[name]),
            settings=settings.get(name, {}),
        )
        for name in names
    }


def _log_dirs(admin: AdminView, brokers: Mapping[int, object]) -> int:
    """1 where a broker does not say it."""
    found = [admin.log_directories(broker) for broker in brokers]
    return min(len(one.paths) if one else 1 for one in found)
