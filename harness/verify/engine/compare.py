"""Compares every other reader with the drain of its isolation, offset by offset, where their buckets differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.documents.reads import Read
from harness.model.scenario.scenario import SHARE
from harness.model.schemas import Columns
from harness.verify.engine.added_partitions import first_starts
from harness.verify.engine.case import COMMITTED, Case, other_drains
from harness.verify.engine.fingerprints import OFFSET_BITS, differing, offset_bucket, together
from harness.verify.engine.kept import kept
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, OTHER_DRAIN, PLACE, Values, frame, is_committed, is_drain

# `turn` is the session of a live reader; -1 = the whole read of a log, or all sessions of a reader or group together.
_READER: Final = ["kind", "reader", "turn", "isolation"]
_AT: Final = [BUNDLE, *_READER, *PLACE[1:]]
_WHOLE: Final = -1

_RANGE: Final[Columns] = {
    "kind": "string",
    "reader": "string",
    "turn": "int32",
    "isolation": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "low": "int64",
    "high": "int64",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Offsets at which a reader (kind, reader, turn, isolation) and the drain of its isolation disagree.

    unseen: in the reader's range, and returned only by the drain. unshown: returned only by the reader. other: both
    returned different intact records. moved: both returned the record, from batches with different leader epochs.
    drains: the read_committed drain beside the read_uncommitted drain (`drain_*`), where they differ.
    """

    given: Prepared
    unseen: DataFrame
    unshown: DataFrame
    other: DataFrame
    moved: DataFrame
    drains: DataFrame


def compare(given: Prepared, prints: DataFrame) -> Compared:
    """Finds the buckets that differ, immediately, and joins their rows. prints: `fingerprints.reader_buckets`."""
    observed = given.observations.where(given.complete)
    prints = prints.where(given.complete)
    prints_read = kept(together(_turns(given, prints), _READER))
    prints_drained = kept(together(prints.where("kind = 'drain'"), ["isolation"]))
    suspect = F.broadcast(kept(_suspect(kept(_ranges(given, prints_read)), prints_read, prints_drained)))
    near = kept(_near(given, observed, suspect))
    lined = kept(_lined_up(_turns(given, near), near.where("kind = 'drain'"), suspect))
    different = (F.col("stream") != F.col("drain_stream")) | (F.col("seq") != F.col("drain_seq"))
    return Compared(
        given=given,
        unseen=lined.where("stream IS NULL").withColumns({"stream": F.col("drain_stream"), "seq": F.col("drain_seq")}),
        unshown=lined.where("drain_stream IS NULL AND intact"),
        other=lined.where(different & F.col("intact") & F.col("drain_intact")),
        moved=lined.where(
            ~different & ((F.col("oldest") != F.col("drain_epoch")) | (F.col("newest") != F.col("drain_epoch")))
        ),
        drains=kept(_between_drains(observed.where(is_drain()), prints_drained.where(_has_uncommitted(given, prints)))),
    )


def _near(given: Prepared, rows: DataFrame, suspect: DataFrame) -> DataFrame:
    """Rows in buckets that are suspect for their reader, and those of the drain that it is compared with. They are
    selected by one hash for each row, because the exact keys are many and long."""
    keys = [*PLACE, "bucket", "who"]
    members = frame(given.spark, {"reader": "string", "member": "string"}, [(n, of, r) for n, r, of in _groups(given)])
    of_readers = suspect.join(F.broadcast(members), [BUNDLE, "reader"], "left")
    of_readers = of_readers.withColumn("who", F.coalesce("member", "reader"))
    of_drains = suspect.withColumn("who", F.col("isolation"))
    numbers = of_readers.select(*keys).unionByName(of_drains.select(*keys)).select(F.xxhash64(*keys).alias("near"))
    who = F.when(F.col("kind") == "drain", F.col("isolation")).otherwise(F.col("reader"))
    near = rows.withColumns({"bucket": offset_bucket(), "who": who}).withColumn("near", F.xxhash64(*keys))
    return near.join(F.broadcast(numbers.distinct()), "near", "left_semi").drop("near", "bucket", "who")


def _groups(given: Prepared) -> list[tuple[int, str, str]]:
    """(bundle, reader, the name under which its whole group is reported)"""
    return [(n, reader, name) for n, case in enumerate(given.cases) for reader, name in _members(case)]


