"""replica_divergence on disk: the batches of a partition must be the same on every in-sync replica.

Only where the backend can read the brokers' files. Followers copy batches unchanged (leader epoch, producer, CRC). A
leader may leave offsets out, which are then missing on every replica; offsets that only some replicas have are a
divergence. For compacted topics see `compacted.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.schemas import Columns
from harness.verify.checks.disks import compacted
from harness.verify.engine.case import Case
from harness.verify.engine.kept import kept
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import Reason, found, union
from harness.verify.engine.tables import BUNDLE, PLACE, Values, frame
from harness.verify.excuses.config_history import compacted_until
from harness.verify.excuses.retention import may_delete
from harness.verify.promise import Check

# A damaged header may claim any range, so at most this many of its offsets are reported.
_NAMED_MAX: Final = 10_000
_COPY: Final = [*PLACE, "broker"]
_COPIES: Final[Columns] = {
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "broker": "int32",
    "start": "int64",  # of this replica's log
    "end": "int64",  # the high watermark, or the end of this replica's log if that is lower
    "moving": "bool",  # retention may have moved the start since, or older batches are only in the remote tier
}
_SAME: Final = (
    "last_offset",
    "count",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "control",
    "digest",
)


class OnDisk(Reason):
    """How the batches of replicas differ on their disks."""

    BATCH_DIFFERS = "batch_differs", "Replicas have different batches at one offset."
    BATCH_MISSING = "batch_missing", "A batch below the high watermark is not on every disk."
    BATCH_CRC = "batch_crc", "The CRC of a batch does not match."
    HOLE = "hole", "An offset is in no batch on one disk, and another disk has it."
    LACKING = "lacking", "A disk of a compacted topic lacks the newest value of a key."


def disks(given: Prepared) -> DataFrame:
    """Batches below the high watermark that differ, are missing on a replica, leave a hole, or fail their CRC."""
    copies = frame(given.spark, _COPIES, [row for n, case in enumerate(given.cases) for row in _copies(n, case)])
    read = given.batches.select(BUNDLE, "broker").distinct()  # disks that were not read prove nothing
    on_disk = given.batches.select(*_COPY, "base_offset", "crc_ok", *_SAME).join(F.broadcast(copies), _COPY)
    on_disk = kept(on_disk.where("base_offset < end AND last_offset >= start"))
    first = on_disk.groupBy(*_COPY).agg(F.min("base_offset").alias("first"))
    copies = copies.join(read, [BUNDLE, "broker"]).join(first, _COPY, "left")
    # Where retention is active, the first remaining batch shows how far it went; it may have deleted all.
    moved = F.when(F.col("first").isNull(), F.col("end")).otherwise(F.greatest("start", "first"))
    copies = copies.withColumn("from", F.when(F.col("moving"), moved).otherwise(F.col("start")))
    copies = kept(copies.where(F.col("from") < F.col("end")))
    compared = on_disk.join(F.broadcast(copies.select(*_COPY)), _COPY, "left_semi")
    common = copies.groupBy(*PLACE).agg(
        F.max("from").alias("common_from"),
        F.min("end").alias("common_end"),
        F.count("*").alias("copies"),
        F.bit_xor(F.xxhash64("broker")).alias("on_brokers"),
    )
    parts = [_different(compared, common), _holes(compared, copies), _damaged(on_disk)]
    return union([*parts, *_of_compacted(given)])


def _of_compacted(given: Prepared) -> list[DataFrame]:
    copies = compacted.compacted_copies(given)
    if copies is None:
        return []
    on_disk = compacted.on_disks(given, copies)
    wrong = compacted.different(on_disk)
    differs = _by_offset(wrong, F.col("base_offset"), F.col("last_offset"), F.lit(OnDisk.BATCH_DIFFERS), "brokers")
    lacking = compacted.lacking(given, on_disk, copies)
    lacks = _by_offset(lacking, F.col("offset"), F.col("offset"), F.lit(OnDisk.LACKING), "broker")
    return [differs, lacks, _damaged(on_disk)]


def _different(on_disk: DataFrame, common: DataFrame) -> DataFrame:
    shared = on_disk.drop("start", "end", "moving").join(F.broadcast(common), PLACE)
    shared = _suspect(shared.where("base_offset >= common_from AND last_offset < common_end"))
    grouped = shared.groupBy(*PLACE, "base_offset", "copies").agg(
        F.count_distinct(compacted.form(_SAME)).alias("forms"),
        F.count_distinct("broker").alias("brokers_n"),
        F.max("last_offset").alias("last_offset"),
        F.array_join(F.array_sort(F.collect_set(F.col("broker").cast("string"))), ", ").alias("brokers"),
    )
    wrong = grouped.where("forms > 1 OR brokers_n < copies")
    reason = F.when(F.col("forms") > 1, F.lit(OnDisk.BATCH_DIFFERS)).otherwise(F.lit(OnDisk.BATCH_MISSING))
    return _by_offset(wrong, F.col("base_offset"), F.col("last_offset"), reason, "brokers")


def _suspect(shared: DataFrame) -> DataFrame:
    """The batches at those offsets where replicas may differ: not each broker has exactly one batch, or these are not
    the same. Nearly all offsets are left out by comparing one number for each batch."""
    shared = shared.withColumn("at", F.xxhash64(*PLACE, "base_offset"))
    at = (
        shared.withColumn("form", F.xxhash64(compacted.form(_SAME)))
        .groupBy("at")
        .agg(
            (F.min("form") == F.max("form")).alias("same"),
            F.count("*").alias("n"),
            F.bit_xor(F.xxhash64("broker")).alias("brokers"),
            *[F.max(c).alias(c) for c in ("copies", "on_brokers")],
        )
    )
    suspect = F.broadcast(kept(at.where("NOT same OR n <> copies OR brokers <> on_brokers").select("at")))
    return shared.join(suspect, "at", "left_semi").drop("at")


def _holes(on_disk: DataFrame, copies: DataFrame) -> DataFrame:
    """Offsets that are in no batch on one broker and that another broker has."""
    lacking = _lacking(on_disk, copies)
    marks = [
        lacking.select(*_COPY, F.col("low").alias("at"), F.lit(1).alias("lacks"), F.lit(0).alias("copy")),
        lacking.select(*_COPY, (F.col("high") + 1).alias("at"), F.lit(-1).alias("lacks"), F.lit(0).alias("copy")),
        copies.select(*_COPY, F.col("from").alias("at"), F.lit(0).alias("lacks"), F.lit(1).alias("copy")),
        copies.select(*_COPY, F.col("end").alias("at"), F.lit(0).alias("lacks"), F.lit(-1).alias("copy")),
    ]
    # Only where some broker lacks offsets. Between two marks each broker has all or nothing.
    marked = union(marks).join(F.broadcast(lacking.select(*PLACE).distinct()), PLACE, "left_semi")
    marked = marked.groupBy(*_COPY, "at").agg(F.sum("lacks").alias("lacks"), F.sum("copy").alias("copy"))
    grid = marked.select(*PLACE, "at").distinct().join(F.broadcast(copies.select(*_COPY)), PLACE)
    lane = Window.partitionBy(*_COPY).orderBy("at")
    spans = grid.join(marked, [*_COPY, "at"], "left").select(
        *_COPY,
        F.col("at").alias("low"),
        (F.lead("at").over(lane) - 1).alias("high"),
        (F.sum(F.coalesce("lacks", F.lit(0))).over(lane) > 0).alias("lacks"),
        (F.sum(F.coalesce("copy", F.lit(0))).over(lane) > 0).alias("copy"),
    )
    holes = (
        spans.groupBy(*PLACE, "low", "high")
        .agg(
            F.count_if("lacks").alias("lacking_n"),
            F.count_if("copy").alias("copies_n"),
            F.collect_set(F.when(F.col("lacks"), F.col("broker"))).alias("lacking"),
        )
        .where("lacking_n > 0 AND lacking_n < copies_n")
        .withColumn("broker", F.explode("lacking"))
    )
    return _by_offset(holes, F.col("low"), F.col("high"), F.lit(OnDisk.HOLE), "broker")


def _lacking(on_disk: DataFrame, copies: DataFrame) -> DataFrame:
    """Offsets `low` to `high` that a broker lacks: before its first batch, between two, or after its last."""
    lane = Window.partitionBy(*_COPY).orderBy("base_offset")
    rows = on_disk.join(F.broadcast(copies.select(*_COPY, "from")), _COPY)
    expected = F.coalesce(F.lag("last_offset").over(lane) + 1, "from")
    before = rows.withColumn("low", expected).where("base_offset > low")
    before = before.select(*_COPY, "low", (F.col("base_offset") - 1).alias("high"))
    ends = on_disk.groupBy(*_COPY).agg((F.max("last_offset") + 1).alias("ended"))
    after = (
        copies.join(ends, _COPY, "left")
        .withColumn("low", F.coalesce("ended", "from"))
        .where(F.col("low") < F.col("end"))
    )
    return kept(before.unionByName(after.select(*_COPY, "low", (F.col("end") - 1).alias("high"))))


def _damaged(on_disk: DataFrame) -> DataFrame:
    return _by_offset(
        on_disk.where("NOT crc_ok"), F.col("base_offset"), F.col("last_offset"), F.lit(OnDisk.BATCH_CRC), "broker"
    )


def _by_offset(batches: DataFrame, low: Column, high: Column, reason: Column, broker: str) -> DataFrame:
    """One row for each offset, as in every finding."""
    bounded = F.least(F.greatest(low, high), low + _NAMED_MAX - 1)
    rows = batches.withColumn("offset", F.explode(F.sequence(low, bounded)))
    return found(rows, Kind.REPLICA_DIVERGENCE, reason, reader=F.concat(F.lit("broker "), F.col(broker).cast("string")))


def _copies(number: int, case: Case) -> Iterator[Values]:
    last = case.last_snapshot
    for p in last.partitions if last and case.complete else ():
        if p.high_watermark is None or compacted_until(case, p.topic) is not None:
            continue
        contract = case.contract.topics.get(p.topic)
        moving = may_delete(case, p.topic) or (contract is not None and contract.tiered)
        for log in p.logs:
            if log.broker in p.isr:
                end = min(p.high_watermark, log.log_end)
                place = (p.topic, p.topic_id, p.partition)
                yield number, *place, log.broker, log.log_start, end, moving


CHECK: Final = Check(
    promise="Every in-sync replica has the same batches on its disk.",
    seen={
        (Kind.REPLICA_DIVERGENCE, OnDisk.BATCH_DIFFERS): (
            "the batch at this offset differs between the disks of the replicas"
        ),
        (Kind.REPLICA_DIVERGENCE, OnDisk.BATCH_MISSING): (
            "the batch is below the high watermark and not on the disk of every replica"
        ),
        (Kind.REPLICA_DIVERGENCE, OnDisk.BATCH_CRC): "the batch on this broker's disk fails its CRC",
        (Kind.REPLICA_DIVERGENCE, OnDisk.HOLE): (
            "the offset is in no batch on this broker's disk, and another broker has it"
        ),
        (Kind.REPLICA_DIVERGENCE, OnDisk.LACKING): (
            "the record is the newest value of its key, which no cleaner may remove, and this broker's disk lacks it"
        ),
    },
    # Readers show best what differs. Of the batches, a damaged one may differ, and a missing one leaves a hole.
    finer={OnDisk.BATCH_CRC: 1, OnDisk.BATCH_DIFFERS: 2, OnDisk.BATCH_MISSING: 3, OnDisk.HOLE: 4, OnDisk.LACKING: 5},
    queries={"disks": disks},
    nothing_without={"disks": "batches"},
    planted=(
        "disk_with_another_batch",
        "disk_with_another_leader_epoch",
        "disk_with_a_broken_batch",
        "disk_without_a_batch",
        "disk_of_a_compacted_topic_without_a_value",
        "disk_of_a_compacted_topic_with_too_few_records",
        "disk_of_a_compacted_topic_with_another_leader_epoch",
        "disk_of_a_compacted_topic_with_a_broken_batch",
        "near_disk_of_a_compacted_topic",
        "near_disk_with_other_segments",
        "near_disk_not_read",
    ),
)
