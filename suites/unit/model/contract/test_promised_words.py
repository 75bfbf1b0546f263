"""The texts of promises: which records, why, and by which source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from harness.model.contract.configuration import ACKS, COMMITS, ISOLATIONS, RESETS, ClientSettings, TopicSettings
from harness.model.contract.effects import Promise
from harness.model.contract.promises import EVENTS, promises

ALL = ClientSettings()
ONE = ClientSettings(acks="1", idempotent=False)
NONE = ClientSettings(acks="0", idempotent=False)
CITED = re.compile(r"(KIP-\d+|KAFKA-\d+|Kafka documentation)(, .+)?")


def at(event: str, client: ClientSettings = ALL, **topic: Any) -> Promise:
    (found,) = (p for p in promises(TopicSettings(**topic), client) if p.event.name == event)
    return found


def every() -> Iterator[Promise]:
    """Promises of configurations that together show every source that a rule names."""
    writers = [ClientSettings(acks=acks, idempotent=False, retries=retries) for acks in ACKS for retries in (0, 5)]
    writers += [
        ALL,
        replace(ALL, retries=5),
        replace(ALL, long_producer_id_expiration=True),
        replace(ALL, reads_within_compaction_lag=True),
    ]
    for outlives, version, isolation in product((False, True), (1, 2), ISOLATIONS):
        writers.append(
            ClientSettings(
                transactional=True,
                commits="transaction",
                long_transactional_id_expiration=outlives,
                transaction_version=version,
                isolation=isolation,
            )
        )
    readers = [
        ClientSettings(commits=commits, reset=reset, group_never_empty=stays)
        for commits, reset, stays in product(set(COMMITS) - {"transaction"}, RESETS, (False, True))
    ]
    kinds: list[dict[str, Any]] = [
        {"keeps_offsets": True},
        {"keeps_tier": True},
        {"tiered": True},
        {"tiered": True, "local_retention_ms": 1},
        {"compacted": True, "flush_messages": 1},
        {"compacted": True, "compaction_lag_ms": 1, "deletes": False},
        {"append_time": True, "flush_ms": 1},
        {"retention_ms": -1},
    ]
    for replicas, min_isr, unclean, elr, kind in product((1, 3), (1, 3), (False, True), (False, True), kinds):
        topic = TopicSettings(replicas=replicas, min_isr=min_isr, unclean=unclean, elr=elr, **kind)
        for client in (*writers, *readers):
            yield from promises(topic, client)


def test_every_promise_says_where_it_can_be_read() -> None:
    said = {(promise.event, promise.source) for promise in every()}
    assert {event for event, _ in said} == set(EVENTS)
    for event, source in said:
        assert all(CITED.fullmatch(part) for part in source.split("; ")), (event.name, source)
    assert not CITED.fullmatch("KIP-")
    assert not CITED.fullmatch("the documentation")


def test_the_records_of_the_replica_that_is_elected_are_kept() -> None:
    """With unclean elections, or with ELR and less than acks=all, another replica is elected than the last in-sync
    one.
    """
    lone = at("disk_of_last_in_sync")
    assert lone.which == "all records of the partition"
    assert "it leads again when it is back" in lone.why
    elected = at("disk_of_last_in_sync", unclean=True)
    assert elected.which == "acknowledged records at or above the log end of the replica that is elected"
    assert "it leads again" not in elected.why
    assert "unclean.leader.election.enable=false" in elected.fix
    assert "unclean.leader.election.enable=false" not in lone.fix
    next_one = at("disk_of_last_in_sync", ONE, min_isr=2, elr=True)
    assert next_one.which == "acknowledged records at or above the log end of the next leader"


def test_the_weakest_producer_has_the_largest_loss() -> None:
    assert at("disk_of_last_in_sync", NONE).which == "all records of the partition"
    assert at("returns_short", NONE).which == "records above its flushed log end"
    assert at("returns_short", NONE).why == "no other replica may have had them when it appended them"
    assert at("returns_short", ONE).which == "acknowledged records above its flushed log end"
    short = at("returns_short", unclean=True)
    assert short.which == (
        "acknowledged records at or above the log end of the replica that is elected; acknowledged records above its "
        "flushed log end, if no other replica is up"
    )


def test_a_transaction_in_which_a_send_has_failed_shows_nothing() -> None:
    whole = at("gives_up", ClientSettings(transactional=True))
    assert whole.which == "every record of a committed transaction, and none of an aborted one"
    either = "records that the producer gives up may be in the log or not"
    assert at("gives_up").which == f"{either}; every acknowledged record is in the log"


def test_limited_retries_say_when_they_end() -> None:
    assert at("gives_up", ClientSettings(retries=3)).why.startswith("after delivery.timeout.ms, or after 3 retries, a")
    assert at("gives_up", ClientSettings(retries=1)).why.startswith("after delivery.timeout.ms, or after 1 retry, a")
    assert at("gives_up").why.startswith("after delivery.timeout.ms a record")


def test_a_compaction_lag_delays_the_deletion_and_does_not_prevent_it() -> None:
    for event in ("written_again", "falls_behind_cleaner"):
        later, at_once = at(event, compacted=True, compaction_lag_ms=1), at(event, compacted=True)
        assert "once older than min.compaction.lag.ms=1" in later.which
        assert "min.compaction.lag.ms" not in at_once.which
        assert "tombstone" in later.which
        assert (later.effects, later.fix) == (at_once.effects, at_once.fix)


def test_retention_also_deletes_the_newest_record_of_a_key() -> None:
    both: dict[str, Any] = {"compacted": True}
    assert "the newest stays until retention deletes it, a tombstone" in at("written_again", **both).which
    assert "the newest stays, a tombstone" in at("written_again", **both, deletes=False).which
    assert "the newest stays, a tombstone" in at("written_again", **both, retention_ms=-1).which
    assert "is read, if retention left it, but" in at("falls_behind_cleaner", **both).which
    assert "is read, but no tombstone" in at("falls_behind_cleaner", **both, deletes=False).which


def test_the_only_replica_may_lose_records_when_it_is_reassigned() -> None:
    lone = at("leader_taken_away", ONE, replicas=1)
    assert lone.which == "acknowledged records at or above the log end of the replica that takes its place"
    assert lone.fix == ("acks=all",)
    assert at("leader_taken_away", ONE).which == "acknowledged records at or above the log end of the next leader"
