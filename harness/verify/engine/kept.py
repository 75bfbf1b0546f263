"""Results that are computed once and used by several plans."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.verify.engine.tables import BUNDLE

# Most results have few rows or none, because they are what differs.
_FEW: Final = 1000


def kept(rows: DataFrame) -> DataFrame:
    """The same rows, computed now. Few rows become constants of the plans that use them.

    The optimizer knows how many constants there are, which it never knows of a checkpoint: it broadcasts them without
    a shuffle, and removes everything that depends on an empty frame before anything is planned.
    """
    if rows._jdf.queryExecution().optimizedPlan().getClass().getSimpleName() == "LocalRelation":
        # The optimizer knows the result: nothing is to be run.
        return _constants(rows, rows._jdf.collectAsList())
    computed = rows.localCheckpoint(eager=False)
    # One job, which computes all partitions.
    first = computed._jdf.limit(_FEW + 1).collectAsList()
    return computed if first.size() > _FEW else _constants(computed, first)


def is_empty(rows: DataFrame) -> bool:
    """Whether a kept result has no row."""
    return rows.isLocal() and not rows.take(1)


def narrowed(rows: DataFrame, few: DataFrame, *columns: str) -> DataFrame:
    """Those rows of a table that are of a bundle of `few`, a kept result, and, if it has few rows, have in each of
    these columns a value that it has there: all that can be equal to one of its rows. Files and parts of files with
    other values are not read."""
    local = few.isLocal()
    # All columns, because a selection of them would no longer be local.
    wanted = few.collect() if local else few.select(BUNDLE).distinct().collect()
    for column in (BUNDLE, *(columns if local else ())):
        rows = rows.where(F.col(column).isin({row[column] for row in wanted} - {None}))
    return rows


def _constants(form: DataFrame, rows: object) -> DataFrame:
    """Rows, a list of Java, as constants with the columns of `form`."""
    spark = form.sparkSession
    return DataFrame(spark._jsparkSession.createDataFrame(rows, form._jdf.schema()), spark)
