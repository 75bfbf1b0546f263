"""What goes by configuration: compacted, buried, on the only disk, or forgotten. Beside each what just does not."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.edits import append, contract, cut, start_at, swap, taken
from suites.verify.history import START_NS, Built, History
from suites.verify.judging import Entered, reported

LATER_NS = START_NS + 10**9


def keyed(built: Built) -> Built:
    """A compacted topic on which every record has one key."""
    for row in built.tables["ledger"]:
        row["key_hash"] = 5
    return contract(built, compacted=True)


def buried(built: Built, *, retention_ms: int = 1000, at: int = 1) -> Built:
    """A compacted topic on which the record at that place is a tombstone of the one key."""
    for row in keyed(built).tables["ledger"]:
        row["value"] = "null" if row["seq"] == at else None
    return contract(built, delete_retention_ms=retention_ms)


def lacks(built: Built, *offsets: int, broker: int = 2) -> Built:
    """A follower's copy has nothing at these offsets."""
    for offset in offsets:
        built.drop("observations", kind="replica", replica=broker, offset=offset)
        built.drop("batches", broker=broker, base_offset=offset)
    return built


def only_on(built: Built, *offsets: int, broker: int = 2) -> Built:
    """Of the copies after healing only a follower's has what is at these offsets."""
    for offset in offsets:
        for row in built.rows("observations", offset=offset):
            if row["kind"] != "live" and row["replica"] != broker:
                built.drop("observations", kind=row["kind"], reader=row["reader"], offset=offset)
        for row in built.rows("batches", base_offset=offset):
            if row["broker"] != broker:
                built.drop("batches", broker=row["broker"], base_offset=offset)
    return built


def only_disk(built: Built, *, partition: int = 0, at_ns: int = LATER_NS) -> Built:
    """The disk of the only replica was lost."""
    built.event("only_disk_lost", partition=partition, broker=1, log_end=4, at_ns=at_ns)
    return contract(built, replicas=1, min_insync_replicas=1)


def unanswered(built: Built, *, after_ms: int, expiration_ms: int = 3000) -> Built:
    """A record that stands there twice was acknowledged so long after the producer's last batch but the copy."""
    last_ms = max(row["max_timestamp_ms"] for row in built.tables["batches"])
    built.change("ledger", {"returned_ns": (last_ms + after_ms) * 10**6}, seq=1)
    built.run["contract"]["producer_expiration_ms"] = expiration_ms
    built.run["contract"]["producers"]["p"]["idempotent"] = True
    return built


def backdated(built: Built, back_ms: int, retention_ms: int) -> Built:
    """Every record bears a time so long before it was sent."""
    built.run["contract"]["producers"]["p"]["backdated_ms"] = back_ms
    for table, column in (("observations", "timestamp_ms"), ("batches", "max_timestamp_ms")):
        for row in built.tables[table]:
            row[column] -= back_ms
    return contract(built, retention_ms=retention_ms)


def sized() -> Built:
    """A log that starts behind its first two records; each of the four that are left takes 100 bytes."""
    return History("AAAA/AA").build(start_at(2))


def of_the_log(built: Built) -> Built:
    """Records bear the times at which their leader got them (LogAppendTime)."""
    built.change("batches", {"timestamp_type": "append"})
    return contract(built, timestamp_type="append")


