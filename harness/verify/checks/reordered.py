"""reordered: a later sequence number of one stream is at a lower offset."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.case import UNCOMMITTED
from harness.verify.engine.prepared import Prepared, is_committed
from harness.verify.engine.rows import found
from harness.verify.engine.tables import BUNDLE, PLACE


def reordered(given: Prepared) -> DataFrame:
    """Records that are below an earlier record of their stream on the same partition.

    The first of several copies counts: a later copy is a duplicate, not a reordering.
    """
    rows = given.observations.where(_widest_read(given) & F.col("intact") & (F.col("stream") >= 0))
    rows = rows.select(*PLACE, "offset", "stream", "seq")
    lane = Window.partitionBy(BUNDLE, "stream", *PLACE[1:]).orderBy("seq", "offset")
    first = rows.withColumn("again", F.lag("seq").over(lane).eqNullSafe(F.col("seq"))).where("NOT again")
    before = lane.rowsBetween(Window.unboundedPreceding, -1)
    ranked = first.withColumn("highest", F.max("offset").over(before)).where("offset < highest")
    return found(ranked, Kind.REORDERED, other="highest")


def _widest_read(given: Prepared) -> Column:
    """The widest drain of a run; for a run that did not finish, everything that any reader received."""
    wide = [
        n
        for n, case in enumerate(given.cases)
        if any(read["kind"] == "drain" and read["isolation"] == UNCOMMITTED for read in case.reads)
    ]
    wanted = F.when(F.col(BUNDLE).isin(wide), ~is_committed()).otherwise(F.lit(True))
    return given.drained & (wanted | ~given.complete)
