"""Snapshots that are compared with the log up to their ends."""

from __future__ import annotations

import pytest

from harness.model.history.fold import fold
from harness.model.history.history import History
from harness.model.history.log import Record, Snapshot
from harness.model.history.rows import document_of, history_of
from harness.model.history.snapshots import SnapshotDifference
from suites.unit.model.history.logs import (
    TOPIC,
    TOPIC_ID,
    batches,
    broker,
    change,
    config,
    node,
    partition,
    record,
    removed,
    snapshot,
    topic,
)

LOG = (
    topic(),
    partition(),
    broker(1, 2),
    config("retention.ms", "7"),
    config("ssl.keystore.password", "secret", name="1", kind=4),
    record("FeatureLevel", Name="group.version", FeatureLevel=1),
    record("ProducerIds", BrokerId=1, BrokerEpoch=2, NextProducerId=1000),
    change(Isr=(1, 2), Leader=2),
)
# The state behind all of it, as a snapshot has it.
STATE = (*LOG[:1], partition(isr=(1, 2), leader=2, LeaderEpoch=1, PartitionEpoch=1), *LOG[2:7])


def told(*snapshots: Snapshot, log: tuple[Record, ...] = LOG, since_ms: int | None = 0, first: int = 0) -> History:
    return fold([node(1, batches(*log, first=first)), node(2, (), *snapshots)], [1], None, since_ms)


def differences(*state: Record, log: tuple[Record, ...] = LOG) -> list[SnapshotDifference]:
    return list(told(snapshot(len(log), *state), log=log).differences)


def test_a_snapshot_of_the_whole_state_is_no_difference() -> None:
    history = told(snapshot(8, *STATE), snapshot(4, *LOG[:4]))
    assert [(row.node, row.end_offset, row.differences) for row in history.snapshots] == [(2, 4, 0), (2, 8, 0)]
    assert history.differences == ()


@pytest.mark.parametrize(
    ("state", "entity", "values"),
    [
        (STATE[1:], ("topic", TOPIC_ID), (None, TOPIC)),
        (STATE[:2] + STATE[3:], ("broker", "1", "broker_epoch"), (None, "2")),
        (STATE[:3] + STATE[4:], ("setting", "topic", TOPIC, "retention.ms"), (None, "7")),
        (STATE[:4] + STATE[5:], ("setting", "broker", "1", "ssl.keystore.password"), (None, "[hidden]")),
        (STATE[:5] + STATE[6:], ("feature", "group.version"), (None, "1")),
        (STATE[:6], ("next producer id",), (None, "1000")),
        ((*STATE[:6], record("ProducerIds", NextProducerId=0)), ("next producer id",), ("0", "1000")),
        (
            (STATE[0], partition(isr=(1, 2), leader=2, LeaderEpoch=1, PartitionEpoch=2), *STATE[2:]),
            ("partition", TOPIC_ID, "0", "partition_epoch"),
            ("2", "1"),
        ),
        ((*STATE, config("retention.bytes", "1")), ("setting", "topic", TOPIC, "retention.bytes"), ("1", None)),
    ],
)
def test_what_a_snapshot_has_otherwise_is_named(
    state: tuple[Record, ...], entity: tuple[str, ...], values: tuple[str | None, str | None]
) -> None:
    found = [one for one in differences(*state) if one.entity == entity]
    assert [((one.in_snapshot, one.in_log), one.leftover, one.node) for one in found] == [(values, False, 2)]


ACL = record("AccessControlEntry", Id="acl", ResourceName=TOPIC, Principal="User:a", Operation=3)
SCRAM = record("UserScramCredential", Name="a", Mechanism=1, Salt="salt", Iterations=4096)
OF_USER = ({"EntityType": "user", "EntityName": "a"}, {"EntityType": "client-id", "EntityName": None})
QUOTA = record("ClientQuota", Entity=OF_USER, Key="producer_byte_rate", Value=7.0, Remove=False)
TOKEN = record("DelegationToken", TokenId="token", Owner="User:a")
RIGHTS = (ACL, SCRAM, QUOTA, TOKEN)
_QUOTA = ("EntityName=None EntityType=client-id,EntityName=a EntityType=user", "producer_byte_rate")


