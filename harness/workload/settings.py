"""Settings of librdkafka for every client of the workload, with the reason for each that differs from the default.

The release's own Java clients have other setting names, see `java_settings`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import confluent_kafka

from harness.model.errors import BadInput
from harness.model.outcome import LIBRDKAFKA
from harness.model.scenario.scenario import JAVA, Producer, Reader
from harness.workload.java import java_settings

CLIENT_NAME: Final = f"{LIBRDKAFKA} {confluent_kafka.libversion()[0]}"
STATISTICS: Final[dict[str, object]] = {"statistics.interval.ms": 500}

# During a fault clients log many connection errors, which do not belong in the terminal.
_QUIET: Final = logging.getLogger("durability.client")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False

# Faults last seconds here, so clients must notice them within seconds.
_RECONNECT: Final[dict[str, object]] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "socket.connection.setup.timeout.ms": 2000,
    "socket.timeout.ms": 5000,  # a broker that accepts and stays silent
    "topic.metadata.refresh.fast.interval.ms": 100,
    "topic.metadata.refresh.interval.ms": 5000,
    "retry.backoff.ms": 100,
}

# Large batches save broker CPU; a scenario that needs small ones sets them. Sends are reported during the run (as
# unknown after 20 s), not after the default of 5 minutes.
_PRODUCER: Final[dict[str, object]] = {
    "linger.ms": 10,
    "batch.size": 262_144,
    "batch.num.messages": 10_000,
    "delivery.timeout.ms": 20_000,
    "request.timeout.ms": 4000,
    "queue.buffering.max.messages": 1_000_000,  # the window of each stream bounds the queue, see streams.WINDOW
    "queue.buffering.max.kbytes": 262_144,
}
_TRANSACTIONAL: Final[dict[str, object]] = {"transaction.timeout.ms": 30_000, "delivery.timeout.ms": 15_000}
# A transaction that steps begin and end stays open during faults, which take longer on a starved machine.
_STEPPED: Final[dict[str, object]] = _TRANSACTIONAL | {"transaction.timeout.ms": 60_000}

# With librdkafka's default back-off of a full fetch queue (1 s) a reader takes 4 to 6 times as long.
_CONSUMER: Final[dict[str, object]] = {
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 100,
    "fetch.min.bytes": 65_536,  # else brokers answer every reader for each small append, which costs them CPU
    "fetch.error.backoff.ms": 100,
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 4096,  # for each partition of each reader: it bounds the memory of a large run
    "check.crcs": False,  # true redelivers good records many times on a corrupt batch; payloads have their own CRC
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # the harness must see each jump of a position
    "allow.auto.create.topics": False,
}


def _client(bootstrap: str, client_id: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "logger": _QUIET,
        "log_level": 4,
        **STATISTICS,
    }


def producer_settings(producer: Producer, bootstrap: str, client_id: str) -> dict[str, object]:
    """Settings of a scenario's producer; its own `config` wins. The transactional id is the producer's name."""
    if producer.client == JAVA:
        return java_settings.producer_settings(producer, bootstrap, client_id)
    settings = {**_RECONNECT, **_PRODUCER}
    settings["acks"] = producer.acks
    settings["enable.idempotence"] = producer.idempotent or producer.transactions is not None
    settings["compression.codec"] = producer.compression
    if producer.partitioner:
        settings["partitioner"] = producer.partitioner
    if producer.transactions is not None:
        settings |= _STEPPED if producer.when == "steps" else _TRANSACTIONAL
        settings["transactional.id"] = producer.name
    settings |= _client(bootstrap, client_id) | producer.config
    if settings["enable.idempotence"] and str(settings["acks"]) not in ("all", "-1"):
        raise BadInput(
            f"producer {producer.name} is idempotent with acks={producer.acks}; idempotence needs acks=all (KIP-98): "
            "set idempotent = false or acks = all"
        )
    return settings


def consumer_settings(bootstrap: str, client_id: str, group: str, isolation: str) -> dict[str, object]:
    """Settings of a consumer of the harness."""
    settings = _RECONNECT | _CONSUMER | _client(bootstrap, client_id)
    return settings | {"group.id": group, "isolation.level": isolation}


def reader_settings(reader: Reader, bootstrap: str, client_id: str, access: Mapping[str, object]) -> dict[str, object]:
    """Settings of a scenario's reader; `access`: those of its listener. Its own `config` wins."""
    group = reader.group or f"reader-{reader.name}"
    if reader.client == JAVA:
        return java_settings.reader_settings(reader, bootstrap, client_id, group)
    return {**consumer_settings(bootstrap, client_id, group, reader.isolation), **access, **reader.config}


def may_retry(settings: dict[str, object]) -> bool:
    """Whether a producer with these settings may transmit a record twice."""
    return is_idempotent(settings) or int(str(settings.get("retries", 1))) > 0


def is_idempotent(settings: dict[str, object]) -> bool:
    """Whether a producer with these settings is idempotent: the Java client is by default."""
    return str(settings.get("enable.idempotence", True)).lower() == "true"