def _turns(given: Prepared, rows: DataFrame) -> DataFrame:
    """Observations, or prints, of all but the drain with their turn; those of a group, or of a reader without one, also
    once for all its sessions.

    A group continues where any of its members had committed, so all its sessions together must not leave anything out.
    The sessions of several members are reported under the name of the group.
    """
    groups = [(n, reader, "live", name) for n, reader, name in _groups(given)]
    grouped = frame(given.spark, {"reader": "string", "kind": "string", "together": "string"}, groups)
    rows = rows.where("kind <> 'drain'").join(F.broadcast(grouped), [BUNDLE, "reader", "kind"], "left")
    turn = F.when(F.col("kind") == "live", F.col("session")).otherwise(F.lit(_WHOLE))
    alone = F.array(F.struct("reader", turn.alias("turn")))
    whole = F.array(F.struct(F.col("together").alias("reader"), F.lit(_WHOLE).alias("turn")))
    turns = F.when(F.col("together").isNull(), alone).otherwise(F.concat(alone, whole))
    rows = rows.withColumn("of", F.explode(turns)).drop("reader", "session", "together")
    return rows.withColumns({"reader": F.col("of.reader"), "turn": F.col("of.turn")}).drop("of")


def _members(case: Case) -> list[tuple[str, str]]:
    """Readers in groups, with the name under which the whole group is reported, and readers without a group.

    None if a new session may be a seek forward, which FORMAT.md permits unless run.json says otherwise.
    """
    alone = [(r.name, r.name) for r in case.scenario.readers or () if not r.group and case.run.begin_at_start]
    return alone + (_in_groups(case) if case.run.groups_resume else [])


def _in_groups(case: Case) -> list[tuple[str, str]]:
    # Members of a share group receive records in no order: see checks.share_groups.
    shares = {share.group for share in case.contract.shares.values()}
    readers = [r for r in case.scenario.readers or () if r.group and r.group not in shares and r.protocol != SHARE]
    groups = [r.group for r in readers]
    return [(r.name, r.name if groups.count(r.group) == 1 else f"group {r.group}") for r in readers]


def _ranges(given: Prepared, prints: DataFrame) -> DataFrame:
    """The range in which each reader must have received everything: between the first and last record that it received,
    or for a read after healing from its log start to its position.

    Retention may have moved the log start since the read was planned, so the start in the last snapshot counts, too.
    A reader that begins at the log start has everything before its first record in its range. So has a group in an
    added partition, whether it may skip that or not.
    """
    live = prints.where("kind = 'live'").select(*_AT, "low", "high")
    if skipping := [row for n, case in enumerate(given.cases) if case.complete for row in _from_the_first(n, case)]:
        live = live.unionByName(frame(given.spark, _RANGE, skipping).select(*live.columns))
    live = live.groupBy(*_AT).agg(F.min("low").alias("low"), F.max("high").alias("high"))
    first = frame(given.spark, {"reader": "string", "turn": "int32", "first": "int64"}, _from_the_start(given))
    live = live.join(F.broadcast(first), [BUNDLE, "reader", "turn"], "left")
    live = live.withColumn("low", F.coalesce("first", "low")).drop("first")
    rows = [
        (n, "replica", r.reader, _WHOLE, r.isolation, *r.place, *_span(case, r))
        for n, case in enumerate(given.cases)
        if case.complete
        for r in case.reads
        if r.kind == "replica" and from_its_own_copy(r)
    ]
    rows += [
        (n, OTHER_DRAIN, r.reader, _WHOLE, r.isolation, *r.place, *_span(case, r))
        for n, case in enumerate(given.cases)
        if case.complete
        for r in other_drains(case)
    ]
    return live.unionByName(frame(given.spark, _RANGE, rows).select(*live.columns))


def _from_the_start(given: Prepared) -> list[Values]:
    """Readers and groups of which all sessions together begin at the start of each log."""
    cases = ((n, case) for n, case in enumerate(given.cases) if case.run.begin_at_start)
    return [(n, name, _WHOLE, 0) for n, case in cases for name in sorted({name for _, name in _members(case)})]


def _from_the_first(number: int, case: Case) -> Iterator[Values]:
    """The range below the offset at which a whole group began in an added partition."""
    groups, ids = dict(_members(case)), {p.place[::2]: p.topic_id for p in case.last_partitions}
    isolations = {reader.name: reader.isolation or COMMITTED for reader in case.scenario.readers or ()}
    for row in first_starts(case):
        topic_id = ids.get((row.topic, row.partition))
        if row.reader in groups and topic_id is not None and row.began:
            place = row.topic, topic_id, row.partition
            yield number, "live", groups[row.reader], _WHOLE, isolations[row.reader], *place, 0, row.began - 1


def _span(case: Case, read: Read) -> tuple[int, int]:
    starts = [
        log.log_start
        for p in case.last_partitions
        for log in p.logs
        if (p.place, log.broker) == (read.place, read.replica)
    ]
    after_gaps = [hole.to_offset for hole in read.holes or () if read.kind == "drain"]
    return max([read.start, *starts, *after_gaps]), read.position - 1