def test_rights_that_a_snapshot_has_like_the_log_are_no_difference() -> None:
    turned = record("ClientQuota", **{**QUOTA.fields, "Entity": OF_USER[::-1]})
    assert differences(TOKEN, turned, SCRAM, ACL, log=RIGHTS) == []
    gone = (
        *RIGHTS,
        record("RemoveAccessControlEntry", Id="acl"),
        record("RemoveUserScramCredential", Name="a", Mechanism=1),
        record("ClientQuota", **{**QUOTA.fields, "Remove": True}),
        record("RemoveDelegationToken", TokenId="token"),
    )
    assert differences(log=gone) == []


@pytest.mark.parametrize(
    ("lacks", "entity", "value"),
    [
        (ACL, ("AccessControlEntry", "acl"), f"3 User:a {TOPIC}"),
        (SCRAM, ("UserScramCredential", "a", "1"), "[hidden]"),
        (QUOTA, ("ClientQuota", *_QUOTA), "7.0"),
        (TOKEN, ("DelegationToken", "token"), "[hidden]"),
    ],
)
def test_rights_that_a_snapshot_lacks_are_named(lacks: Record, entity: tuple[str, ...], value: str) -> None:
    (one,) = differences(*(kept for kept in RIGHTS if kept is not lacks), log=RIGHTS)
    assert (one.entity, one.in_snapshot, one.in_log, one.leftover) == (entity, None, value, False)
    (kept,) = differences(lacks, log=(topic(), removed()))
    assert (kept.entity, kept.in_snapshot, kept.in_log, kept.leftover) == (entity, value, None, False)


def test_directories_that_the_log_does_not_know_are_no_difference() -> None:
    old = (topic(), partition(Directories=None))
    assert differences(topic(), partition(Directories=("d1", "d2", "d3")), log=old) == []
    (one,) = differences(topic(), partition(Directories=("d1", "d2", "d4")), log=(topic(), partition()))
    assert (one.entity[-1], one.in_snapshot, one.in_log) == ("directories", "d1,d2,d4", "d1,d2,d3")


def test_the_version_of_the_quorum_is_not_compared() -> None:
    assert differences(*STATE, record("KRaftVersion", KRaftVersion=1)) == []


def test_settings_of_deleted_topics_are_left_over() -> None:
    gone = (*LOG, removed())
    (one,) = differences(*STATE[2:], log=gone)
    assert (one.entity, one.leftover) == (("setting", "topic", TOPIC, "retention.ms"), True)
    again = (*gone, topic(topic_id="another"))
    found = differences(topic(topic_id="another"), *STATE[2:], log=again)
    assert [one.leftover for one in found] == [True]


def test_a_snapshot_that_cannot_be_compared_is_left_out() -> None:
    assert told(snapshot(8, *STATE[1:]), since_ms=None).snapshots == ()
    assert told(snapshot(8, *STATE[1:]), since_ms=10**9).snapshots == ()  # it is older than that
    assert told(snapshot(8, *STATE[1:], epoch=2)).snapshots == ()
    assert told(snapshot(8, *STATE[1:], problem="it has no footer")).snapshots == ()
    assert told(snapshot(20, *STATE[1:]), first=5).snapshots == ()  # the beginning of the log is unknown
    begun = (*LOG, record("BeginTransaction", Name=None), topic("late", "late"))
    assert told(snapshot(10, *STATE), log=begun).snapshots == ()


def test_few_differences_of_one_snapshot_are_named() -> None:
    history = told(snapshot(8))
    assert len(history.differences) == 10
    assert history.snapshots[0].differences > 10


def test_what_was_compared_comes_back_from_the_document() -> None:
    history = told(snapshot(8, *STATE[1:]))
    again = history_of(document_of(history))
    assert (again.snapshots, again.differences) == (history.snapshots, history.differences)
    assert again.producer_ids == history.producer_ids
    optional = ("snapshots", "differences", "producer_ids")
    old = history_of({key: value for key, value in document_of(history).items() if key not in optional})
    assert (old.snapshots, old.differences, old.producer_ids) == ((), (), ())


def test_blocks_of_producer_ids_are_in_the_history() -> None:
    assert [(block.broker, block.next_id, block.offset) for block in told().producer_ids] == [(1, 1000, 6)]
