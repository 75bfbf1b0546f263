"""duplicated: one record is at two offsets."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.rows import found
from harness.verify.engine.tables import PLACE, RECORD


def duplicated(drill: Drill) -> DataFrame:
    """Every copy of a record after the first on its partition. Copies that only one isolation returns count, too: an
    aborted copy is a copy."""
    copies = Window.partitionBy(*RECORD, *PLACE[1:])
    rows = drill.read.withColumn("first", F.min("offset").over(copies)).where("offset > first AND stream >= 0")
    return found(rows, Kind.DUPLICATED, reader=None, other="first")
