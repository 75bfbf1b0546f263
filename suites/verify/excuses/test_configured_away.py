"""Losses and duplicates by configuration: compaction, tombstones, the only disk, expired producers. Each with near
misses."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.edits import append, contract, cut, start_at, swap, taken
from suites.verify.history import START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

LATER_NS = START_NS + 10**9


def keyed(built: Built) -> Built:
    """A compacted topic on which all records have the same key."""
    for row in built.tables["ledger"]:
        row["key_hash"] = 5
    return contract(built, compacted=True)


def alone(built: Built, seq: int = 1) -> Built:
    """A compacted topic with one key, except that one record has a key that no other record has."""
    return keyed(built).change("ledger", {"key_hash": 6}, seq=seq)


def with_tombstone(built: Built, *, retention_ms: int = 1000, at: int = 1) -> Built:
    """A compacted topic with one key; the record at that place is a tombstone."""
    for row in keyed(built).tables["ledger"]:
        row["value"] = "null" if row["seq"] == at else None
    return contract(built, delete_retention_ms=retention_ms)


def follower_lacks(built: Built, *offsets: int, broker: int = 2) -> Built:
    """A follower's copy lacks these offsets."""
    for offset in offsets:
        built.drop("observations", kind="replica", replica=broker, offset=offset)
        built.drop("batches", broker=broker, base_offset=offset)
    return built


def only_follower_has(built: Built, *offsets: int, broker: int = 2) -> Built:
    """After healing only a follower's copy has these offsets."""
    for offset in offsets:
        for row in built.rows("observations", offset=offset):
            if row["kind"] != "live" and row["replica"] != broker:
                built.drop("observations", kind=row["kind"], reader=row["reader"], offset=offset)
        for row in built.rows("batches", base_offset=offset):
            if row["broker"] != broker:
                built.drop("batches", broker=row["broker"], base_offset=offset)
    return built


def only_disk_lost(built: Built, *, partition: int = 0, at_ns: int = LATER_NS) -> Built:
    """The disk of the only replica was lost."""
    built.event("only_disk_lost", partition=partition, broker=1, log_end=4, at_ns=at_ns)
    return contract(built, replicas=1, min_insync_replicas=1)


def acknowledged_late(built: Built, *, after_ms: int, expiration_ms: int = 3000) -> Built:
    """A record that is there twice was acknowledged this long after the producer's last batch before the copy."""
    last_ms = max(row["max_timestamp_ms"] for row in built.tables["batches"])
    built.change("ledger", {"returned_ns": (last_ms + after_ms) * 10**6}, seq=1)
    built.run["contract"]["producer_expiration_ms"] = expiration_ms
    built.run["contract"]["producers"]["p"]["idempotent"] = True
    return built


def backdated(built: Built, back_ms: int, retention_ms: int) -> Built:
    """Every record has a timestamp this long before its send."""
    built.run["contract"]["producers"]["p"]["backdated_ms"] = back_ms
    for table, column in (("observations", "timestamp_ms"), ("batches", "max_timestamp_ms")):
        for row in built.tables[table]:
            row[column] -= back_ms
    return contract(built, retention_ms=retention_ms)


def four_batches_left() -> Built:
    """A log that starts after its first two records; each of the other four takes 100 bytes."""
    return History("AAAA/AA").build(start_at(2))


def with_append_time(built: Built) -> Built:
    """Records have LogAppendTime."""
    built.change("batches", {"timestamp_type": "append"})
    return contract(built, timestamp_type="append")


# name -> (history, what condemns, number of records that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "compaction removed an older value": (keyed(History("AA/A").build(taken(0))), [], 1),
    "compaction removed a value that a record of unknown outcome replaced": (
        keyed(History("A/U").build(taken(0))),
        [],
        1,
    ),
    "compaction removed a value that a record of unknown outcome did not replace": (
        keyed(History("A/u[A]").build(taken(0))),
        ["lost 1"],
        0,
    ),
    "compaction removed a value that an aborted record did not replace": (
        keyed(History("A/[A]").build(taken(0))),
        ["lost 1"],
        0,
    ),
    "compaction removed a value that a record without an acknowledged offset replaced": (
        keyed(History("A/a").build(taken(0))),
        [],
        1,
    ),
    "compaction removed an older value without an acknowledged offset": (keyed(History("a/A").build(taken(0))), [], 1),
    "compaction removed the newest value, which has no acknowledged offset": (
        keyed(History("A/a").build(taken(1))),
        ["lost 1"],
        0,
    ),
    "compaction removed the newest value": (keyed(History("AA/A").build(taken(2))), ["lost 1"], 0),
    "compaction removed a record without a key": (
        contract(History("AA/A").build(taken(0)), compacted=True),
        ["lost 1"],
        0,
    ),
    "compaction removed a value that was superseded within the lag": (
        contract(keyed(History("AA/A.").build(taken(0))), compaction_lag_ms=2000),
        ["lost 1"],
        0,
    ),
    "compaction removed a value that was superseded before the lag": (
        contract(keyed(History("AA/A...").build(taken(0))), compaction_lag_ms=2000),
        [],
        1,
    ),
    "compaction removed a value, and the lag is the highest value": (
        contract(keyed(History("AA/A...").build(taken(0))), compaction_lag_ms=2**63 - 1),
        ["lost 1"],
        0,
    ),
    "a tombstone was removed with its values": (with_tombstone(History("AA/[A]...").build(taken(0, 1))), [], 2),
    "a tombstone was removed too early": (
        with_tombstone(History("AA/[A]...").build(taken(0, 1)), retention_ms=60_000),
        ["lost 1"],
        1,
    ),
    "a tombstone was removed, and delete.retention.ms is the highest value": (
        with_tombstone(History("AA/[A]...").build(taken(0, 1)), retention_ms=2**63 - 1),
        ["lost 1"],
        1,
    ),
    "a tombstone was removed, and its value is visible again": (
        with_tombstone(History("AA/[A]...").build(taken(1))),
        ["lost 1"],
        0,
    ),
    "a tombstone of unknown outcome may have been removed with its value": (
        with_tombstone(History("AU/[A]...").build(taken(0, 1))),
        [],
        1,
    ),
    "a tombstone of unknown outcome cannot have been removed yet": (
        with_tombstone(History("AU/[A]").build(taken(0, 1))),
        ["lost 1"],
        0,
    ),
    "a tombstone of an aborted transaction deleted nothing": (
        with_tombstone(History("A/[A]...").build(taken(0))),
        ["lost 1"],
        0,
    ),
    "a tombstone was removed, and a later value is there": (
        with_tombstone(History("AA/A...").build(taken(0, 1))),
        [],
        2,
    ),
    "a tombstone is missing on a topic that is not compacted": (
        contract(with_tombstone(History("AA/[A]...").build(taken(1))), compacted=False),
        ["lost 1"],
        0,
    ),
    "a value was removed like a tombstone": (
        with_tombstone(History("AA/[A]...").build(taken(0, 1)), at=0),
        ["lost 1"],
        1,
    ),
    "a follower's tombstone was removed with its value": (
        follower_lacks(with_tombstone(History("AA/[A]...").build()), 0, 1),
        [],
        2,
    ),
    "a follower's tombstone was removed, and its value is visible again": (
        follower_lacks(with_tombstone(History("AA/[A]...").build()), 1),
        ["replica_divergence 1"],
        0,
    ),
    "a follower's tombstone was removed too early": (
        follower_lacks(with_tombstone(History("AA/[A]...").build(), retention_ms=60_000), 0, 1),
        ["replica_divergence 1"],
        1,
    ),
    "only a follower has a superseded value": (only_follower_has(keyed(History("AA/A").build()), 0), [], 1),
    "only a follower has a deleted value and its tombstone": (
        only_follower_has(with_tombstone(History("AA/[A]...").build()), 0, 1),
        [],
        2,
    ),
    "only a follower has a tombstone, without its value": (
        follower_lacks(only_follower_has(with_tombstone(History("AA/[A]...").build()), 0, 1), 0),
        [],
        2,
    ),
    "only a follower has a deleted value, without its tombstone": (
        follower_lacks(only_follower_has(with_tombstone(History("AA/[A]...").build()), 0, 1), 1),
        ["replica_divergence 1"],
        2,
    ),
    "a follower lacks a superseded value": (follower_lacks(keyed(History("AA/A").build()), 0), [], 1),
    "compaction removed the only value of its key of an aborted transaction": (
        alone(History("A[A]/A").build(taken(1))),
        [],
        0,
    ),
    "a follower lacks the only value of its key, of an aborted transaction": (
        follower_lacks(alone(History("A[A]/A").build()), 1),
        [],
        1,
    ),
    "only a follower has the only value of its key, of an aborted transaction": (
        only_follower_has(alone(History("A[A]/A").build()), 1),
        [],
        1,
    ),
    "only a follower has the only value of its key, of an aborted transaction of unknown outcome": (
        only_follower_has(alone(History("A<A>/A").build()), 1),
        [],
        1,
    ),
    "only a follower has the only value of its key, of a committed transaction of unknown outcome": (
        only_follower_has(alone(History("A{AA}/A").build()), 1),
        ["torn_transaction 1", "vanished 1"],
        0,
    ),
    "only a follower has the only value of its key, of a committed transaction": (
        only_follower_has(alone(History("A(A)/A").build()), 1),
        ["lost 1"],
        0,
    ),
    "only a follower has a value of an aborted transaction in the active segment": (
        only_follower_has(alone(History("A/[A]A").build()), 1),
        ["vanished 1"],
        0,
    ),
    "a follower lacks a value of an aborted transaction on a topic that is not compacted": (
        contract(follower_lacks(alone(History("A[A]/A").build()), 1), compacted=False),
        ["replica_divergence 1"],
        0,
    ),
    "a follower lacks the newest value": (
        follower_lacks(keyed(History("AA/A").build()), 2),
        ["replica_divergence 1"],
        0,
    ),
    "a follower has another record in place of a superseded value": (
        keyed(History("AAA").build()).change("observations", {"seq": 1}, kind="replica", replica=2, offset=0),
        ["replica_divergence 1"],
        0,
    ),
    "the only disk was lost": (only_disk_lost(History("AAAA").build(cut(1))), [], 3),
    "the only disk was lost, and it was acknowledged later": (
        only_disk_lost(History("AAAA").build(cut(3)), at_ns=START_NS),
        ["lost 1"],
        0,
    ),
    "a disk was lost, and other replicas had the records": (
        contract(only_disk_lost(History("AAAA").build(cut(3))), replicas=3),
        ["lost 1"],
        0,
    ),
    "the only disk was lost of another partition": (
        only_disk_lost(History("AAAA", "A").build(cut(3)), partition=1),
        ["lost 1"],
        0,
    ),
    "a superseded value is missing on a topic that is not compacted": (
        contract(keyed(History("AA/A").build(taken(0))), compacted=False),
        ["lost 1"],
        0,
    ),
    "backdated beyond the retention": (backdated(History("AAAA").build(start_at(2)), 10_000, 5000), [], 0),
    "backdated by less than the retention": (
        backdated(History("AAAA").build(start_at(2)), 10_000, 60_000),
        ["log_start 2"],
        0,
    ),
    "backdated beyond the retention, with LogAppendTime": (
        with_append_time(backdated(History("AAAA").build(start_at(2)), 10_000, 5000)),
        ["log_start 2"],
        0,
    ),
    "old by LogAppendTime": (
        with_append_time(contract(History("AA......AA").build(start_at(2)), retention_ms=5000)),
        [],
        0,
    ),
    "retention by time on a topic with cleanup.policy=compact": (
        contract(History("AA..AA").build(start_at(2)), retention_ms=1000, compacted=True, deletes=False),
        ["log_start 2"],
        0,
    ),
    "retention by time on a topic with cleanup.policy=compact,delete": (
        contract(History("AA..AA").build(start_at(2)), retention_ms=1000, compacted=True, deletes=True),
        [],
        0,
    ),
    "retention by size on a topic with cleanup.policy=compact": (
        contract(History("AAAA").build(start_at(2)), retention_bytes=200, compacted=True, deletes=False),
        ["log_start 2"],
        0,
    ),
    "retention by size on a topic with cleanup.policy=compact,delete deleted one too many": (
        contract(four_batches_left(), retention_bytes=450, compacted=True, deletes=True),
        ["log_start 1"],
        0,
    ),
    "retention by size on a compacted topic that a cleaner has shrunk": (
        contract(four_batches_left().drop("batches", base_offset=3), retention_bytes=350, compacted=True, deletes=True),
        [],
        0,
    ),
    "retention by size on a compacted topic that no cleaner has shrunk": (
        contract(
            four_batches_left().change("batches", {"size_bytes": 50}, base_offset=3),
            retention_bytes=370,
            compacted=True,
            deletes=True,
        ),
        ["log_start 1"],
        0,
    ),
    "retention by size kept too little on a topic that is not compacted": (
        contract(four_batches_left().drop("batches", base_offset=3), retention_bytes=350),
        ["log_start 1"],
        0,
    ),
    "the producer's state had expired": (acknowledged_late(History("AAA").build(append(1, 1)), after_ms=3000), [], 1),
    "the producer's state had not expired yet": (
        acknowledged_late(History("AAA").build(append(1, 1)), after_ms=2400),
        ["duplicated 1"],
        0,
    ),
    "the producer's state expires only after a day": (
        acknowledged_late(History("AAA").build(append(1, 1)), after_ms=60_000, expiration_ms=86_400_000),
        ["duplicated 1"],
        0,
    ),
    "the producer's state had expired, and another record is there twice": (
        acknowledged_late(History("AAA").build(append(1, 2)), after_ms=3000),
        ["duplicated 1"],
        0,
    ),
    "the producer's state had expired, and records are out of order": (
        acknowledged_late(History("AAAA").build(swap(1, 2)), after_ms=3000),
        ["reordered 1"],
        0,
    ),
    "the producer's state had expired, and it was not idempotent": (
        acknowledged_late(History("AAA", idempotent=False).build(append(1, 1)), after_ms=3000),
        ["duplicated 1"],
        0,
    ),
    "the producer's state had expired, and no batch was read": (
        acknowledged_late(History("AAA").build(append(1, 1)), after_ms=3000).drop("batches", count=1),
        ["duplicated 1"],
        0,
    ),
}

