"""The fixes of a promise do fix it: over a grid of configurations each is applied, and the promise asked again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest

from harness.model.contract.configuration import (
    ACKS,
    AS_RETENTION,
    COMMITS,
    IN_FLIGHT_MAX,
    ISOLATIONS,
    RESETS,
    ClientSettings,
    TopicSettings,
)
from harness.model.contract.effects import Effect, Promise
from harness.model.contract.internal_topics import TIER_METADATA
from harness.model.contract.promises import promises
from harness.model.errors import BadInput
from harness.model.scenario.scenario import RETRIES_MAX

ONE = ClientSettings(acks="1", idempotent=False)
MANY = ClientSettings(idempotent=False, in_flight=10)
# Fixes in words, as fields of a topic and of its clients.
IN_WORDS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "a replication factor of 3": ({"replicas": 3}, {}),
    "eligible.leader.replicas.version=1 (from 4.0)": ({"elr": True}, {}),
    "read_committed": ({}, {"isolation": "read_committed"}),
    "commit after processing": ({}, {"commits": "after"}),
    "a consumer group": ({}, {"commits": "after"}),
    "a reader in no share group": ({}, {"commits": "after"}),
    "a member that stays": ({}, {"group_never_empty": True}),
    "offsets committed in the transaction of the output": (
        {},
        {"commits": "transaction", "transactional": True, "idempotent": True, "acks": "all", "in_flight": 5}
        | {"retries": RETRIES_MAX},
    ),
    "transactional.id.expiration.ms above the longest pause": ({}, {"long_transactional_id_expiration": True}),
    "transaction.timeout.ms above the longest transaction": ({}, {"long_transaction_timeout": True}),
    "producer.id.expiration.ms above delivery.timeout.ms": ({}, {"long_producer_id_expiration": True}),
    "min.compaction.lag.ms above the longest time without a reader": (
        {"compaction_lag_ms": 1},
        {"reads_within_compaction_lag": True},
    ),
    "transaction.version=2 (from 4.0), and a client that speaks it": ({}, {"transaction_version": 2}),
    f"local.retention.ms={AS_RETENTION} and local.retention.bytes={AS_RETENTION}": (
        {"local_retention_ms": AS_RETENTION, "local_retention_bytes": AS_RETENTION},
        {},
    ),
}
# Fixes that are no field of a configuration.
BEYOND: Final = {
    "delivery.timeout.ms above the longest failover",
    "object versions in the storage",
    "offsets.retention.minutes above the longest time without a member",
    "replicas on power supplies of their own",
    "retention above the longest time without a reader",
    "share.delivery.count.limit above the number of deliveries on which the application fails",
}
OF_TOPIC: Final[dict[str, str]] = {
    "min.insync.replicas": "min_isr",
    "flush.messages": "flush_messages",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
}
OF_CLIENT: Final = {"retries": "retries", "max.in.flight.requests.per.connection": "in_flight"}
SETTING: Final = re.compile(rf"([a-z.]+)=(-?\w+)(?: on {TIER_METADATA})?")


def as_fields(fix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of the topic and of its clients that a fix sets. KeyError on an unknown fix."""
    if fix in BEYOND:
        return {}, {}
    setting = SETTING.fullmatch(fix)
    if fix in IN_WORDS or setting is None:
        return IN_WORDS[fix]
    name, value = setting.groups()
    whole = {
        "acks": ({}, {"acks": value}),
        "enable.idempotence": ({}, {"idempotent": value == "true"}),
        "unclean.leader.election.enable": ({"unclean": value == "true"}, {}),
        "auto.offset.reset": ({}, {"reset": value}),
        "message.timestamp.type": ({"append_time": value == "LogAppendTime"}, {}),
    }
    if name in whole:
        return whole[name]
    return ({}, {OF_CLIENT[name]: int(value)}) if name in OF_CLIENT else ({OF_TOPIC[name]: int(value)}, {})


def not_fixed(topic: TopicSettings, client: ClientSettings) -> Iterator[str]:
    """Events with a promise that all its fixes make worse, or, if records are lost, do not make better."""
    for promise in promises(topic, client):
        better = [as_fields(fix) for fix in promise.fix]
        of_topic = {name: value for fields, _ in better for name, value in fields.items()}
        of_client = {name: value for _, fields in better for name, value in fields.items()}
        if not of_topic and not of_client:
            if Effect.LOST in promise.effects:
                yield f"{promise.event.name}: no fix is a setting"
            continue
        try:
            after = at(promise.event.name, replace(topic, **of_topic), replace(client, **of_client))
        except BadInput as refused:
            yield f"{promise.event.name}: {refused}"
            continue
        severity = after.severity if after else 0
        if severity > promise.severity or (severity == promise.severity and Effect.LOST in promise.effects):
            yield f"{promise.event.name}: {promise.fix} leave it {after}"


