"""What a promise says beside its effects: which records, why, and where that can be read."""

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
    """Of configurations that between them are told each thing that any rule says of sources."""
    writers = [ClientSettings(acks=acks, idempotent=False, retries=retries) for acks in ACKS for retries in (0, 5)]
    writers += [ALL, replace(ALL, retries=5), replace(ALL, remembered=True), replace(ALL, within_lag=True)]
    for outlives, version, isolation in product((False, True), (1, 2), ISOLATIONS):
        writers.append(
            ClientSettings(
                transactional=True,
                commits="transaction",
                id_outlives=outlives,
                transaction_version=version,
                isolation=isolation,
            )
        )
    readers = [
        ClientSettings(commits=commits, reset=reset, stays=stays)
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


def test_where_another_one_is_elected_what_that_one_has_is_kept() -> None:
    """With unclean elections, or with ELR below acks=all, nobody waits for the last replica in sync."""
    lone = at("disk_of_last_in_sync")
    assert lone.which == "all of the partition"
    assert "it leads again when it is back" in lone.why
    elected = at("disk_of_last_in_sync", unclean=True)
    assert elected.which == "acknowledged records at or above the log end of the replica that is elected"
    assert "it leads again" not in elected.why
    assert "unclean.leader.election.enable=false" in elected.mend
    assert "unclean.leader.election.enable=false" not in lone.mend
    next_one = at("disk_of_last_in_sync", ONE, min_isr=2, elr=True)
    assert next_one.which == "acknowledged records at or above the log end of the next leader"


def test_of_the_weakest_producer_the_largest_loss_is_told() -> None:
    assert at("disk_of_last_in_sync", NONE).which == "all of the partition"
    assert at("returns_short", NONE).which == "records above what it had flushed"
    assert at("returns_short", NONE).why == "it may have taken them alone"
    assert at("returns_short", ONE).which == "acknowledged records above what it had flushed"
    short = at("returns_short", unclean=True)
    assert short.which == (
        "acknowledged records at or above the log end of the replica that is elected; acknowledged records above what "
        "it had flushed, where no other is up"
    )


def test_a_transaction_in_which_a_send_has_failed_shows_nothing() -> None:
    whole = at("gives_up", ClientSettings(transactional=True))
    assert whole.which == "every record of a committed transaction; none of others"
    assert at("gives_up").which == "what is given up on may be there or not; every acknowledged record is"


def test_of_retries_that_end_it_is_said_when() -> None:
    assert at("gives_up", ClientSettings(retries=3)).why.startswith("after delivery.timeout.ms, or after 3 retries, a")
    assert at("gives_up", ClientSettings(retries=1)).why.startswith("after delivery.timeout.ms, or after 1 retry, a")
    assert at("gives_up").why.startswith("after delivery.timeout.ms a record")


def test_a_lag_puts_off_what_compaction_takes() -> None:
    for event in ("written_again", "falls_behind_cleaner"):
        later, at_once = at(event, compacted=True, compaction_lag_ms=1), at(event, compacted=True)
        assert "once older than min.compaction.lag.ms=1" in later.which
        assert "min.compaction.lag.ms" not in at_once.which
        assert "tombstone" in later.which
        assert (later.effects, later.mend) == (at_once.effects, at_once.mend)


def test_retention_takes_the_newest_of_a_key_as_well() -> None:
    both: dict[str, Any] = {"compacted": True}
    assert "its newest stays until retention takes it, a tombstone" in at("written_again", **both).which
    assert "its newest stays, a tombstone" in at("written_again", **both, deletes=False).which
    assert "its newest stays, a tombstone" in at("written_again", **both, retention_ms=-1).which
    assert "is read, if retention left it, but" in at("falls_behind_cleaner", **both).which
    assert "is read, but no tombstone" in at("falls_behind_cleaner", **both, deletes=False).which


def test_a_lone_replica_that_is_reassigned_has_a_second_one_beside_it() -> None:
    lone = at("leader_taken_away", ONE, replicas=1)
    assert lone.which == "acknowledged records at or above the log end of the replica that takes its place"
    assert lone.mend == ("acks=all",)
    assert at("leader_taken_away", ONE).which == "acknowledged records at or above the log end of the next leader"
