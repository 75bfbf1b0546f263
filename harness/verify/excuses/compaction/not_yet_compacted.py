"""Records that no cleaner can have removed, whatever was written to their key later.

A cleaner does not touch the active segment (KIP-58), keeps the offsets of what it leaves, and gives none of them to
another record. So it did not remove a record in any of these cases: the record is in the last segment of every copy;
its offset holds another record; a disk still has it.

The last segment of every copy counts, because a follower that was behind has in its own segment what the leader's
cleaner left. Nothing is known about a copy that was rebuilt, or truncated with permission: its last segment may
have been closed, and cleaned, before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.documents.reads import Read
from harness.model.documents.steps import UncleanElection
from harness.model.errors import BadEvidence
from harness.model.facts import FactKind
from harness.model.finding import Kind
from harness.model.schemas import Columns
from harness.verify.engine.case import NO_BROKER, Case, Place
from harness.verify.engine.elections import leader_changes
from harness.verify.engine.kept import kept
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import union
from harness.verify.engine.steps import facts_in
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, Values, frame, is_committed
from harness.verify.excuses.client_faults import within

LEADERS: Final = -1  # the copy that the drain reads
OF_THE_DRAIN: Final = "the read_uncommitted drain"
_ANY: Final = -2  # any copy that served a live reader
_DISKS: Final[Columns] = {
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "lacking_copy": "int32",
    "broker": "int32",
    "cut_to": "int64",  # start of a later leader, below which the last segment may have been closed before
}
_AT: Final = [*RECORD, *PLACE[1:], "at", "lacking_copy"]
_COPY: Final = [*PLACE, "broker"]


def not_cleaned(rows: DataFrame, given: Prepared, topics: DataFrame) -> DataFrame:
    """Rows with `uncleaned`. `copy` is the copy that lacks the record; `extra`: only that copy has it.

    topics: the compacted ones.
    """
    by_reader = (F.col("kind") == Kind.SKIPPED_READ.value) & ~_of_the_drain()
    lacking_copy = F.when(by_reader, F.lit(_ANY)).when(F.col("extra"), F.lit(LEADERS)).otherwise(F.col("copy"))
    rows = kept(rows.withColumns({"lacking_copy": lacking_copy, "at": F.coalesce("offset", F.lit(-1))}))
    reported = kept(_reported_twice(rows, given, topics))
    disks = frame(
        given.spark, _DISKS, [(n, *row) for n, case in enumerate(given.cases) for row in _disks_of_copies(case)]
    )
    batches = given.batches.where("broker >= 0").join(topics, [BUNDLE, "topic"], "left_semi")
    uncleaned = union(
        [
            _in_the_last_segment(reported, disks, batches),
            _overwritten(reported, given, topics),
            _under_a_marker(reported, disks, batches),
            _on_disk(reported, disks, batches),
        ]
    )
    uncleaned = uncleaned.distinct().withColumn("uncleaned", F.lit(True))
    joined = rows.join(uncleaned, _AT, "left").drop("lacking_copy", "at")
    return joined.withColumn("uncleaned", F.coalesce("uncleaned", F.lit(False)))


def _of_the_drain() -> Column:
    return F.col("reader").eqNullSafe(OF_THE_DRAIN)


def _reported_twice(rows: DataFrame, given: Prepared, topics: DataFrame) -> DataFrame:
    """Each row once, with `between`: one read of a copy returns the record and another does not, so it would have
    been removed between the two."""
    reported = rows.groupBy(*_AT).agg(
        F.max("called_ns").alias("called_ns"),
        F.max("returned_ns").alias("returned_ns"),
        F.max((F.col("kind") == Kind.SKIPPED_READ.value) & _of_the_drain()).alias("by_drain"),
    )
    shown = _read(given, topics).where(~is_committed()).select(*RECORD, "lacking_copy").distinct()
    reported = reported.join(shown.withColumn("still", F.lit(True)), [*RECORD, "lacking_copy"], "left")
    return reported.withColumn("between", F.col("by_drain") | F.coalesce("still", F.lit(False))).drop(
        "by_drain", "still"
    )


def _read(given: Prepared, topics: DataFrame) -> DataFrame:
    """Observations of every copy after healing."""
    read = given.observations.where(F.col("kind").isin("drain", "replica")).join(topics, [BUNDLE, "topic"], "left_semi")
    return read.withColumn("lacking_copy", F.when(F.col("kind") == "drain", F.lit(LEADERS)).otherwise(F.col("replica")))


def _in_the_last_segment(reported: DataFrame, disks: DataFrame, batches: DataFrame) -> DataFrame:
    last = batches.groupBy(*_COPY).agg(F.max("segment").alias("segment"))
    all_copies = F.broadcast(disks.where(F.col("lacking_copy") == _ANY)).join(last, _COPY, "left")
    active = all_copies.groupBy(*PLACE).agg(
        F.greatest(F.max("segment"), F.max("cut_to")).alias("from"),
        F.count_if(F.col("segment").isNull()).alias("unread_n"),
    )
    active = active.where("unread_n = 0").select(*PLACE, "from")
    return reported.join(F.broadcast(active), PLACE).where("at >= from").select(*_AT)


def _overwritten(reported: DataFrame, given: Prepared, topics: DataFrame) -> DataFrame:
    """Another record with a later acknowledgement is at this offset. An earlier one means that the client reported a
    wrong offset, see `wrong_ack_offset`."""
    stands = (
        _read(given, topics).select(*PLACE, F.col("offset").alias("at"), "lacking_copy", "stream", "seq").distinct()
    )
    stands = stands.withColumnsRenamed({"stream": "other_stream", "seq": "other_seq"})
    others = reported.join(stands, [*PLACE, "at", "lacking_copy"])
    others = others.where("other_stream <> stream OR other_seq <> seq")
    sends = given.ledger.select(
        BUNDLE,
        F.col("stream").alias("other_stream"),
        F.col("seq").alias("other_seq"),
        F.col("returned_ns").alias("other_ns"),
    )
    others = others.join(sends, [BUNDLE, "other_stream", "other_seq"], "left")
    return others.where(F.coalesce(F.col("other_ns") > F.col("returned_ns"), F.lit(True))).select(*_AT)


def _under_a_marker(reported: DataFrame, disks: DataFrame, batches: DataFrame) -> DataFrame:
    """A transaction marker that was written later is at this offset."""
    markers = batches.where("control IN ('commit', 'abort') AND count > 0")
    markers = markers.select(*_COPY, F.col("base_offset").alias("at"), "max_timestamp_ms")
    under = reported.join(F.broadcast(disks), [*PLACE, "lacking_copy"]).join(markers, [*_COPY, "at"])
    return under.where("max_timestamp_ms >= returned_ns DIV 1000000").select(*_AT)


def _on_disk(reported: DataFrame, disks: DataFrame, batches: DataFrame) -> DataFrame:
    """Rows whose record is still on disk: every copy that may lack it has a whole batch with it.

    A batch that a cleaner shrank proves nothing. For a record that was removed between two reads it suffices that no
    disk that was read lacks it.
    """
    whole = batches.where("control IS NULL AND count = last_offset - base_offset + 1")
    whole = whole.select(*_COPY, "base_offset", "last_offset", "max_timestamp_ms")
    wanted = reported.select(*PLACE, F.col("at").alias("offset")).distinct()
    at = F.col("offset").alias("at")
    held = within(whole, wanted).groupBy(*_COPY, at).agg(F.max("max_timestamp_ms").alias("youngest_ms"))
    looked_at = batches.select(*_COPY).distinct().withColumn("looked_at", F.lit(True))
    copies = reported.join(F.broadcast(disks), [*PLACE, "lacking_copy"], "left").join(held, [*_COPY, "at"], "left")
    copies = copies.join(F.broadcast(looked_at), _COPY, "left")
    # An older record is at an offset that the client reported wrongly.
    has = F.coalesce(F.expr("youngest_ms >= called_ns DIV 1000000"), F.lit(False))
    lacks = ~has & F.coalesce("looked_at", F.lit(False))
    by_row = copies.groupBy(*_AT, "between").agg(F.min(has).alias("all_have"), F.max(lacks).alias("some_lack"))
    return by_row.where("all_have OR (between AND NOT some_lack)").select(*_AT)


def _disks_of_copies(case: Case) -> Iterator[Values]:
    """The disks that show the contents of each copy, for every place."""
    rebuilt = any(facts_in(case.steps, FactKind.COPIES_REBUILT))
    replicas: dict[tuple[str, str, int], set[int]] = {}
    for snapshot in case.cluster.snapshots:
        for row in snapshot.partitions:
            replicas.setdefault(row.place, {NO_BROKER} if rebuilt else set()).update(row.replicas)
    for place, brokers in replicas.items():
        cut_to = _cut_to(case, place)
        yield from ((*place, _ANY, broker, cut_to) for broker in sorted(brokers))
        yield from ((*place, broker, broker, cut_to) for broker in sorted(brokers - {NO_BROKER}))
        drains = [read for read in case.reads if read.kind == "drain" and read.place == place]
        served = {broker for read in drains for broker in _served_by(read)}
        yield from ((*place, LEADERS, broker, cut_to) for broker in sorted(served))


def _served_by(read: Read) -> Sequence[int]:
    """Unknown brokers must not pass for none: then no disk would show that a record was not compacted."""
    if read.served_by is None:
        where = f"the read {read.reader} of {read.topic}/{read.partition}"
        raise BadEvidence(f"reads.json: {where} has no 'served_by', which compacted topics need; add it and seal again")
    return read.served_by


def _cut_to(case: Case, place: Place) -> int:
    """The highest offset at which a leader started, if one of the leaders may have truncated what in-sync replicas
    had."""
    topic, topic_id, partition = place
    by_step = any((e.topic, e.partition) == (topic, partition) for e, _ in case.events(UncleanElection))
    changes = [change for change in leader_changes(case) if change.concerns(topic, partition, topic_id)]
    if not by_step and not any(change.unclean for change in changes):
        return 0
    lineages = [row for row in case.cluster.lineages if (row.topic, row.partition) == (topic, partition)]
    return max((start for row in lineages for _, start in row.epochs), default=0)
