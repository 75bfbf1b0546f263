"""Kafka's promises under a configuration at each event: rules, each with its reason and its source.

A rule is about records that were acknowledged to a producer of that configuration. "lost" says which ones, so that the
number follows from what was written when.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.model.contract import broker_rules as brokers
from harness.model.contract import client_rules as clients
from harness.model.contract import deletion_rules as deletion
from harness.model.contract import offset_rules as offsets
from harness.model.contract import tier_rules as tier
from harness.model.contract import transaction_rules as transactions
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.effects import Event, Promise, Rule

_RULES: Final[tuple[tuple[Event, Rule], ...]] = (
    (Event("leader_dies", "the leader's process dies, and its followers are in sync"), brokers.leader_dies),
    (Event("leader_moves", "the leader moves as planned, and followers are slow"), brokers.leader_moves),
    (
        Event("leader_taken_away", "the leader's replica is reassigned to other brokers, and followers are slow"),
        brokers.leader_taken_away,
    ),
    (
        Event("leader_shut_down", "the leader is shut down in an orderly way, and followers are slow"),
        brokers.leader_moves,
    ),
    (Event("replica_down", "one replica is down"), brokers.replica_down),
    (
        Event("last_in_sync_dies", "the last in-sync replica dies, and others are up"),
        brokers.last_in_sync_dies,
    ),
    (
        Event("returns_short", "the last in-sync replica returns without the records that it had not flushed"),
        brokers.returns_short,
    ),
    (
        Event("power_of_one", "the leader's machine loses power, and its followers are in sync"),
        brokers.power_of_one,
    ),
    (Event("power_of_all", "all machines lose power at once"), brokers.power_of_all),
    (Event("disk_of_one", "the leader's disk is lost, and its followers are in sync"), brokers.disk_of_one),
    (
        Event("disk_of_last_in_sync", "the last in-sync replica loses its disk, and others are up"),
        brokers.disk_of_last_in_sync,
    ),
    (Event("answer_lost", "the answer to a request of the producer is lost"), clients.answer_lost),
    (
        Event("answer_lost_leader_dies", "an answer is lost, and the leader dies before the request is retried"),
        clients.answer_lost_leader_dies,
    ),
    (Event("request_fails", "a request fails, and later requests in flight do not"), clients.request_fails),
    (
        Event("gives_up", "a failover lasts longer than the producer waits (delivery.timeout.ms)"),
        clients.gives_up,
    ),
    (
        Event("producer_expires", "an idempotent producer pauses longer than producer.id.expiration.ms"),
        clients.expires,
    ),
    (
        Event(
            "producer_expires_unanswered",
            "an idempotent producer retries requests whose answers were lost for longer than producer.id.expiration.ms",
        ),
        clients.expires_unanswered,
    ),
    (
        Event(
            "end_comes_late", "the end of a transaction arrives a second time, during the producer's next transaction"
        ),
        clients.end_comes_late,
    ),
    (
        Event(
            "transactional_id_expires",
            "a transactional producer pauses longer than transactional.id.expiration.ms between two transactions",
        ),
        clients.transactional_id_expires,
    ),
    (
        Event("transactional_id_taken", "a second producer starts with the transactional.id of one that is running"),
        clients.id_taken,
    ),
    (Event("transaction_aborts", "a transaction aborts"), clients.aborts),
    (
        Event(
            "transaction_times_out",
            "a transaction stays open for longer than transaction.timeout.ms before its client commits it",
        ),
        transactions.times_out,
    ),
    (
        Event(
            "transaction_end_alone", "a leader dies that was alone in sync when a transaction ended, and others are up"
        ),
        transactions.end_alone_dies,
    ),
    (Event("reader_dies", "a consumer dies between two commits"), clients.reader_dies),
    (Event("reader_fails", "an application fails on a record at each delivery"), clients.reader_fails),
    (
        Event(
            "offsets_leader_alone_dies",
            "the leader of a group's partition of __consumer_offsets dies while it is alone in sync, and others are up",
        ),
        offsets.leader_alone_dies,
    ),
    (Event("offsets_expire", "a group commits nothing for longer than offsets.retention.minutes"), offsets.expire),
    (
        Event("partitions_added", "partitions are added to a topic that a group reads"),
        offsets.partitions_added,
    ),
    (Event("falls_behind", "a group reads nothing for longer than records are kept"), offsets.falls_behind),
    (
        Event(
            "tier_metadata_leader_alone_dies",
            "the leader of the tier's metadata dies while it is alone in sync, others are up, and brokers restart",
        ),
        tier.metadata_leader_alone_dies,
    ),
    (
        Event("tier_objects_deleted", "an operator deletes objects of the remote tier, past the brokers"),
        tier.objects_deleted,
    ),
    (Event("grows_old", "records reach the retention time, or the log the retention size"), deletion.grows_old),
    (Event("born_old", "records are sent with timestamps that are older than the retention time"), deletion.born_old),
    (
        Event("deleted_and_killed", "records are deleted (DeleteRecords), and the leader is killed within a minute"),
        deletion.deleted_and_killed,
    ),
    (
        Event(
            "deleted_and_restarted", "records are deleted (DeleteRecords), and the leader restarts in an orderly way"
        ),
        deletion.deleted_and_restarted,
    ),
    (Event("written_again", "a key is written again"), deletion.written_again),
    (
        Event("falls_behind_cleaner", "a group reads nothing while keys are written again and compacted"),
        deletion.falls_behind_cleaner,
    ),
)
EVENTS: Final = tuple(event for event, _ in _RULES)


def promises(topic: TopicSettings, client: ClientSettings) -> list[Promise]:
    """The promises at each event that concerns this configuration, the worst first."""
    found = (rule(event, topic, client) for event, rule in _RULES)
    said = (_unacknowledged(promise) if client.acks == "0" else promise for promise in found if promise)
    return sorted(said, key=lambda promise: -promise.severity)


def _unacknowledged(promise: Promise) -> Promise:
    """The promise in words for acks=0, where no record is ever acknowledged."""
    each = promise.which.replace("every acknowledged record", "every record that a leader has appended")
    return replace(promise, which=each.replace("acknowledged records", "records"))
