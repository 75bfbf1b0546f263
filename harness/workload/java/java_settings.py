"""Settings of the release's own Java clients, for the same reasons as those of librdkafka (see `settings`)."""

from __future__ import annotations

from typing import Final

from harness.model.errors import BadInput
from harness.model.scenario.scenario import Producer, Reader

_CLIENT: Final[dict[str, object]] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "socket.connection.setup.timeout.ms": 2000,
    "socket.connection.setup.timeout.max.ms": 2000,
    "request.timeout.ms": 4000,
    "metadata.max.age.ms": 5000,
    "retry.backoff.ms": 100,
}
_PRODUCER: Final[dict[str, object]] = {
    "linger.ms": 10,
    "batch.size": 262_144,
    "buffer.memory": 67_108_864,
    "delivery.timeout.ms": 20_000,
    "max.block.ms": 5000,  # without metadata of the topic, or a full buffer: the record is reported as never sent
}
_TRANSACTIONAL: Final[dict[str, object]] = {"transaction.timeout.ms": 30_000, "delivery.timeout.ms": 15_000}
_STEPPED: Final[dict[str, object]] = _TRANSACTIONAL | {"transaction.timeout.ms": 60_000}
# Settings that may exclude idempotence. The client silently disables idempotence for them if it is only the default
# (KIP-679).
_AGAINST_IDEMPOTENCE: Final = frozenset({"retries", "acks", "max.in.flight.requests.per.connection"})
_CONSUMER: Final[dict[str, object]] = {
    "fetch.max.wait.ms": 100,
    "fetch.min.bytes": 65_536,
    "max.poll.records": 5000,
    "default.api.timeout.ms": 5000,
    "check.crcs": False,
    "enable.auto.commit": False,
    "auto.offset.reset": "none",
    "allow.auto.create.topics": False,
}
# For members of a group with the classic protocol.
CLASSIC: Final[dict[str, object]] = {
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 500,
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
# For the Kafka Streams application, which requests commits itself: so commit.interval.ms never elapses, and Kafka
# Streams wants a transaction timeout that is longer than it. The real timeout is TRANSACTION_TIMEOUT_MS (see
# StreamsClients.java).
_STREAMS: Final[dict[str, object]] = {
    "num.stream.threads": 1,
    "commit.interval.ms": 3_600_000,
    "producer.transaction.timeout.ms": 3_600_000,
    "poll.ms": 50,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 500,
    "auto.offset.reset": "earliest",
}
_GUARANTEES: Final = {"transaction": "exactly_once_v2", "after": "at_least_once"}
TRANSACTION_TIMEOUT_MS: Final = "10000"


def streams_settings(spec: Producer, bootstrap: str, run: int, partitions: int, state_dir: str) -> dict[str, object]:
    """Settings of a scenario's Kafka Streams application; its own `config` wins.

    Those with the prefix "durability." are for our driver: its input topics, its output topic and partitions, the run.
    """
    assert spec.processes is not None
    config = dict(spec.config)
    timeout_ms = config.pop("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
    settings = _CLIENT | _STREAMS
    settings |= {"bootstrap.servers": bootstrap, "client.id": f"{spec.name}-{run:x}", "state.dir": state_dir}
    settings |= {"application.id": spec.processes.group, "compression.type": spec.compression}
    settings |= {"processing.guarantee": _GUARANTEES[spec.processes.commits], **config}
    own = {
        "reads": ",".join(spec.processes.reads),
        "sink": spec.topics[0],
        "partitions": partitions,
        "run": run,
        "transaction.timeout.ms": timeout_ms,
    }
    return settings | {f"durability.{name}": value for name, value in own.items()}


# For a member of a share group; auto.offset.reset and the isolation level are settings of the group.
_SHARE: Final[dict[str, object]] = {
    "fetch.max.wait.ms": 100,
    "max.poll.records": 500,
    "default.api.timeout.ms": 5000,
    "check.crcs": False,
    "share.acknowledgement.mode": "explicit",
}


def producer_settings(producer: Producer, bootstrap: str, client_id: str) -> dict[str, object]:
    """Settings of a scenario's producer; its own `config` wins, in the Java client's names.

    If the scenario asks for idempotence, it is not set: that it is the client's default is a promise (KIP-679).
    """
    settings: dict[str, object] = _CLIENT | _PRODUCER
    settings |= {"bootstrap.servers": bootstrap, "client.id": client_id}
    settings |= {"acks": producer.acks, "compression.type": producer.compression}
    if producer.transactions is not None:
        settings |= _STEPPED if producer.when == "steps" else _TRANSACTIONAL
        settings["transactional.id"] = producer.name
    if not producer.idempotent:
        settings["enable.idempotence"] = False
    elif producer.config.keys() & _AGAINST_IDEMPOTENCE:
        settings["enable.idempotence"] = True  # so that the client rejects settings that exclude it
    settings |= producer.config
    if str(settings.get("enable.idempotence", True)).lower() == "true" and str(settings["acks"]) not in ("all", "-1"):
        raise BadInput(
            f"producer {producer.name} is idempotent with acks={settings['acks']}; idempotence needs acks=all "
            "(KIP-98): set idempotent = false or acks = all"
        )
    return settings


def reader_settings(reader: Reader, bootstrap: str, client_id: str, group: str) -> dict[str, object]:
    """Settings of a scenario's reader; its own `config` wins, in the Java client's names."""
    settings = _CLIENT | _CONSUMER | {"bootstrap.servers": bootstrap, "client.id": client_id}
    settings |= {"group.id": group, "isolation.level": reader.isolation}
    return settings | reader.config


def share_settings(reader: Reader, bootstrap: str, client_id: str) -> dict[str, object]:
    """Settings of a member of a share group; its own `config` wins, in the Java client's names."""
    settings = _CLIENT | _SHARE | {"bootstrap.servers": bootstrap, "client.id": client_id}
    return settings | {"group.id": str(reader.group)} | reader.config
