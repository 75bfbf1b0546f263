"""vanished: a reader saw it, whatever its outcome, and it is gone."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.compare import Compared
from harness.verify.engine.prepared import at_place, is_committed
from harness.verify.engine.rows import found
from harness.verify.engine.tables import PLACE


def vanished(compared: Compared) -> DataFrame:
    """Records that a live reader was given and the drain of the same isolation passes over.

    Readers are given what is below the high watermark, so it may never go. Left out: what lies below the log's start
    now, and what the drain did not come to. Gone is also what stands there again, written by a later leader: a batch
    keeps its leader epoch (KIP-101), so the one that the reader saw was cut off.
    """
    rows = at_place(compared.unshown.where("kind = 'live'"), compared.given.places)
    # read_committed shows it there, so it is not gone: the other drain skipped it.
    there = compared.drains.where("drain_stream IS NULL").select(*PLACE, "offset", "stream", "seq")
    rows = rows.join(there, [*PLACE, "offset", "stream", "seq"], "left_anti")
    position = F.when(is_committed(), F.col("committed")).otherwise(F.col("uncommitted"))
    passed = F.coalesce((position > F.col("offset")) | (F.col("log_end") <= F.col("offset")), F.lit(False))
    rows = rows.where(passed & (F.col("offset") >= F.col("log_start")))
    # Of an aborted transaction it is another kind, which shows once its send is known.
    reason = F.when(is_committed(), F.lit("gone_committed")).otherwise(F.lit("gone"))
    again = found(compared.moved.where("kind = 'live'"), Kind.VANISHED, "written_again", other="drain_epoch")
    return found(rows, Kind.VANISHED, reason).unionByName(again)
