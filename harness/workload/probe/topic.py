"""The topic of the probe: created by it, recognised by its id, and refused if another client created it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from harness.kafka.admin.brokers import Brokers
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.waiting import wait_for
from harness.workload.probe.ledger import ProbeLedger
from harness.workload.probe.replicas import ProbedTopic, described

KEPT_S: Final = 24 * 3600  # records are expected to be there for so long
PARTITIONS_MAX: Final = 12
_REPLICAS: Final = 3
_ASK_S: Final = 20.0
# Retention keeps records longer than the ledger expects them, and small segments show deletions and the tier soon.
_SETTINGS: Final = {
    "retention.ms": str((KEPT_S + 4 * 3600) * 1000),
    "retention.bytes": "-1",
    "segment.bytes": str(1 << 20),
    "segment.ms": str(600_000),
    "cleanup.policy": "delete",
    "compression.type": "uncompressed",
    "message.timestamp.type": "CreateTime",
}
_TIERED: Final = {"remote.storage.enable": "true", "local.retention.ms": "600000"}


def probe_topic(
    name: str, brokers: Brokers, client: Mapping[str, str], ledger: ProbeLedger, *, tiered: bool
) -> ProbedTopic:
    """The topic, created if it does not exist. tiered: whether the brokers have a remote tier.

    BadInput if it exists and is not the one that this ledger is about, or if it cannot be created.
    """
    known, found = ledger.fact("topic_id"), described(brokers, name)
    if found is not None and found.topic_id == known:
        return found
    if found is not None:
        raise BadInput(
            f"--probe {name}: the topic exists, and this database's auditor did not create it; give the name of a "
            "topic that does not exist"
        )
    _create(name, client, len(brokers.ids), _SETTINGS | (_TIERED if tiered else {}))
    try:
        created = wait_for(
            lambda: described(brokers, name),
            until=lambda seen: seen is not None and all(p.leader >= 0 for p in seen.partitions),
            deadline_s=_ASK_S,
            what=f"the leaders of {name}",
        )
    except HarnessTimeout as late:
        raise BadInput(f"--probe {name}: {late}") from None
    assert created is not None  # see until
    ledger.begin(topic=name, topic_id=created.topic_id, run=str(secrets.randbits(60)), began=str(time.time_ns()))
    return created


def _create(name: str, client: Mapping[str, str], brokers: int, settings: Mapping[str, str]) -> None:
    admin = AdminClient(dict(client))
    for replicas in range(_REPLICAS, 0, -1):
        in_sync = {"min.insync.replicas": str(max(1, replicas - 1))}
        new = NewTopic(
            name,
            num_partitions=min(brokers, PARTITIONS_MAX),
            replication_factor=replicas,
            config={**settings, **in_sync},
        )
        try:
            admin.create_topics([new], request_timeout=_ASK_S)[name].result(_ASK_S + 5)
            return
        except (KafkaException, TimeoutError) as refused:
            # The controller also counts the brokers that are down just now, which clients do not see.
            if replicas > 1 and _needs_more_brokers(refused):
                continue
            why = refused.args[0].str() if isinstance(refused, KafkaException) else "no answer in time"
            raise BadInput(
                f"--probe {name}: the topic cannot be created ({why}); give the user CREATE on it, or another name"
            ) from None


def _needs_more_brokers(refused: Exception) -> bool:
    return isinstance(refused, KafkaException) and refused.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR
