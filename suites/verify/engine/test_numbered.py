"""Names and conditions as numbers, and back."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from harness.verify.engine.numbered import LANE, named, packed, place_number, unpacked
from harness.verify.engine.tables import BUNDLE, PLACE, frame

COLUMNS = {"topic": "string", "topic_id": "string", "partition": "int32"}
PLACES = [(0, "a", "A", 0), (0, "a", "A", 1), (1, "a", "A", 0), (1, "b", "B", 7)]


def test_names_that_are_not_known_come_from_the_rows_themselves(spark: SparkSession) -> None:
    source = frame(spark, COLUMNS, PLACES)
    known = frame(spark, COLUMNS, PLACES[:2]).withColumn(LANE, place_number())
    counted = source.unionByName(source).groupBy(BUNDLE, place_number().alias(LANE)).count()
    rows = named(counted, LANE, PLACE[1:], known, source).select(*PLACE, "count").collect()
    assert sorted(map(tuple, rows)) == [(*place, 2) for place in PLACES]


def test_conditions_come_back_and_an_unknown_one_does_not_hold(spark: SparkSession) -> None:
    conditions = {
        "zero": F.col("partition") == 0,
        "unknown": F.col("partition") == F.lit(None),
        "odd": F.expr("partition % 2 = 1"),
    }
    rows = frame(spark, COLUMNS, PLACES).select("partition", packed(conditions).alias("bits"))
    found = {
        row["partition"]: (row["zero"], row["unknown"], row["odd"])
        for row in unpacked(rows, "bits", conditions).collect()
    }
    assert found == {0: (True, False, False), 1: (False, False, True), 7: (False, False, True)}