# name -> (history, what condemns, number of records that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "compaction took an older value": (keyed(History("AA/A").build(taken(0))), [], 1),
    "compaction took what one of unknown outcome replaced": (keyed(History("A/U").build(taken(0))), [], 1),
    "compaction took what one of unknown outcome did not replace": (
        keyed(History("A/u[A]").build(taken(0))),
        ["lost 1"],
        0,
    ),
    "compaction took what an aborted one did not replace": (keyed(History("A/[A]").build(taken(0))), ["lost 1"], 0),
    "compaction took what one without an offset replaced": (keyed(History("A/a").build(taken(0))), [], 1),
    "compaction took an older value that told no offset": (keyed(History("a/A").build(taken(0))), [], 1),
    "compaction took the newest value, which told no offset": (keyed(History("A/a").build(taken(1))), ["lost 1"], 0),
    "compaction took the newest value": (keyed(History("AA/A").build(taken(2))), ["lost 1"], 0),
    "compaction took a record without a key": (
        contract(History("AA/A").build(taken(0)), compacted=True),
        ["lost 1"],
        0,
    ),
    "compaction took what was written again within the lag": (
        contract(keyed(History("AA/A.").build(taken(0))), compaction_lag_ms=2000),
        ["lost 1"],
        0,
    ),
    "compaction took what was written again before the lag": (
        contract(keyed(History("AA/A...").build(taken(0))), compaction_lag_ms=2000),
        [],
        1,
    ),
    "a tombstone went with what it deleted": (buried(History("AA/[A]...").build(taken(0, 1))), [], 2),
    "a tombstone went too early": (buried(History("AA/[A]...").build(taken(0, 1)), retention_ms=60_000), ["lost 1"], 1),
    "a tombstone went, and what it deleted is back": (buried(History("AA/[A]...").build(taken(1))), ["lost 1"], 0),
    "a tombstone of unknown outcome may have gone with what it deleted": (
        buried(History("AU/[A]...").build(taken(0, 1))),
        [],
        1,
    ),
    "a tombstone of unknown outcome cannot have gone yet": (
        buried(History("AU/[A]").build(taken(0, 1))),
        ["lost 1"],
        0,
    ),
    "a tombstone of an aborted transaction deleted nothing": (
        buried(History("A/[A]...").build(taken(0))),
        ["lost 1"],
        0,
    ),
    "a tombstone went, and a later value stands": (buried(History("AA/A...").build(taken(0, 1))), [], 2),
    "a tombstone went where nothing is compacted": (
        contract(buried(History("AA/[A]...").build(taken(1))), compacted=False),
        ["lost 1"],
        0,
    ),
    "what was no tombstone went as if it were": (buried(History("AA/[A]...").build(taken(0, 1)), at=0), ["lost 1"], 1),
    "a follower's tombstone went with what it deleted": (lacks(buried(History("AA/[A]...").build()), 0, 1), [], 2),
    "a follower's tombstone went, and what it deleted is back": (
        lacks(buried(History("AA/[A]...").build()), 1),
        ["replica_divergence 1"],
        0,
    ),
    "a follower's tombstone went too early": (
        lacks(buried(History("AA/[A]...").build(), retention_ms=60_000), 0, 1),
        ["replica_divergence 1"],
        1,
    ),
    "a follower has what was written again": (only_on(keyed(History("AA/A").build()), 0), [], 1),
    "a follower has what was deleted, and the tombstone": (only_on(buried(History("AA/[A]...").build()), 0, 1), [], 2),
    "a follower has a tombstone alone": (
        lacks(only_on(buried(History("AA/[A]...").build()), 0, 1), 0),
        [],
        2,
    ),
    "a follower has what was deleted, and no tombstone": (
        lacks(only_on(buried(History("AA/[A]...").build()), 0, 1), 1),
        ["replica_divergence 1"],
        2,
    ),
    "a follower lacks what was written again": (lacks(keyed(History("AA/A").build()), 0), [], 1),
    "a follower lacks the newest": (lacks(keyed(History("AA/A").build()), 2), ["replica_divergence 1"], 0),
    "a follower has another record where one was written again": (
        keyed(History("AAA").build()).change("observations", {"seq": 1}, kind="replica", replica=2, offset=0),
        ["replica_divergence 1"],
        0,
    ),
    "the only disk was lost": (only_disk(History("AAAA").build(cut(1))), [], 3),
    "the only disk was lost, and it was acknowledged later": (
        only_disk(History("AAAA").build(cut(3)), at_ns=START_NS),
        ["lost 1"],
        0,
    ),
    "a disk was lost, and others had it": (
        contract(only_disk(History("AAAA").build(cut(3))), replicas=3),
        ["lost 1"],
        0,
    ),
    "the only disk was lost of another partition": (
        only_disk(History("AAAA", "A").build(cut(3)), partition=1),
        ["lost 1"],
        0,
    ),
    "a key was written again on a topic that is not compacted": (
        contract(keyed(History("AA/A").build(taken(0))), compacted=False),
        ["lost 1"],
        0,
    ),
    "old when they were sent": (backdated(History("AAAA").build(start_at(2)), 10_000, 5000), [], 0),
    "not that old when they were sent": (
        backdated(History("AAAA").build(start_at(2)), 10_000, 60_000),
        ["log_start 2"],
        0,
    ),
    "old when they were sent, and the log bears its own times": (
        of_the_log(backdated(History("AAAA").build(start_at(2)), 10_000, 5000)),
        ["log_start 2"],
        0,
    ),
    "old by the log's own times": (
        of_the_log(contract(History("AA......AA").build(start_at(2)), retention_ms=5000)),
        [],
        0,
    ),
    "retention took what is compacted alone": (
        contract(History("AA..AA").build(start_at(2)), retention_ms=1000, compacted=True, deletes=False),
        ["log_start 2"],
        0,
    ),
    "retention took what is compacted and deleted": (
        contract(History("AA..AA").build(start_at(2)), retention_ms=1000, compacted=True, deletes=True),
        [],
        0,
    ),
    "too much took what is compacted alone": (
        contract(History("AAAA").build(start_at(2)), retention_bytes=200, compacted=True, deletes=False),
        ["log_start 2"],
        0,
    ),
    "too much took what is compacted and deleted": (
        contract(sized(), retention_bytes=450, compacted=True, deletes=True),
        ["log_start 1"],
        0,
    ),
    "a cleaner has shrunk what is compacted and deleted": (
        contract(sized().drop("batches", base_offset=3), retention_bytes=350, compacted=True, deletes=True),
        [],
        0,
    ),
    "nothing has shrunk what is compacted and deleted": (
        contract(
            sized().change("batches", {"size_bytes": 50}, base_offset=3),
            retention_bytes=370,
            compacted=True,
            deletes=True,
        ),
        ["log_start 1"],
        0,
    ),
    "what is deleted and not compacted is smaller than it may be": (
        contract(sized().drop("batches", base_offset=3), retention_bytes=350),
        ["log_start 1"],
        0,
    ),
    "forgotten by then": (unanswered(History("AAA").build(append(1, 1)), after_ms=3000), [], 1),
    "not forgotten yet": (unanswered(History("AAA").build(append(1, 1)), after_ms=2400), ["duplicated 1"], 0),
    "forgotten only after a day": (
        unanswered(History("AAA").build(append(1, 1)), after_ms=60_000, expiration_ms=86_400_000),
        ["duplicated 1"],
        0,
    ),
    "forgotten, another record": (
        unanswered(History("AAA").build(append(1, 2)), after_ms=3000),
        ["duplicated 1"],
        0,
    ),
    "forgotten, and out of order": (unanswered(History("AAAA").build(swap(1, 2)), after_ms=3000), ["reordered 1"], 0),
    "forgotten, and it was not idempotent": (
        unanswered(History("AAA", idempotent=False).build(append(1, 1)), after_ms=3000),
        ["duplicated 1"],
        0,
    ),
    "forgotten by then, and nobody can read a batch": (
        unanswered(History("AAA").build(append(1, 1)), after_ms=3000).drop("batches", count=1),
        ["duplicated 1"],
        0,
    ),
}