def from_its_own_copy(read: Read) -> bool:
    """Whether only the intended replica served the read."""
    return read.served_by == (read.replica,)


def _suspect(ranges: DataFrame, prints_read: DataFrame, prints_drained: DataFrame) -> DataFrame:
    """Buckets in which reader and drain differ, or which only one of them has, with the reader's range in the
    partition. `pair` and `of_drain` are the bucket as a number: of this reader, and of the drain that it is compared
    with."""
    expected = (
        ranges.withColumn(
            "bucket",
            F.explode(F.sequence(F.shiftright("low", OFFSET_BITS), F.shiftright("high", OFFSET_BITS))),
        )
        .where("low <= high")
        .join(prints_drained, [BUNDLE, "isolation", *PLACE[1:], "bucket"])
        .select(*_AT, "bucket", *[c for c in prints_drained.columns if c.startswith("all_")])
    )
    keys = [*_AT, "bucket"]
    missing = differing(expected, prints_read, keys)
    extra = differing(prints_read, expected, keys)
    differ = missing.select(*keys).unionByName(extra.select(*keys)).distinct()
    numbers = {"pair": F.xxhash64(*keys), "of_drain": _of_drain()}
    return differ.join(F.broadcast(ranges), _AT, "left").withColumns(numbers)


def _of_drain() -> Column:
    return F.xxhash64(BUNDLE, "isolation", *PLACE[1:], "bucket")


def _lined_up(read: DataFrame, drained: DataFrame, suspect: DataFrame) -> DataFrame:
    """What reader and drain returned at each offset of the suspect buckets. They are joined by numbers, because the
    exact keys are many and long."""
    mine = read.withColumn("bucket", offset_bucket()).withColumn("pair", F.xxhash64(*_AT, "bucket"))
    mine = mine.join(suspect.select("pair"), "pair", "left_semi")
    mine = mine.groupBy("pair", "offset", "stream", "seq").agg(
        F.min("intact").alias("intact"), F.min("leader_epoch").alias("oldest"), F.max("leader_epoch").alias("newest")
    )
    shown = drained.withColumn("bucket", offset_bucket()).withColumn("of_drain", _of_drain())
    shown = shown.groupBy("of_drain", "offset", "stream", "seq").agg(
        F.min("intact").alias("drain_intact"), F.max("leader_epoch").alias("drain_epoch")
    )
    within = F.coalesce(F.col("offset").between(F.col("low"), F.col("high")), F.lit(False))
    expected = (
        shown.withColumnsRenamed({"stream": "drain_stream", "seq": "drain_seq"})
        .join(suspect.select("pair", "of_drain", "kind", "low", "high"), "of_drain")
        # A live reader received nothing outside its range, and the range of a short read is a small part of a bucket.
        .where(within | (F.col("kind") != "live"))
        .select("pair", "offset", "drain_stream", "drain_seq", "drain_intact", "drain_epoch", within.alias("within"))
    )
    both = mine.join(expected, ["pair", "offset"], "full_outer").where("stream IS NOT NULL OR within")
    return both.join(suspect.select("pair", *_AT), "pair").drop("pair")


def _has_uncommitted(given: Prepared, prints: DataFrame) -> Column:
    """Whether anything was read with read_uncommitted in the run of a row, or should have been by the drain."""
    found = {row[BUNDLE] for row in prints.where(~is_committed()).select(BUNDLE).distinct().collect()}
    return F.col(BUNDLE).isin(found | given.drained_uncommitted)


def _between_drains(drained: DataFrame, prints: DataFrame) -> DataFrame:
    """Records that read_committed returns and read_uncommitted does not return at the same offset."""
    keys = [*PLACE, "bucket"]
    of = {flag: prints.where(is_committed() if flag else ~is_committed()).drop("isolation") for flag in (True, False)}
    suspect = differing(of[True], of[False], keys).select(*PLACE, F.xxhash64(*keys).alias("at"))
    suspect = F.broadcast(kept(suspect))
    rows = drained.withColumn("bucket", offset_bucket()).withColumn("at", F.xxhash64(*keys))
    rows = rows.join(suspect.select("at"), "at", "left_semi")
    sides = {
        flag: rows.where(is_committed() if flag else ~is_committed())
        .groupBy("at", "offset", "stream", "seq")
        .agg(F.min("intact").alias("intact"), F.min("reader").alias("reader"))
        for flag in (True, False)
    }
    all_of = sides[False].withColumnsRenamed(
        {"stream": "drain_stream", "seq": "drain_seq", "intact": "drain_intact", "reader": "drain_reader"}
    )
    return sides[True].join(all_of, ["at", "offset"], "left").join(suspect, "at").drop("at")
