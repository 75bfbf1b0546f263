"""Records that a live reader passed over, and that the log does not have any more after healing.

The drain shows what readers passed over as long as the log has it. Here the ledger does: what was acknowledged, and
committed for a read_committed reader, at an offset that a session passed. Only records that the drain lacks are looked
at, because retention, DeleteRecords or compaction removed them, or because it did not get so far.

An acknowledgement may name a wrong offset. So another reader must have received the record there; or what readers
received of its stream below and above it shows that the stream wrote one record to each offset in between. A record is
no finding if it may have been deleted before the reader passed it: by a later record of its key that was sent by then,
or by a log start that the evidence has for that time. A session has no such deletions otherwise, because a position
below the log start is out of range, and the next session begins where the client continues (FORMAT.md). Members of
groups with auto.offset.reset are left out: their client may continue elsewhere within a session.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.model.contract.contract import DELETE_RETENTION
from harness.model.documents.steps import LogStartSeen, RecordsDeleted, Step, TierLeft
from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.model.schemas import Columns
from harness.verify.checks.share_groups import members
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.case import Case
from harness.verify.engine.fingerprints import (
    OFFSET_BITS,
    OFFSETS,
    offset_bit,
    offset_bucket,
    offset_word,
    offsets_of_bucket,
)
from harness.verify.engine.kept import is_empty, kept, narrowed
from harness.verify.engine.prepared import Prepared, at_place
from harness.verify.engine.rows import PassedOver, found
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, UNBOUNDED, Values, frame, is_committed
from harness.verify.excuses.config_history import compacted_until, config_history

_SESSION: Final = [*PLACE, "reader", "isolation", "session"]
_COMPACTED: Final[Columns] = {"topic": "string", "tombstone_ns": "int64"}
_STARTS: Final[Columns] = {"topic": "string", "partition": "int32", "log_start": "int64", "known_ns": "int64"}
_DUE: Final = {"committed": "due_committed", "uncommitted": "due_uncommitted"}
_TOMBSTONE: Final = "null"
_ROWS_BEFORE: Final = (Window.unboundedPreceding, -1)


def by_ledger(drill: Drill, read: DataFrame) -> DataFrame | None:
    """Records that a session of a live reader passed over, and that were still in the log when it did so.

    read: `fingerprints.reader_buckets`. Offsets are compared as bits, by bucket; only what differs is looked at row by
    row.
    """
    given = drill.given
    missing = _missing(drill)
    due = {of: [f"{of}_{n}" for n in range(len(OFFSETS))] for of in _DUE}
    bits = [
        bit.alias(name)
        for of, flag in _DUE.items()
        for bit, name in zip(offsets_of_bucket(F.col(flag)), due[of], strict=True)
    ]
    wanted = kept(missing.groupBy(*PLACE, offset_bucket().alias("bucket")).agg(*bits))
    if is_empty(wanted):
        return None
    suspects = kept(_suspects(given, read, wanted, due))
    if is_empty(suspects):
        return None
    rows = missing.withColumns({"bucket": offset_bucket(), "word": offset_word()})
    rows = rows.join(F.broadcast(suspects), [*PLACE, "bucket"])
    lacking = F.element_at(F.array(*OFFSETS), (F.col("word") + 1).cast("int")).bitwiseAND(offset_bit()) != 0
    mine = F.when(is_committed(), F.col("due_committed")).otherwise(F.col("due_uncommitted"))
    rows = _confirmed(kept(rows.where(lacking & mine).drop("bucket", "word", *OFFSETS)), given)
    return found(_still_there(kept(rows), given), Kind.SKIPPED_READ, PassedOver.ONE)


def _missing(drill: Drill) -> DataFrame:
    """Acknowledged records that the drain does not return, with the readers' isolation for which that is not judged
    by a comparison with the drain: deleted, possibly compacted, or not reached."""
    given = drill.given
    reported = (F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull() & F.col("deleted_ns").isNull()
    sent = drill.sent.where(reported & given.complete).join(drill.shown, RECORD, "left")
    compacted = frame(
        given.spark, _COMPACTED, [(n, *row) for n, case in enumerate(given.cases) for row in _compacted(case)]
    )
    rows = at_place(sent, given.places).join(F.broadcast(compacted), [BUNDLE, "topic"], "left")
    deleted = F.coalesce(F.col("offset") < F.col("log_start"), F.lit(False)) | F.col("tombstone_ns").isNotNull()
    passed = {of: F.coalesce(F.col(of) > F.col("offset"), F.col(f"{of}_reached"), F.lit(False)) for of in _DUE}
    of_committed, of_uncommitted = (F.coalesce(flag, F.lit(False)) for flag in ("rc", "ru"))
    rows = rows.withColumns(
        {
            _DUE["committed"]: F.col("promised") & ~of_committed & (deleted | ~passed["committed"]),
            _DUE["uncommitted"]: ~of_committed & ~of_uncommitted & (deleted | ~passed["uncommitted"]),
        }
    )
    known = [*RECORD, *PLACE[1:], "offset", "txn_id", "key_hash", "value", "called_ns", "tombstone_ns"]
    known += _DUE.values()
    return rows.where(reduce(or_, map(F.col, _DUE.values()))).select(*known)


def _compacted(case: Case) -> Iterator[Values]:
    """Topics that compaction may have removed records of, and after how long it may remove tombstones."""
    for name, contract in case.contract.topics.items():
        if compacted_until(case, name) is not None:
            periods = config_history(case, name, DELETE_RETENTION)
            least_ms = min(
                contract.delete_retention_ms if period.value is None else int(period.value) for period in periods
            )
            yield name, min(least_ms * 10**6, UNBOUNDED)


def _suspects(given: Prepared, read: DataFrame, wanted: DataFrame, due: dict[str, list[str]]) -> DataFrame:
    """Buckets with offsets, as bits, that are due to a session, strictly between its first and last record, and that
    it did not receive."""
    resets = [(n, r.reader) for n, case in enumerate(given.cases) for r in case.contract.readers.values() if r.reset]
    live = read.where((F.col("kind") == "live") & given.complete)
    live = live.join(F.broadcast(frame(given.spark, {"reader": "string"}, resets)), [BUNDLE, "reader"], "left_anti")
    live = live.join(members(given), [*PLACE, "reader"], "left_anti")
    sessions = live.groupBy(*_SESSION).agg(F.min("low").alias("low"), F.max("high").alias("high"))
    pairs = sessions.join(F.broadcast(wanted), PLACE).where(
        F.col("bucket").between(F.shiftright("low", OFFSET_BITS), F.shiftright("high", OFFSET_BITS))
    )
    pairs = pairs.join(live.select(*_SESSION, "bucket", *OFFSETS), [*_SESSION, "bucket"], "left")
    lacking = {}
    for n, have in enumerate(OFFSETS):
        base = F.shiftleft("bucket", OFFSET_BITS) + 64 * n
        between = _from(F.col("low") + 1 - base).bitwiseAND(F.bitwise_not(_from(F.col("high") - base)))
        of_reader = F.when(is_committed(), F.col(due["committed"][n])).otherwise(F.col(due["uncommitted"][n]))
        lacking[have] = of_reader.bitwiseAND(F.bitwise_not(F.coalesce(have, F.lit(0)))).bitwiseAND(between)
    rows = pairs.withColumns(lacking).where(reduce(or_, (F.col(c) != 0 for c in OFFSETS)))
    return rows.select(*_SESSION, "bucket", *OFFSETS)


def _from(first: Column) -> Column:
    """A word with the bits from this one on."""
    every = F.lit(-1).cast("bigint")
    within = F.call_function("shiftleft", every, F.least(F.greatest(first, F.lit(0)), F.lit(63)).cast("int"))
    return F.when(first >= 64, F.lit(0).cast("bigint")).otherwise(within)


def _confirmed(rows: DataFrame, given: Prepared) -> DataFrame:
    """Those of the rows, a kept result, with records that were certainly at the acknowledged offset."""
    streams = rows.select(BUNDLE, "stream").distinct()
    seen = (
        narrowed(given.observations, rows, "stream")
        .where("intact")
        .join(F.broadcast(streams), [BUNDLE, "stream"], "left_semi")
    )
    seen = seen.groupBy(*RECORD, *PLACE[1:]).agg(
        F.min("offset").alias("least"), F.max("offset").alias("most"), F.max(is_committed()).alias("by_committed")
    )
    acked = rows.select(*RECORD, *PLACE[1:], F.col("offset").alias("acked")).distinct()
    both = seen.join(acked, [*RECORD, *PLACE[1:]], "full_outer")
    by_stream = Window.partitionBy(*PLACE, "stream")
    shift = F.when(F.col("least") == F.col("most"), F.col("least") - F.col("seq"))
    # Both over the rows before: over all rows that follow, Spark would look at each of them anew for each row.
    below = F.last(shift, ignorenulls=True).over(by_stream.orderBy("seq").rowsBetween(*_ROWS_BEFORE))
    above = F.last(shift, ignorenulls=True).over(by_stream.orderBy(F.desc("seq")).rowsBetween(*_ROWS_BEFORE))
    both = both.withColumns({"below": below, "above": above}).where("acked IS NOT NULL")
    all_acks = given.streams.where("acks = 'all'").select(BUNDLE, "stream", F.lit(True).alias("all_acks"))
    both = both.join(F.broadcast(all_acks), [BUNDLE, "stream"], "left")
    expected = F.col("acked") - F.col("seq")
    between = F.col("least").isNull() & F.col("all_acks") & (F.col("below") == expected) & (F.col("above") == expected)
    there = (F.col("least") == F.col("acked")) & (F.col("most") == F.col("acked"))
    both = both.select(
        *RECORD,
        *PLACE[1:],
        F.coalesce(there, F.lit(False)).alias("there"),
        F.coalesce(there & F.col("by_committed"), F.lit(False)).alias("there_committed"),
        F.coalesce(between, F.lit(False)).alias("between"),
    )
    joined = rows.join(both, [*RECORD, *PLACE[1:]])
    visible = F.when(is_committed() & F.col("txn_id").isNotNull(), F.col("there_committed")).otherwise(F.col("there"))
    return joined.where(visible | F.col("between")).drop("there", "there_committed", "between")


def _still_there(rows: DataFrame, given: Prepared) -> DataFrame:
    """Those of the rows, a kept result, with records that nothing can have deleted before the reader passed them."""
    if is_empty(rows):
        return rows
    timed = kept(_timed(rows, given).where("passed_ns IS NOT NULL"))
    starts = [(n, *row) for n, case in enumerate(given.cases) for row in _starts(case)]
    known = F.broadcast(frame(given.spark, _STARTS, starts).alias("known"))
    same = [F.col(f"passed.{c}") == F.col(f"known.{c}") for c in (BUNDLE, "topic", "partition")]
    earlier = [F.col("known.log_start") > F.col("passed.offset"), F.col("known.known_ns") <= F.col("passed.passed_ns")]
    stays = timed.alias("passed").join(known, [*same, *earlier], "left_anti")
    age_ns = F.col("passed_ns") - F.col("called_ns")
    expired = F.col("value").eqNullSafe(_TOMBSTONE) & (age_ns >= F.col("tombstone_ns"))
    stays = stays.where(~F.coalesce(expired, F.lit(False)))
    keyed = kept(timed.where("tombstone_ns IS NOT NULL"))
    if is_empty(keyed):
        return stays
    later = narrowed(given.ledger, keyed, "topic_id", "partition", "key_hash")
    later = later.where(F.col("key_hash").isNotNull() & (F.col("outcome") != Outcome.REFUSED.value))
    later = later.select(*PLACE, "key_hash", "offset", "called_ns").alias("later")
    same = [F.col(f"passed.{c}") == F.col(f"later.{c}") for c in (*PLACE, "key_hash")]
    earlier = [
        F.col("passed.tombstone_ns").isNotNull(),
        F.col("later.called_ns") <= F.col("passed.passed_ns"),
        F.coalesce(F.col("later.offset") > F.col("passed.offset"), F.lit(True)),
    ]
    return stays.alias("passed").join(later, [*same, *earlier], "left_anti")


def _timed(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with `passed_ns`: when the session received its next record. Null for a reader that received records above
    that offset for the second time, or does not say when."""
    sessions = rows.select(*_SESSION).distinct()
    received = narrowed(given.observations, rows, "reader", "session").where("given_ns IS NOT NULL")
    received = received.join(F.broadcast(sessions), _SESSION, "left_semi").select(*_SESSION, "offset", "given_ns")
    both = rows.unionByName(received, allowMissingColumns=True)
    above = Window.partitionBy(*_SESSION).orderBy(F.desc("offset")).rowsBetween(*_ROWS_BEFORE)
    return both.withColumn("passed_ns", F.min("given_ns").over(above)).where("stream IS NOT NULL").drop("given_ns")


def _starts(case: Case) -> Iterator[Values]:
    """Log starts above 0, with a time at which the log may have begun there already."""
    for snapshot in case.cluster.snapshots:
        for p in snapshot.partitions:
            start = max((log.log_start for log in p.logs), default=0)
            if start > 0:
                yield p.topic, p.partition, start, snapshot.at_ns
    for seen, _ in case.events(LogStartSeen):
        yield seen.topic, seen.partition, seen.log_start, seen.at_ns
    deletions: list[tuple[RecordsDeleted | TierLeft, Step]] = []
    deletions += case.events(RecordsDeleted)
    deletions += case.events(TierLeft)
    for event, step in deletions:
        at_ns = min(event.at_ns, step.started_ns or event.at_ns)
        yield event.topic, event.partition, event.before_offset, at_ns