ENTERED = Entered(history for history, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_what_goes_by_configuration_is_excused(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    _, condemning, excused = CASES[name]
    assert reported(verdict) == condemning
    assert sum(f.count for f in verdict.findings if f.excused_by) == excused
    assert all(f.condemns or f.excused_by for f in verdict.findings)


def test_what_a_cleaner_has_shrunk_leaves_a_doubt(judged: dict[str, Verdict]) -> None:
    in_doubt = {name for name, verdict in judged.items() if any(doubt.name == "unjudged" for doubt in verdict.doubts)}
    assert in_doubt == {"a cleaner has shrunk what is compacted and deleted"}


def grouped(built: Built) -> Built:
    """One of its readers is in a group."""
    built.run["contract"]["readers"] = {"grouped": {"reader": "grouped", "group": "g", "at_most_once": False}}
    return built


def below(history: History) -> None:
    taken(1)(history)
    start_at(2)(history)


# name -> (history, by place how many records its group missed)
LATE: dict[str, tuple[Built, dict[str, int]]] = {
    "it went before the group came to it": (grouped(keyed(History("AA/AA").build(taken(1)))), {"t/0": 1}),
    "it went when the group had read it": (
        grouped(keyed(History("AA/AA").build())).drop("observations", kind="drain", offset=1),
        {},
    ),
    "nobody is in a group": (keyed(History("AA/AA").build(taken(1))), {}),
    "nothing is compacted": (contract(grouped(keyed(History("AA/AA").build(taken(1)))), compacted=False), {}),
    "the group did not come so far": (grouped(keyed(History("AA/AA").build(taken(3)))), {}),
    "it was deleted": (grouped(keyed(History("AA/AA").build(below))), {}),
}
ENTERED_LATE = Entered(history for history, _ in LATE.values())


def test_what_compaction_took_before_a_group_came_to_it_is_counted(spark: SparkSession) -> None:
    counted = [verdict.facts["missed"] for verdict in ENTERED_LATE.verdicts(spark)]
    assert counted == [missed for _, missed in LATE.values()]