def at(event: str, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    return next((promise for promise in promises(topic, client) if promise.event.name == event), None)


PRODUCERS: Final = (
    *(
        ClientSettings(acks=acks, idempotent=False, retries=retries, in_flight=in_flight)
        for acks, retries, in_flight in product(ACKS, (0, RETRIES_MAX), (1, IN_FLIGHT_MAX + 1))
    ),
    ClientSettings(),
    ClientSettings(retries=5, in_flight=1),
    ClientSettings(transactional=True, transaction_version=1),
)


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("min_isr", [1, 2, 3])
@pytest.mark.parametrize("flush", [-1, 1])
def test_fixes_of_a_topic_and_its_producer_work(replicas: int, min_isr: int, flush: int) -> None:
    for unclean, elr in product((False, True), (False, True)):
        topic = TopicSettings(replicas=replicas, min_isr=min_isr, unclean=unclean, elr=elr, flush_messages=flush)
        for client in PRODUCERS:
            assert list(not_fixed(topic, client)) == [], (topic, client)
        for own in (replace(topic, keeps_offsets=True), replace(topic, keeps_tier=True)):
            assert list(not_fixed(own, ClientSettings())) == [], own


@pytest.mark.parametrize("commits", COMMITS)
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("reset", RESETS)
def test_fixes_of_a_reader_and_of_deletion_work(commits: Any, isolation: Any, reset: Any) -> None:
    client = ClientSettings(
        commits=commits, isolation=isolation, reset=reset, transactional=commits == "transaction", retries=5
    )
    of: tuple[dict[str, Any], ...] = (
        {},
        {"deletes": False, "compacted": True},
        {"compacted": True, "compaction_lag_ms": 1},
        {"tiered": True, "local_retention_ms": 1},
        {"tiered": True, "local_retention_bytes": 1},
    )
    for kind, ms, size in product(of, (-1, 1000), (-1, 1000)):
        topic = TopicSettings(min_isr=2, elr=True, retention_ms=ms, retention_bytes=size, **kind)
        assert list(not_fixed(topic, client)) == [], topic


@pytest.mark.parametrize(
    ("event", "topic", "client", "fix"),
    [
        ("last_in_sync_dies", {}, ONE, ("acks=all", "min.insync.replicas=2")),
        ("last_in_sync_dies", {}, ClientSettings(), ("min.insync.replicas=2",)),
        (
            "last_in_sync_dies",
            {"unclean": True, "min_isr": 2},
            ONE,
            ("unclean.leader.election.enable=false", "acks=all"),
        ),
        (
            "last_in_sync_dies",
            {"unclean": True, "min_isr": 2},
            ClientSettings(),
            ("unclean.leader.election.enable=false",),
        ),
        ("deleted_and_killed", {"replicas": 1}, ONE, ("a replication factor of 3", "acks=all")),
        ("deleted_and_killed", {"replicas": 1}, ClientSettings(), ("a replication factor of 3",)),
        (
            "answer_lost",
            {},
            replace(MANY, acks="1"),
            ("enable.idempotence=true", "acks=all", "max.in.flight.requests.per.connection=5"),
        ),
        ("answer_lost", {}, replace(MANY, in_flight=5), ("enable.idempotence=true",)),
        ("answer_lost", {}, replace(MANY, in_flight=5, retries=0), ("enable.idempotence=true", "retries=2147483647")),
        ("request_fails", {}, MANY, ("enable.idempotence=true", "max.in.flight.requests.per.connection=1")),
        (
            "gives_up",
            {},
            ClientSettings(retries=5),
            ("retries=2147483647", "delivery.timeout.ms above the longest failover"),
        ),
        ("gives_up", {}, ClientSettings(), ("delivery.timeout.ms above the longest failover",)),
    ],
)
def test_the_fixes_are_the_missing_settings_and_no_others(
    event: str, topic: dict[str, Any], client: ClientSettings, fix: tuple[str, ...]
) -> None:
    promise = at(event, TopicSettings(elr=True, **topic), client)
    assert promise is not None
    assert promise.fix == fix


def test_a_longer_delivery_timeout_alone_does_not_fix_retries_0() -> None:
    plain, patience = ClientSettings(idempotent=False), "delivery.timeout.ms above the longest failover"
    fix = [
        promise.fix if (promise := at("gives_up", TopicSettings(), client)) else ()
        for client in (replace(plain, retries=0), plain, ClientSettings())
    ]
    assert fix == [
        ("enable.idempotence=true", "retries=2147483647", patience),
        ("enable.idempotence=true", patience),
        (patience,),
    ]


def test_the_fix_of_an_existing_topic_is_its_own_setting() -> None:
    """remote.log.metadata.topic.min.isr is only read when the topic is created (KIP-1235)."""
    promise = at("tier_metadata_leader_alone_dies", TopicSettings(unclean=True, keeps_tier=True), ClientSettings())
    assert promise is not None
    assert promise.fix == (
        "min.insync.replicas=2 on __remote_log_metadata",
        "unclean.leader.election.enable=false on __remote_log_metadata",
    )
