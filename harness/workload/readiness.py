"""Checks of a scenario's clients before a load starts, and figures that follow from their settings."""

from __future__ import annotations

import confluent_kafka

from harness.model.contract.kafka_defaults import SEGMENT_BYTES_DEFAULT
from harness.model.errors import BadInput
from harness.model.scenario.scenario import JAVA, STREAMS, Producer, Reader, Scenario
from harness.workload.consumers.consumer_group import member_settings
from harness.workload.java.java_process import JavaClients
from harness.workload.java.kafka_streams import CLOSE_S
from harness.workload.settings import producer_settings, reader_settings


def bootstrap_of(spec: Producer | Reader, brokers: str) -> str:
    """The addresses that a client begins with: of all brokers, which are in order, or of the only one that it knows."""
    return brokers.split(",")[spec.bootstrap - 1] if spec.bootstrap else brokers


def close_s_of(spec: Producer, bootstrap: str) -> float:
    """Seconds after which every send has been reported: librdkafka looks for timed-out sends once a second."""
    if spec.client == STREAMS:
        return CLOSE_S
    return float(str(producer_settings(spec, bootstrap, spec.name)["delivery.timeout.ms"])) / 1000 + 3.0


def segment_bytes_of(scenario: Scenario) -> dict[str, int]:
    """The size in bytes at which each topic rolls a segment."""
    broker = scenario.shape.config.get("log.segment.bytes", str(SEGMENT_BYTES_DEFAULT))
    return {topic.name: int(topic.config.get("segment.bytes", broker)) for topic in scenario.topics}


def check_configs(scenario: Scenario) -> None:
    """Raises BadInput where librdkafka refuses the `config` of a producer or a reader. Nothing is connected for it."""
    for producer in scenario.producers:
        if producer.config and producer.client not in (JAVA, STREAMS):
            _try(confluent_kafka.Producer, f"producer {producer.name}", producer_settings(producer, "", producer.name))
    for reader in scenario.readers:
        if reader.config and not (reader.shares or reader.client == JAVA):
            settings = reader_settings(reader, "", reader.name, {})
            settings |= member_settings(reader, reader.protocol) if reader.group else {}
            _try(confluent_kafka.Consumer, f"reader {reader.name}", settings)


def _try(
    client: type[confluent_kafka.Producer | confluent_kafka.Consumer], whose: str, settings: dict[str, object]
) -> None:
    try:
        client(settings)
    except confluent_kafka.KafkaException as refused:
        why = refused.args[0].str().strip()
        raise BadInput(f"{whose}: librdkafka refuses its settings: {why}; correct `config`") from None


def check(scenario: Scenario, java: JavaClients | None) -> None:
    """Raises BadInput where the clients of a scenario cannot do what the scenario declares."""
    if java is None and scenario.java_clients:
        raise BadInput(f"scenario {scenario.name} has the release's own Java clients, and they were not made ready")
    if scenario.kafka_streams and not (java and java.streams):
        raise BadInput(f"scenario {scenario.name} has the release's own Kafka Streams, and it was not made ready")
    groups = {reader.group for reader in scenario.readers}
    for producer in scenario.producers:
        if producer.transactions is None:
            continue
        if producer.transactions.offsets_of in groups - {None}:
            raise BadInput(
                f"producer {producer.name} commits offsets of group {producer.transactions.offsets_of}, which a reader "
                "joins: name a group of its own"
            )
