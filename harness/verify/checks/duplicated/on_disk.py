"""Records that a leader appended twice, where the log start has passed the first copy: readers get the second one.

A leader keeps the newest sequence numbers of a producer although DeleteRecords or retention removes the records, so
that it recognises a batch that is sent again (KIP-360, KAFKA-7190). Until its segment is deleted, the first copy is on
the disk: a log never has two batches of one producer, epoch and sequence number.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.kept import kept, narrowed
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import found
from harness.verify.engine.tables import PLACE, RECORD, is_drain

_BATCH: Final = [*PLACE, "broker", "producer_id", "producer_epoch", "base_sequence", "count"]


def appended_again(given: Prepared) -> DataFrame:
    """The records of each such second batch that were read back."""
    shortened = F.broadcast(given.places.where("log_start > 0").select(*PLACE, "log_start"))
    sent = given.batches.where("producer_id >= 0 AND base_sequence >= 0 AND control IS NULL")
    sent = sent.join(shortened, PLACE).select(*_BATCH, "base_offset", "last_offset", "log_start")
    below = sent.where("last_offset < log_start").groupBy(*_BATCH).agg(F.max("base_offset").alias("first_base"))
    again = sent.where("base_offset >= log_start").join(below, _BATCH)
    again = kept(again.groupBy(*PLACE, "base_offset", "last_offset").agg(F.max("first_base").alias("first_base")))
    read = narrowed(given.observations, again, "topic_id", "partition").where(is_drain())
    rows = read.select(*RECORD, *PLACE[1:], "offset").distinct().join(F.broadcast(again), PLACE)
    rows = rows.where(F.col("offset").between(F.col("base_offset"), F.col("last_offset")) & (F.col("stream") >= 0))
    rows = rows.withColumn("first", F.col("first_base") + F.col("offset") - F.col("base_offset"))
    return found(rows, Kind.DUPLICATED, reader=None, other="first")
