"""What no cleaner has taken, whatever was written to its key later.

A cleaner leaves the segment alone that is written (KIP-58), keeps the offsets of what it leaves, and gives none of them
to another record. So it took nothing that lies in the last segment of every copy, in whose place another record stands,
or that a disk still has.

It is the last segment of every copy that counts: a follower that was behind has in its own what the leader's cleaner
left. Nothing is known of a copy that was made anew, or of one whose end was cut off where that is permitted: its last
segment may have been closed, and cleaned, before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.schemas import Columns
from harness.verify.engine.case import Case, place_of
from harness.verify.engine.prepared import Prepared, is_committed
from harness.verify.engine.rows import union
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, frame
from harness.verify.excuses.client_faults import within

LEADERS: Final = -1  # the copy that the drain reads
OF_THE_DRAIN: Final = "the read_uncommitted drain"
_ANY: Final = -2  # whichever copy a live reader was given
_NOBODY: Final = -1  # a broker that has no disk
# Steps after which a copy may have been fetched again from others, or lack what it had.
_MADE_ANEW: Final = frozenset(
    {"damage", "disk_failed", "lose_tail", "move_log_dirs", "power_loss", "reassign", "reassign_away"}
)
_LACKERS: Final[Columns] = {
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "lacked": "int32",
    "broker": "int32",
    "cut_to": "int64",  # where a later leader began, below which the last segment may have been closed before
}
_AT: Final = [*RECORD, *PLACE[1:], "at", "lacked"]
_COPY: Final = [*PLACE, "broker"]


def not_cleaned(rows: DataFrame, given: Prepared, topics: DataFrame) -> DataFrame:
    """Rows with `uncleaned`. Of each, `copy` is the one that shows it missing, `extra` whether that copy has it alone.

    topics: the compacted ones.
    """
    by_reader = (F.col("kind") == Kind.SKIPPED_READ.value) & ~_of_the_drain()
    lacked = F.when(by_reader, F.lit(_ANY)).when(F.col("extra"), F.lit(LEADERS)).otherwise(F.col("copy"))
    rows = rows.withColumns({"lacked": lacked, "at": F.coalesce("offset", F.lit(-1))}).localCheckpoint()
    reported = _reported_twice(rows, given, topics).localCheckpoint()
    lackers = frame(given.spark, _LACKERS, [(n, *row) for n, case in enumerate(given.cases) for row in _lackers(case)])
    batches = given.batches.where("broker >= 0").join(topics, [BUNDLE, "topic"], "left_semi")
    uncleaned = union(
        [
            _in_the_last_segment(reported, lackers, batches),
            _overwritten(reported, given, topics),
            _under_a_marker(reported, lackers, batches),
            _on_disk(reported, lackers, batches),
        ]
    )
    uncleaned = uncleaned.distinct().withColumn("uncleaned", F.lit(True))
    joined = rows.join(uncleaned, _AT, "left").drop("lacked", "at")
    return joined.withColumn("uncleaned", F.coalesce("uncleaned", F.lit(False)))


def _of_the_drain() -> Column:
    return F.col("reader").eqNullSafe(OF_THE_DRAIN)


def _reported_twice(rows: DataFrame, given: Prepared, topics: DataFrame) -> DataFrame:
    """Rows, each once, with `between`: one read of a copy shows it and another one does not. It must have gone between
    the two."""
    reported = rows.groupBy(*_AT).agg(
        F.max("called_ns").alias("called_ns"),
        F.max("returned_ns").alias("returned_ns"),
        F.max((F.col("kind") == Kind.SKIPPED_READ.value) & _of_the_drain()).alias("by_drain"),
    )
    shown = _read(given, topics).where(~is_committed()).select(*RECORD, "lacked").distinct()
    reported = reported.join(shown.withColumn("still", F.lit(True)), [*RECORD, "lacked"], "left")
    return reported.withColumn("between", F.col("by_drain") | F.coalesce("still", F.lit(False))).drop(
        "by_drain", "still"
    )


def _read(given: Prepared, topics: DataFrame) -> DataFrame:
    """What was read of every copy after healing."""
    read = given.observations.where(F.col("kind").isin("drain", "replica")).join(topics, [BUNDLE, "topic"], "left_semi")
    return read.withColumn("lacked", F.when(F.col("kind") == "drain", F.lit(LEADERS)).otherwise(F.col("replica")))


def _in_the_last_segment(reported: DataFrame, lackers: DataFrame, batches: DataFrame) -> DataFrame:
    last = batches.groupBy(*_COPY).agg(F.max("segment").alias("segment"))
    everybody = F.broadcast(lackers.where(F.col("lacked") == _ANY)).join(last, _COPY, "left")
    active = everybody.groupBy(*PLACE).agg(
        F.greatest(F.max("segment"), F.max("cut_to")).alias("from"), F.count_if(F.col("segment").isNull()).alias("mute")
    )
    active = active.where("mute = 0").select(*PLACE, "from")
    return reported.join(F.broadcast(active), PLACE).where("at >= from").select(*_AT)


def _overwritten(reported: DataFrame, given: Prepared, topics: DataFrame) -> DataFrame:
    """Another record stands there that was acknowledged later. One of before tells that the client was told a wrong
    offset, see `wrong_ack_offset`."""
    stands = _read(given, topics).select(*PLACE, F.col("offset").alias("at"), "lacked", "stream", "seq").distinct()
    stands = stands.withColumnsRenamed({"stream": "other_stream", "seq": "other_seq"})
    others = reported.join(stands, [*PLACE, "at", "lacked"])
    others = others.where("other_stream <> stream OR other_seq <> seq")
    sends = given.ledger.select(
        BUNDLE,
        F.col("stream").alias("other_stream"),
        F.col("seq").alias("other_seq"),
        F.col("returned_ns").alias("other_ns"),
    )
    others = others.join(sends, [BUNDLE, "other_stream", "other_seq"], "left")
    return others.where(F.coalesce(F.col("other_ns") > F.col("returned_ns"), F.lit(True))).select(*_AT)


def _under_a_marker(reported: DataFrame, lackers: DataFrame, batches: DataFrame) -> DataFrame:
    """The marker of a transaction stands there that was written later."""
    markers = batches.where("control IN ('commit', 'abort') AND count > 0")
    markers = markers.select(*_COPY, F.col("base_offset").alias("at"), "max_timestamp_ms")
    under = reported.join(F.broadcast(lackers), [*PLACE, "lacked"]).join(markers, [*_COPY, "at"])
    return under.where("max_timestamp_ms >= returned_ns DIV 1000000").select(*_AT)


def _on_disk(reported: DataFrame, lackers: DataFrame, batches: DataFrame) -> DataFrame:
    """In a whole batch on the disk of whoever may have lacked it; a batch of which a cleaner took some tells nothing.

    What went between two reads must be missing on a disk that somebody has looked at.
    """
    whole = batches.where("control IS NULL AND count = last_offset - base_offset + 1")
    whole = whole.select(*_COPY, "base_offset", "last_offset", "max_timestamp_ms")
    wanted = reported.select(*PLACE, F.col("at").alias("offset")).distinct()
    at = F.col("offset").alias("at")
    held = within(whole, wanted).groupBy(*_COPY, at).agg(F.max("max_timestamp_ms").alias("youngest_ms"))
    looked_at = batches.select(*_COPY).distinct().withColumn("looked_at", F.lit(True))
    copies = reported.join(F.broadcast(lackers), [*PLACE, "lacked"], "left").join(held, [*_COPY, "at"], "left")
    copies = copies.join(F.broadcast(looked_at), _COPY, "left")
    # An older one lies where the client was told a wrong offset.
    has = F.coalesce(F.expr("youngest_ms >= called_ns DIV 1000000"), F.lit(False))
    lacks = ~has & F.coalesce("looked_at", F.lit(False))
    by_row = copies.groupBy(*_AT, "between").agg(F.min(has).alias("all_have"), F.max(lacks).alias("some_lack"))
    return by_row.where("all_have OR (between AND NOT some_lack)").select(*_AT)


def _lackers(case: Case) -> Iterator[tuple[Any, ...]]:
    """Whose disk tells of each copy, of every place."""
    anew = any(step["do"] in _MADE_ANEW for step in case.steps)
    replicas: dict[tuple[str, str, int], set[int]] = {}
    for snapshot in case.cluster["snapshots"]:
        for row in snapshot["partitions"]:
            replicas.setdefault(place_of(row), {_NOBODY} if anew else set()).update(row["replicas"])
    for place, brokers in replicas.items():
        cut_to = _cut_to(case, place[0], place[2])
        yield from ((*place, _ANY, broker, cut_to) for broker in sorted(brokers))
        yield from ((*place, broker, broker, cut_to) for broker in sorted(brokers - {_NOBODY}))
        drains = [read for read in case.reads if read["kind"] == "drain" and place_of(read) == place]
        served = {broker for read in drains for broker in read["served_by"]}
        yield from ((*place, LEADERS, broker, cut_to) for broker in sorted(served))


def _cut_to(case: Case, topic: str, partition: int) -> int:
    """The highest offset at which a leader began, where one of them may have cut off what others had in sync."""
    unclean = [event for event, _ in case.events("unclean_election")]
    unclean += [event for event, _ in case.events("leader_change") if event.get("clean") is False]
    if not any((event["topic"], event["partition"]) == (topic, partition) for event in unclean):
        return 0
    lineages = [row for row in case.cluster["lineages"] if (row["topic"], row["partition"]) == (topic, partition)]
    return max((start for row in lineages for _, start in row["epochs"]), default=0)
