"""The promise of each configuration at each event: every setting that matters, and one that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.model.contract.configuration import ACKS, ClientSettings, TopicSettings
from harness.model.contract.effects import Effect, Promise
from harness.model.contract.promises import EVENTS, promises
from harness.model.errors import BadInput

SAFE = TopicSettings(replicas=3, min_isr=2, elr=True)
ALL = ClientSettings()
PLAIN = ClientSettings(idempotent=False)
ONE = replace(PLAIN, acks="1")
NONE = replace(PLAIN, acks="0")
ATOMIC = ClientSettings(transactional=True)
KEEPS = {"keeps_offsets": True}
TELLS = {"keeps_tier": True}
EARLY, REFUSES = replace(ALL, reset="earliest"), replace(ALL, reset="none")
SHARES = replace(ALL, commits="share")
IN_TIME = replace(ALL, reads_within_compaction_lag=True)


def at(event: str, client: ClientSettings = ALL, **topic: Any) -> Promise | None:
    """The promise at an event, for the safe topic with these differences; None = the event does not concern it."""
    found = [p for p in promises(replace(SAFE, **topic), client) if p.event.name == event]
    assert len(found) <= 1
    return found[0] if found else None


def effects(event: str, client: ClientSettings = ALL, **topic: Any) -> list[str]:
    promise = at(event, client, **topic)
    return [effect.value for effect in promise.effects] if promise else []


@pytest.mark.parametrize(
    ("event", "client", "topic", "expected"),
    [
        ("offsets_leader_alone_dies", ALL, {}, []),
        ("offsets_leader_alone_dies", ALL, KEEPS, ["kept"]),
        ("offsets_leader_alone_dies", ALL, KEEPS | {"elr": False}, ["unavailable"]),
        ("offsets_leader_alone_dies", ALL, KEEPS | {"min_isr": 1}, ["unavailable"]),
        ("offsets_leader_alone_dies", ALL, KEEPS | {"replicas": 1, "min_isr": 2}, []),
        ("offsets_leader_alone_dies", NONE, KEEPS | {"min_isr": 1, "unclean": True}, ["duplicated"]),
        ("offsets_leader_alone_dies", ALL, KEEPS | {"replicas": 1, "min_isr": 1}, []),
        ("tier_metadata_leader_alone_dies", ALL, {}, []),
        ("tier_metadata_leader_alone_dies", ALL, TELLS, ["kept"]),
        ("tier_metadata_leader_alone_dies", ALL, TELLS | {"unclean": True}, ["kept"]),
        ("tier_metadata_leader_alone_dies", ALL, TELLS | {"min_isr": 1}, ["kept"]),
        ("tier_metadata_leader_alone_dies", NONE, TELLS | {"min_isr": 1, "unclean": True}, ["lost"]),
        ("tier_metadata_leader_alone_dies", ALL, TELLS | {"replicas": 1, "min_isr": 1}, []),
        ("transaction_end_alone", ALL, {"min_isr": 1, "unclean": True}, []),
        ("transaction_end_alone", ATOMIC, {"min_isr": 1, "unclean": True}, ["lost"]),
        ("transaction_end_alone", ATOMIC, {"min_isr": 1}, ["unavailable"]),
        ("transaction_end_alone", ATOMIC, {"unclean": True}, ["kept"]),
        ("transaction_end_alone", ATOMIC, {"unclean": True, "elr": False}, ["kept"]),
        ("transaction_end_alone", ATOMIC, {}, ["kept"]),
        ("transaction_end_alone", ATOMIC, {"elr": False}, ["unavailable"]),
        ("transaction_end_alone", ATOMIC, {"replicas": 1, "min_isr": 1}, []),
        ("tier_objects_deleted", ALL, {}, []),
        ("tier_objects_deleted", ALL, {"tiered": True}, ["kept"]),
        ("tier_objects_deleted", ALL, {"tiered": True, "local_retention_bytes": 1}, ["lost"]),
        ("tier_objects_deleted", ALL, {"tiered": True, "local_retention_ms": 1}, ["lost"]),
        ("tier_objects_deleted", ALL, {"tiered": True, "retention_bytes": 9, "local_retention_bytes": 9}, ["kept"]),
        ("transactional_id_expires", ATOMIC, {}, ["outcome unknown"]),
        ("transactional_id_expires", replace(ATOMIC, long_transactional_id_expiration=True), {}, ["kept"]),
        ("transactional_id_expires", replace(ALL, long_transactional_id_expiration=True), {}, []),
        ("transactional_id_expires", ALL, {}, []),
        ("offsets_expire", ALL, {}, ["skipped"]),
        ("offsets_expire", EARLY, {}, ["duplicated"]),
        ("offsets_expire", REFUSES, {}, ["stopped with an error"]),
        ("offsets_expire", replace(REFUSES, group_never_empty=True), {}, ["kept"]),
        ("offsets_expire", SHARES, {}, ["kept"]),
        ("offsets_expire", replace(REFUSES, commits="share"), {}, ["kept"]),
        ("partitions_added", ALL, {}, ["skipped"]),
        ("partitions_added", EARLY, {}, ["kept"]),
        ("partitions_added", REFUSES, {}, ["stopped with an error"]),
        ("partitions_added", SHARES, {}, ["kept"]),
        ("transaction_times_out", ALL, {}, []),
        ("transaction_times_out", ATOMIC, {}, ["aborted after their acknowledgement"]),
        ("transaction_times_out", replace(ATOMIC, long_transaction_timeout=True), {}, ["kept"]),
        (
            "transaction_times_out",
            replace(ATOMIC, isolation="read_uncommitted"),
            {},
            ["aborted after their acknowledgement", "aborted records shown"],
        ),
        ("falls_behind", SHARES, {}, ["deleted as configured"]),
        ("falls_behind", SHARES, {"retention_ms": -1}, ["kept"]),
        ("falls_behind", ALL, {}, ["skipped", "deleted as configured"]),
        ("falls_behind", EARLY, {}, ["deleted as configured"]),
        ("falls_behind", REFUSES, {}, ["stopped with an error"]),
        ("falls_behind", ALL, {"retention_ms": -1}, ["kept"]),
        ("falls_behind", ALL, {"retention_ms": -1, "compacted": True}, []),
        ("falls_behind", ALL, {"retention_ms": -1, "retention_bytes": 1}, ["skipped", "deleted as configured"]),
        ("falls_behind", ALL, {"deletes": False}, []),
        ("leader_dies", ALL, {}, ["kept"]),
        ("leader_dies", ALL, {"min_isr": 1}, ["kept"]),
        ("leader_dies", ONE, {}, ["lost"]),
        ("leader_dies", ONE, {"replicas": 1, "min_isr": 1}, ["unavailable"]),
        ("leader_dies", NONE, {"replicas": 1, "min_isr": 1}, ["lost", "unavailable"]),
        ("leader_moves", ALL, {}, ["kept"]),
        ("leader_moves", ONE, {}, ["lost"]),
        ("leader_moves", ONE, {"replicas": 1, "min_isr": 1}, []),
        ("leader_taken_away", ALL, {}, ["kept"]),
        ("leader_taken_away", ONE, {}, ["lost"]),
        ("leader_taken_away", ALL, {"replicas": 1, "min_isr": 1}, ["kept"]),
        ("leader_taken_away", ONE, {"replicas": 1, "min_isr": 1}, ["lost"]),
        ("leader_taken_away", NONE, {"replicas": 1, "min_isr": 1}, ["lost"]),
        ("leader_shut_down", ALL, {}, ["kept"]),
        ("leader_shut_down", ONE, {}, ["lost"]),
        ("replica_down", ALL, {}, ["kept"]),
        ("replica_down", ALL, {"min_isr": 3}, ["unavailable"]),
        ("replica_down", ALL, {"replicas": 2, "min_isr": 2}, ["unavailable"]),
        ("replica_down", ALL, {"min_isr": 4}, ["unavailable"]),
        ("replica_down", ALL, {"replicas": 1, "min_isr": 2}, []),
        ("replica_down", ONE, {"min_isr": 3}, ["unavailable"]),
        ("replica_down", NONE, {"min_isr": 4}, ["unavailable"]),
        ("replica_down", ONE, {}, []),
        ("last_in_sync_dies", ALL, {}, ["kept"]),
        ("last_in_sync_dies", ONE, {}, ["lost"]),
        ("last_in_sync_dies", ALL, {"elr": False}, ["unavailable"]),
        ("last_in_sync_dies", ONE, {"elr": False}, ["unavailable"]),
        ("last_in_sync_dies", NONE, {"elr": False}, ["lost", "unavailable"]),
        ("last_in_sync_dies", ALL, {"min_isr": 1}, ["unavailable"]),
        ("last_in_sync_dies", ALL, {"unclean": True}, ["lost"]),
        ("last_in_sync_dies", ALL, {"unclean": True, "min_isr": 1}, ["lost"]),
        ("last_in_sync_dies", ALL, {"unclean": True, "replicas": 1, "min_isr": 1}, []),
        ("returns_short", ALL, {}, ["kept"]),
        ("returns_short", ALL, {"elr": False}, ["lost"]),
        ("returns_short", ALL, {"min_isr": 1}, ["lost"]),
        ("returns_short", ONE, {}, ["lost"]),
        ("returns_short", ALL, {"elr": False, "flush_messages": 1}, ["kept"]),
        ("returns_short", ALL, {"elr": False, "flush_messages": 2}, ["lost"]),
        ("returns_short", ALL, {"unclean": True}, ["lost"]),
        ("returns_short", ALL, {"unclean": True, "flush_messages": 1}, ["lost"]),
        ("returns_short", ONE, {"flush_messages": 1}, ["lost"]),
        ("returns_short", ONE, {"flush_messages": 1, "elr": False}, ["kept"]),
        ("returns_short", NONE, {}, ["lost"]),
        ("returns_short", NONE, {"min_isr": 1}, ["lost"]),
        ("returns_short", NONE, {"min_isr": 1, "flush_messages": 1}, ["kept"]),
        ("power_of_one", ALL, {}, ["kept"]),
        ("power_of_one", ALL, {"min_isr": 1}, ["kept"]),
        ("power_of_one", ONE, {"flush_messages": 1}, ["lost"]),
        ("power_of_one", ALL, {"replicas": 1, "min_isr": 1}, ["lost"]),
        ("power_of_one", ONE, {"replicas": 1, "min_isr": 1, "flush_messages": 1}, ["kept"]),
        ("power_of_all", ALL, {}, ["lost"]),
        ("power_of_all", ALL, {"flush_messages": 1}, ["kept"]),
        ("power_of_all", ONE, {"flush_messages": 1}, ["lost"]),
        ("disk_of_last_in_sync", ALL, {}, ["kept"]),
        ("disk_of_last_in_sync", ALL, {"elr": False}, ["lost"]),
        ("disk_of_last_in_sync", ALL, {"min_isr": 1}, ["lost"]),
        ("disk_of_last_in_sync", ONE, {}, ["lost"]),
        ("disk_of_last_in_sync", NONE, {}, ["lost"]),
        ("disk_of_last_in_sync", NONE, {"min_isr": 1}, ["lost"]),
        ("disk_of_last_in_sync", ALL, {"unclean": True}, ["lost"]),
        ("disk_of_last_in_sync", ALL, {"replicas": 1, "min_isr": 1}, []),
        ("disk_of_one", ALL, {}, ["kept"]),
        ("disk_of_one", ONE, {}, ["lost"]),
        ("disk_of_one", ALL, {"replicas": 1, "min_isr": 1}, ["lost"]),
        ("answer_lost", ALL, {}, ["kept"]),
        ("answer_lost", PLAIN, {}, ["duplicated", "reordered"]),
        ("answer_lost", replace(PLAIN, in_flight=1), {}, ["duplicated"]),
        ("answer_lost", replace(PLAIN, retries=0), {}, ["outcome unknown"]),
        ("answer_lost", NONE, {}, []),
        ("answer_lost_leader_dies", ALL, {}, ["kept"]),
        ("answer_lost_leader_dies", replace(ALL, in_flight=1), {}, ["kept"]),
        ("answer_lost_leader_dies", PLAIN, {}, ["duplicated", "reordered"]),
        ("answer_lost_leader_dies", replace(PLAIN, in_flight=1), {}, ["duplicated"]),
        ("answer_lost_leader_dies", replace(PLAIN, retries=0), {}, ["outcome unknown"]),
        ("answer_lost_leader_dies", ONE, {}, ["lost", "duplicated", "reordered"]),
        ("answer_lost_leader_dies", replace(ONE, retries=0), {}, ["lost", "outcome unknown"]),
        ("answer_lost_leader_dies", NONE, {}, ["lost"]),
        ("request_fails", ALL, {}, ["kept"]),
        ("request_fails", PLAIN, {}, ["reordered"]),
        ("request_fails", replace(PLAIN, in_flight=1), {}, ["kept"]),
        ("request_fails", replace(PLAIN, retries=0), {}, ["outcome unknown"]),
        ("request_fails", NONE, {}, []),
        ("gives_up", ALL, {}, ["outcome unknown"]),
        ("gives_up", replace(PLAIN, retries=0), {}, ["outcome unknown"]),
        ("gives_up", PLAIN, {}, ["duplicated", "reordered", "outcome unknown"]),
        ("gives_up", replace(PLAIN, in_flight=1), {}, ["duplicated", "outcome unknown"]),
        ("gives_up", ONE, {}, ["lost", "duplicated", "reordered", "outcome unknown"]),
        ("gives_up", replace(ONE, retries=0), {}, ["lost", "outcome unknown"]),
        ("gives_up", NONE, {}, ["lost"]),
        ("gives_up", ATOMIC, {}, ["kept"]),
        ("gives_up", replace(ATOMIC, isolation="read_uncommitted"), {}, ["aborted records shown"]),
        ("producer_expires", ALL, {}, ["kept"]),
        ("producer_expires", PLAIN, {}, []),
        ("producer_expires_unanswered", ALL, {}, ["duplicated"]),
        ("producer_expires_unanswered", replace(ALL, long_producer_id_expiration=True), {}, ["kept"]),
        ("producer_expires_unanswered", PLAIN, {}, []),
        ("producer_expires_unanswered", ATOMIC, {}, []),
        ("end_comes_late", ALL, {}, []),
        ("end_comes_late", ATOMIC, {}, ["kept"]),
        ("end_comes_late", replace(ATOMIC, transaction_version=1), {}, ["lost", "aborted records shown"]),
        ("transactional_id_taken", ALL, {}, []),
        ("transactional_id_taken", ATOMIC, {}, ["kept"]),
        ("transactional_id_taken", replace(ATOMIC, isolation="read_uncommitted"), {}, ["aborted records shown"]),
        ("transaction_aborts", ALL, {}, []),
        ("transaction_aborts", ATOMIC, {}, ["kept"]),
        ("transaction_aborts", replace(ATOMIC, isolation="read_uncommitted"), {}, ["aborted records shown"]),
        ("reader_dies", ALL, {}, ["duplicated"]),
        ("reader_dies", replace(ALL, commits="before"), {}, ["skipped"]),
        ("reader_dies", replace(ALL, commits="auto"), {}, ["duplicated"]),
        ("reader_dies", replace(ALL, commits="auto_ahead"), {}, ["skipped", "duplicated"]),
        ("reader_dies", replace(ALL, commits="share"), {}, ["duplicated"]),
        ("reader_fails", replace(ALL, commits="share"), {}, ["archived", "duplicated"]),
        ("reader_fails", ALL, {}, []),
        ("reader_dies", replace(ATOMIC, commits="transaction"), {}, ["kept"]),
        (
            "reader_dies",
            replace(ATOMIC, commits="transaction", isolation="read_uncommitted"),
            {},
            ["aborted records shown"],
        ),
        ("grows_old", ALL, {}, ["deleted as configured"]),
        ("grows_old", ALL, {"retention_ms": -1}, ["kept"]),
        ("grows_old", ALL, {"retention_ms": -1, "retention_bytes": 1}, ["deleted as configured"]),
        ("grows_old", ALL, {"deletes": False}, []),
        ("deleted_and_killed", ALL, {}, ["deleted as configured"]),
        ("deleted_and_killed", ONE, {}, ["lost", "deleted as configured"]),
        ("deleted_and_killed", NONE, {"replicas": 1, "min_isr": 1}, ["lost", "deleted records back"]),
        ("deleted_and_killed", ALL, {"replicas": 1, "min_isr": 1}, ["deleted records back"]),
        ("deleted_and_killed", ALL, {"deletes": False}, []),
        ("deleted_and_restarted", ALL, {"replicas": 1, "min_isr": 1}, ["deleted as configured"]),
        ("deleted_and_restarted", ALL, {"deletes": False}, []),
        ("born_old", ALL, {}, ["deleted as configured"]),
        ("born_old", ALL, {"append_time": True}, ["kept"]),
        ("born_old", ALL, {"retention_ms": -1}, ["kept"]),
        ("born_old", ALL, {"deletes": False}, []),
        ("written_again", ALL, {}, ["kept"]),
        ("written_again", ALL, {"compacted": True}, ["deleted as configured"]),
        ("written_again", ALL, {"compacted": True, "compaction_lag_ms": 1000}, ["deleted as configured"]),
        ("written_again", IN_TIME, {"compacted": True, "compaction_lag_ms": 1000}, ["kept"]),
        ("written_again", IN_TIME, {"compacted": True}, ["deleted as configured"]),
        ("written_again", ALL, {"compaction_lag_ms": 1000}, ["kept"]),
        ("falls_behind_cleaner", ALL, {}, ["kept"]),
        ("falls_behind_cleaner", ALL, {"compacted": True}, ["deleted as configured"]),
        ("falls_behind_cleaner", SHARES, {"compacted": True, "deletes": False}, ["deleted as configured"]),
        ("falls_behind_cleaner", ALL, {"compacted": True, "compaction_lag_ms": 1000}, ["deleted as configured"]),
        ("falls_behind_cleaner", IN_TIME, {"compacted": True, "compaction_lag_ms": 1000}, ["kept"]),
        ("falls_behind_cleaner", IN_TIME, {"compacted": True}, ["deleted as configured"]),
    ],
)
def test_each_configuration_has_its_effects_at_each_event(
    event: str, client: ClientSettings, topic: dict[str, Any], expected: list[str]
) -> None:
    assert effects(event, client, **topic) == expected


@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("min_isr", [1, 2])
@pytest.mark.parametrize("flush", [-1, 1])
def test_a_fix_is_a_setting_that_is_not_there_yet(acks: Any, replicas: int, min_isr: int, flush: int) -> None:
    """Each promise has a reason and a source, the worst comes first, and every loss has a fix."""
    topic = TopicSettings(replicas=replicas, min_isr=min_isr, flush_messages=flush)
    client = ClientSettings(acks=acks, idempotent=acks == "all")
    found = promises(topic, client)
    assert [p.severity for p in found] == sorted((p.severity for p in found), reverse=True)
    here = {f"acks={acks}", f"min.insync.replicas={min_isr}", f"flush.messages={flush}"}
    here |= {f"a replication factor of {replicas}", "unclean.leader.election.enable=false"}
    for promise in found:
        assert promise.which
        assert promise.why
        assert promise.source
        assert not here & set(promise.fix), promise
        assert Effect.LOST not in promise.effects or promise.fix, promise


@pytest.mark.parametrize(
    ("event", "client", "topic", "fixed"),
    [
        ("offsets_leader_alone_dies", ALL, KEEPS | {"unclean": True}, (ALL, KEEPS)),
        (
            "tier_metadata_leader_alone_dies",
            ALL,
            TELLS | {"unclean": True, "min_isr": 1},
            (ALL, TELLS | {"min_isr": 2}),
        ),
        (
            "tier_metadata_leader_alone_dies",
            ALL,
            TELLS | {"unclean": True, "min_isr": 1},
            (ALL, TELLS | {"min_isr": 1}),
        ),
        ("transaction_end_alone", ATOMIC, {"min_isr": 1, "unclean": True}, (ATOMIC, {"min_isr": 1})),
        ("transaction_end_alone", ATOMIC, {"min_isr": 1, "unclean": True}, (ATOMIC, {"unclean": True})),
        (
            "tier_objects_deleted",
            ALL,
            {"tiered": True, "local_retention_bytes": 1},
            (ALL, {"tiered": True}),
        ),
        ("leader_dies", ONE, {}, (ALL, {})),
        ("last_in_sync_dies", ALL, {"unclean": True, "min_isr": 1}, (ALL, {})),
        ("returns_short", ALL, {"min_isr": 1, "elr": False}, (ALL, {})),
        ("power_of_all", ALL, {}, (ALL, {"flush_messages": 1})),
        ("disk_of_one", ALL, {"replicas": 1, "min_isr": 1}, (ALL, {})),
        ("disk_of_last_in_sync", ALL, {"min_isr": 1}, (ALL, {})),
        ("answer_lost", PLAIN, {}, (ALL, {})),
        ("replica_down", ALL, {"min_isr": 3}, (ALL, {"min_isr": 2})),
        ("replica_down", ALL, {"min_isr": 4}, (ALL, {"min_isr": 2})),
        ("replica_down", ONE, {"min_isr": 3}, (ONE, {"min_isr": 2})),
        ("replica_down", ALL, {"replicas": 2, "min_isr": 3}, (ALL, {"replicas": 3, "min_isr": 2})),
        ("last_in_sync_dies", ALL, {"min_isr": 1, "elr": False}, (ALL, {"min_isr": 2, "elr": True})),
        ("offsets_leader_alone_dies", ALL, KEEPS | {"min_isr": 1, "elr": False}, (ALL, KEEPS)),
        ("gives_up", replace(PLAIN, acks="1"), {}, (ALL, {})),
        ("end_comes_late", replace(ATOMIC, transaction_version=1), {}, (ATOMIC, {})),
    ],
)
def test_a_fix_makes_the_promise_better(
    event: str, client: ClientSettings, topic: dict[str, Any], fixed: tuple[ClientSettings, dict[str, Any]]
) -> None:
    worse, (client_then, topic_then) = at(event, client, **topic), fixed
    assert worse is not None
    assert worse.fix
    better = at(event, client_then, **topic_then)
    assert better is None or better.severity < worse.severity


def test_the_settings_decide_which_records_are_lost() -> None:
    bounds = [
        ({}, "acknowledged records that the operating system had not written to a disk"),
        ({"flush_ms": 500}, "acknowledged records that the operating system had not written to a disk"),
        ({"flush_scheduler_ms": 500}, "acknowledged records that the operating system had not written to a disk"),
        ({"flush_ms": 500, "flush_scheduler_ms": 100}, "acknowledged records of the last 600 ms"),
        ({"flush_messages": 20}, "at most 20 acknowledged records of each partition"),
        (
            {"flush_messages": 20, "flush_ms": 500, "flush_scheduler_ms": 0},
            "at most 20 acknowledged records of each partition, all of the last 500 ms",
        ),
    ]
    for topic, which in bounds:
        promise = at("power_of_all", ALL, **topic)
        assert promise is not None
        assert promise.which == which
        idle = topic == {"flush_ms": 500}
        assert ("flush.ms=500 has no effect unless log.flush.scheduler.interval.ms" in promise.why) is idle


def test_min_insync_replicas_above_the_replication_factor_has_no_effect() -> None:
    """From 3.7 on: with one replica min.insync.replicas=2 acts as 1, and with three replicas 4 acts as 3."""
    lone = TopicSettings(replicas=1, min_isr=2)
    assert (lone.needed, str(lone).startswith("1 replica, min.insync.replicas=2 (effectively 1), ")) == (1, True)
    assert TopicSettings(replicas=3, min_isr=4).needed == 3
    assert "effectively" not in str(SAFE)
    assert not TopicSettings(replicas=1, min_isr=2, elr=True).remembers
    for promise in promises(lone, ALL):
        assert "min.insync.replicas" not in promise.why + promise.which, promise


@pytest.mark.parametrize("client", [ALL, ONE, NONE])
def test_a_promise_names_no_replica_and_no_ack_that_does_not_exist(client: ClientSettings) -> None:
    """With one replica there are no others, and with acks=0 no acknowledged records."""
    for promise in promises(TopicSettings(replicas=1), client):
        assert "next leader" not in promise.which + promise.why
        assert "the others" not in promise.which + promise.why + promise.event.happens
    for promise in promises(SAFE, client):
        assert client.acks != "0" or "acknowledged record" not in promise.which


def test_with_elr_an_unclean_election_comes_last() -> None:
    for event, keeps in (("last_in_sync_dies", False), ("offsets_leader_alone_dies", True)):
        with_elr = at(event, unclean=True, keeps_offsets=keeps)
        without = at(event, unclean=True, elr=False, keeps_offsets=keeps)
        assert with_elr
        assert without
        assert "if no eligible leader replica is up" in with_elr.which
        assert "eligible" not in without.which
        assert "eligible.leader.replicas.version=1 (from 4.0)" in without.fix


def test_every_event_has_a_name_of_its_own() -> None:
    assert len({event.name for event in EVENTS}) == len({event.happens for event in EVENTS}) == len(EVENTS)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"acks": "1"}, "idempotence needs acks=all: give --acks all, or --no-idempotent"),
        ({"retries": 0}, "idempotence needs retries and at most 5 requests in flight"),
        ({"in_flight": 6}, "at most 5 requests in flight"),
        ({"idempotent": False, "transactional": True}, "a transactional producer must be idempotent"),
        ({"in_flight": 0}, "max.in.flight.requests.per.connection is 0; give --in-flight 1 or more"),
        ({"retries": -1}, "retries is -1; give --retries 0 or more"),
        ({"retries": 2**31}, "retries is 2147483648; it must be at most 2147483647"),
        ({"idempotent": False, "in_flight": 2**31}, "max.in.flight.requests.per.connection is 2147483648; it"),
        ({"acks": "1", "transactional": True}, "idempotence needs acks=all: give --acks all, or no --transactional"),
        ({"commits": "transaction"}, "only a transactional producer commits offsets in a transaction: give"),
    ],
)
def test_impossible_settings_of_a_client_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        ClientSettings(**settings)


@pytest.mark.parametrize("settings", [{"replicas": 0}, {"min_isr": 0}])
def test_impossible_settings_of_a_topic_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="is 0; it must be 1 or more"):
        TopicSettings(**settings)


def test_numbers_above_the_type_of_a_setting_are_refused() -> None:
    of_64_bits: tuple[Callable[[int], TopicSettings], ...] = (
        lambda value: TopicSettings(retention_ms=value),
        lambda value: TopicSettings(retention_bytes=value),
        lambda value: TopicSettings(flush_ms=value),
        lambda value: TopicSettings(compaction_lag_ms=value),
        lambda value: TopicSettings(local_retention_ms=value),
    )
    for settings in of_64_bits:
        assert settings(2**63 - 1)
        with pytest.raises(BadInput, match=f"is {2**63}; it must be at most {2**63 - 1}"):
            settings(2**63)
    with pytest.raises(BadInput, match="the replication factor is 32768; it must be at most 32767"):
        TopicSettings(replicas=2**15)
