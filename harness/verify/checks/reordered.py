"""reordered: within one stream, a later sequence at a lower offset."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.case import UNCOMMITTED
from harness.verify.engine.prepared import Prepared, is_committed
from harness.verify.engine.rows import found
from harness.verify.engine.tables import BUNDLE, PLACE


def reordered(given: Prepared) -> DataFrame:
    """Records that stand below an earlier one of their stream on the same partition.

    Of several copies the first counts: a second one further up is a duplicate and turns nothing round.
    """
    rows = given.observations.where(_one_look(given) & F.col("intact") & (F.col("stream") >= 0))
    rows = rows.select(*PLACE, "offset", "stream", "seq")
    lane = Window.partitionBy(BUNDLE, "stream", *PLACE[1:]).orderBy("seq", "offset")
    first = rows.withColumn("again", F.lag("seq").over(lane).eqNullSafe(F.col("seq"))).where("NOT again")
    before = lane.rowsBetween(Window.unboundedPreceding, -1)
    ranked = first.withColumn("highest", F.max("offset").over(before)).where("offset < highest")
    return found(ranked, Kind.REORDERED, other="highest")


def _one_look(given: Prepared) -> Column:
    """The widest drain there is; of a run that died half way, everything that anybody read."""
    wide = [
        n
        for n, case in enumerate(given.cases)
        if any(read["kind"] == "drain" and read["isolation"] == UNCOMMITTED for read in case.reads)
    ]
    wanted = F.when(F.col(BUNDLE).isin(wide), ~is_committed()).otherwise(F.lit(True))
    return given.drained & (wanted | ~given.complete)