BATCH = HistoryBatch(history for history, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_losses_by_configuration_are_excused(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    _, condemning, excused = CASES[name]
    assert reported(verdict) == condemning
    assert sum(f.count for f in verdict.findings if f.excused_by) == excused
    assert all(f.condemns or f.excused_by for f in verdict.findings)


def test_a_log_that_a_cleaner_shrank_leaves_a_doubt(judged: dict[str, Verdict]) -> None:
    in_doubt = {name for name, verdict in judged.items() if any(doubt.name == "unjudged" for doubt in verdict.doubts)}
    assert in_doubt == {"retention by size on a compacted topic that a cleaner has shrunk"}


def in_group(built: Built) -> Built:
    """One of its readers is in a group."""
    built.run["contract"]["readers"] = {"grouped": {"reader": "grouped", "group": "g", "at_most_once": False}}
    return built


def below_log_start(history: History) -> None:
    taken(1)(history)
    start_at(2)(history)


# name -> (history, by place how many records its group missed)
MISSED: dict[str, tuple[Built, dict[str, int]]] = {
    "compacted before the group read it": (in_group(keyed(History("AA/AA").build(taken(1)))), {"t/0": 1}),
    "compacted after the group had read it": (
        in_group(keyed(History("AA/AA").build())).drop("observations", kind="drain", offset=1),
        {},
    ),
    "no reader is in a group": (keyed(History("AA/AA").build(taken(1))), {}),
    "not a compacted topic": (contract(in_group(keyed(History("AA/AA").build(taken(1)))), compacted=False), {}),
    "after the last record that the group read": (in_group(keyed(History("AA/AA").build(taken(3)))), {}),
    "below the log start": (in_group(keyed(History("AA/AA").build(below_log_start))), {}),
}
BATCH_MISSED = HistoryBatch(history for history, _ in MISSED.values())


def test_records_compacted_before_a_group_read_them_are_counted(spark: SparkSession) -> None:
    counted = [verdict.facts.missed for verdict in BATCH_MISSED.verdicts(spark)]
    assert counted == [missed for _, missed in MISSED.values()]
