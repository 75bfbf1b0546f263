"""The configurations of the matrix: the settings of each topic of a scenario, and their text."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, cast

from harness.kafka.admin.features import ELR
from harness.model.contract.configuration import AS_RETENTION, ClientSettings, Commits, TopicSettings
from harness.model.contract.contract import (
    APPEND_TIME,
    ID_FORGOTTEN,
    PRODUCER_EXPIRATION,
    READER_AWAY,
    contract_of,
    has_epoch_each,
    topics_in,
)
from harness.model.contract.internal_topics import TIER_METADATA
from harness.model.documents.contract import Contract
from harness.model.scenario.scenario import SHARE, STREAMS, WAIT_COMPACTED, Producer, Reader, Scenario
from harness.model.version import numbers_of

# Events to which topic and producer do not matter.
_OF_CONSUMERS: Final = frozenset({"reader_dies", "reader_fails"})
# Events that depend on auto.offset.reset.
OF_RESETS: Final = frozenset({"offsets_expire", "falls_behind", "partitions_added"})
# Events that depend on what a late reader read, not on the final log.
OF_LATE_READERS: Final = frozenset({"falls_behind_cleaner"})
# Events that depend on __consumer_offsets, not on the topic that is read.
OF_OFFSETS: Final = frozenset({"offsets_leader_alone_dies"})
# Events that depend on __remote_log_metadata.
OF_TIER: Final = frozenset({"tier_metadata_leader_alone_dies"})
# Events that also depend on the isolation level.
_OF_ISOLATION: Final = frozenset({"transaction_aborts"})
# Events that also depend on the producer's transaction.version.
_OF_PROTOCOL: Final = frozenset({"end_comes_late"})
_RESETS: Final = {"error": "none"}  # librdkafka's value in scenarios -> Kafka's
# Events that also depend on a broker setting.
_OF_BROKERS: Final = {
    "transactional_id_expires": "transactional.id.expiration.ms",
    "producer_expires_unanswered": PRODUCER_EXPIRATION,
}
# Events that also depend on delivery.timeout.ms.
_OF_PATIENCE: Final = frozenset({"gives_up"})
_DELIVERY: Final = "delivery.timeout.ms"
_DELIVERY_MS: Final = 120_000  # Kafka's default; a scenario about it sets it
# Events that also depend on transaction.timeout.ms.
_OF_OPEN_TRANSACTIONS: Final = frozenset({"transaction_times_out"})
_TIMEOUT: Final = "transaction.timeout.ms"
_TIMEOUT_MS: Final = 60_000  # Kafka's default, and that of producers that send when steps say so
_OPEN_MS: Final = 30_000  # no transaction in these scenarios stays open longer
_FAILOVER_MS: Final = 20_000  # no failover in these scenarios lasts longer
ELR_SINCE: Final = (4, 1)  # the first release that turns ELR on when it formats a cluster


def row_of(scenario: Scenario, topic: str, settings: TopicSettings, client: ClientSettings) -> str:
    """The text of a configuration: the settings that matter to the event of the topic."""
    event = scenario.matrix.at(topic) if scenario.matrix else ""
    if event in _OF_CONSUMERS:
        made = _processor_of(scenario, topic)
        by = " (Kafka Streams)" if made and made.client == STREAMS else ""
        return f"{client.consumer}{f', writes its output{by}' if made else ''}"
    if event in OF_RESETS:
        stays = ", group never empty" if client.group_never_empty else ""
        limit = "" if settings.retention_ms >= 0 else "; retention.ms=-1"
        return f"auto.offset.reset={client.reset}{stays}, {client.consumer}{limit}"
    if event in OF_OFFSETS:
        return f"{client.consumer}; __consumer_offsets: {settings}"
    if event in OF_TIER:
        return f"{client}; {TIER_METADATA}: {settings}"
    spoken = f", transaction.version {client.transaction_version}" if event in _OF_PROTOCOL else ""
    read = f"; read as {client.isolation}" if event in _OF_ISOLATION else ""
    kept = f", {_OF_BROKERS[event]}={scenario.shape.config[_OF_BROKERS[event]]}" if event in _OF_BROKERS else ""
    waits = f", {_DELIVERY}={_waits_ms(_writer(scenario, topic))}" if event in _OF_PATIENCE else ""
    ends = f", {_TIMEOUT}={_timeout_ms(_writer(scenario, topic))}" if event in _OF_OPEN_TRANSACTIONS else ""
    return f"{client}{waits}{spoken}{kept}{ends}; {settings}{read}"


def settings_of(scenario: Scenario, topic: str, version: str) -> tuple[TopicSettings, ClientSettings]:
    """The settings of a topic of a scenario on a release, and of its clients.

    Clients are the first producer that writes to it and the first group that reads it; a processor that reads it
    replaces how the group commits.
    """
    contract = _declared(scenario)
    promised = contract.topics[topic]
    producer = _writer(scenario, topic)
    settings = TopicSettings(
        replicas=promised.replicas,
        min_isr=promised.min_insync_replicas,
        unclean=promised.unclean_election,
        elr=scenario.shape.features.get(ELR, int(numbers_of(version) >= ELR_SINCE)) > 0,
        flush_messages=promised.flush_messages,
        flush_ms=promised.flush_ms,
        flush_scheduler_ms=-1 if promised.flush_ms < 0 else 0,  # flush_ms already includes it
        retention_ms=promised.retention_ms,
        retention_bytes=promised.retention_bytes,
        deletes=promised.deletes,
        compacted=promised.compacted,
        delete_retention_ms=promised.delete_retention_ms,
        compaction_lag_ms=promised.compaction_lag_ms,
        append_time=promised.timestamp_type == APPEND_TIME,
        tiered=promised.tiered,
        local_retention_ms=_local_retention(scenario, topic, "ms"),
        local_retention_bytes=_local_retention(scenario, topic, "bytes"),
    )
    group = next((r for r in scenario.readers if topic in r.topics and r.group is not None), None)
    processor = _processor_of(scenario, topic)
    stays = group is not None and group.group not in _left(scenario)
    waits_ms = _waits_ms(producer)
    remembered, patient = contract.producer_expiration_ms > waits_ms, waits_ms >= _FAILOVER_MS
    reads_within_compaction_lag = promised.compaction_lag_ms > 0 and topic not in _compacted(scenario)
    client = replace(
        _client(producer, group), group_never_empty=stays, reads_within_compaction_lag=reads_within_compaction_lag
    )
    client = replace(client, long_producer_id_expiration=remembered, long_delivery_timeout=patient)
    if client.transactional:
        version_spoken = 2 if has_epoch_each(producer, scenario) else 1
        outlives = producer.name not in _expired(scenario)
        client = replace(client, transaction_version=version_spoken, long_transactional_id_expiration=outlives)
        client = replace(client, long_transaction_timeout=_timeout_ms(producer) >= _OPEN_MS)
    if processor is not None and processor.processes is not None:
        commits = cast(Commits, processor.processes.commits)  # scenario_rules has seen it
        client = replace(client, transactional=True, idempotent=True, isolation="read_committed", commits=commits)
    return settings, client


def _local_retention(scenario: Scenario, topic: str, unit: str) -> int:
    """local.retention.ms or local.retention.bytes of the topic."""
    config = next(t.config for t in scenario.topics if t.name == topic)
    return int(config.get(f"local.retention.{unit}", AS_RETENTION))


def _left(scenario: Scenario) -> set[str]:
    """Groups that are empty for a while."""
    return {str(step.args.get("group")) for step in scenario.steps if step.do == READER_AWAY}


def _expired(scenario: Scenario) -> set[str]:
    """Producers that pause until their transactional.id expires."""
    return {str(step.args.get("producer")) for step in scenario.steps if step.do == ID_FORGOTTEN}


def _compacted(scenario: Scenario) -> set[str]:
    """Topics that are read after compaction; others are read within min.compaction.lag.ms."""
    waits = [step.args["on"] for step in scenario.steps if step.do == WAIT_COMPACTED]
    return {topic for places in waits for topic in topics_in(places)}


def settings_at(event: str, scenario: Scenario, topic: TopicSettings) -> TopicSettings:
    """The settings that decide an event: of the topic itself, or of the internal topic that keeps its state."""
    if event not in OF_OFFSETS | OF_TIER:
        return topic
    contract = _declared(scenario)
    internal = contract.offsets if event in OF_OFFSETS else contract.tier
    assert internal is not None
    return TopicSettings(
        replicas=internal.replicas,
        min_isr=internal.min_insync_replicas,
        unclean=internal.unclean_election,
        elr=topic.elr,
        deletes=False,
        keeps_offsets=event in OF_OFFSETS,
        keeps_tier=event in OF_TIER,
    )


def _declared(scenario: Scenario) -> Contract:
    """The contract of the settings alone, without the unclean elections that the scenario allows in addition."""
    return contract_of(replace(scenario, allowed_anomalies=replace(scenario.allowed_anomalies, unclean_election=False)))


def _client(producer: Producer, group: Reader | None) -> ClientSettings:
    transactional = producer.transactions is not None
    return ClientSettings(
        acks=producer.acks,  # type: ignore[arg-type]  # scenario_rules has seen it
        idempotent=producer.idempotent or transactional,
        retries=producer.retries,
        in_flight=producer.in_flight,
        transactional=transactional,
        **({"isolation": group.isolation, "commits": SHARE if group.shares else group.commits} if group else {}),  # type: ignore[arg-type]  # as above
        **({"reset": _RESETS.get(group.reset, group.reset)} if group and group.reset else {}),  # type: ignore[arg-type]
    )


def _writer(scenario: Scenario, topic: str) -> Producer:
    """The first producer that writes to the topic."""
    return next(p for p in scenario.producers if topic in p.topics)


def _waits_ms(producer: Producer) -> int:
    return int(producer.config.get(_DELIVERY, _DELIVERY_MS))


def _timeout_ms(producer: Producer) -> int:
    return int(producer.config.get(_TIMEOUT, _TIMEOUT_MS))


def _processor_of(scenario: Scenario, topic: str) -> Producer | None:
    """The processor that reads a topic, if any."""
    return next((p for p in scenario.producers if p.processes and topic in p.processes.reads), None)
