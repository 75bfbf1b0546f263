"""Results that are computed once and used by several plans."""

from __future__ import annotations

from typing import Final

from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.verify.engine.jvm import jvm_of
from harness.verify.engine.tables import BUNDLE

# Most results have few rows or none, because they are what differs.
_FEW: Final = 1000


def kept(rows: DataFrame) -> DataFrame:
    """The same rows, computed now. Few rows become constants of the plans that use them.

    The optimizer knows how many constants there are, which it never knows of a checkpoint: it broadcasts them without
    a shuffle, and removes everything that depends on an empty frame before anything is planned.
    """
    execution = rows._jdf.queryExecution()
    optimized = execution.optimizedPlan()
    if _is_constant(optimized):  # the optimizer knows the result: nothing is to be run
        return _constants(rows, execution.analyzed().output(), optimized.data())
    computed = rows.localCheckpoint(eager=False)
    # One job, which computes all partitions. Its rows stay in Spark's own form: collecting them would compile a
    # converter for their columns, and describe the plan for a user interface.
    first = computed._jdf.queryExecution().executedPlan().executeTake(_FEW + 1)
    if len(first) > _FEW:
        return computed
    data = jvm_of(rows.sparkSession).scala.collection.immutable.ArraySeq.unsafeWrapArray(first)
    return _constants(rows, execution.analyzed().output(), data)


def is_empty(rows: DataFrame) -> bool:
    """Whether a kept result has no row."""
    plan = rows._jdf.queryExecution().analyzed()
    return _is_constant(plan) and plan.data().isEmpty()


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


def _is_constant(plan: JavaObject) -> bool:
    return bool(plan.getClass().getSimpleName() == "LocalRelation")


def _constants(form: DataFrame, columns: JavaObject, rows: JavaObject) -> DataFrame:
    """Rows in Spark's own form as constants with these columns."""
    spark = form.sparkSession
    of_sql = jvm_of(spark).org.apache.spark.sql
    relation = of_sql.catalyst.plans.logical.LocalRelation(columns, rows, False, jvm_of(spark).scala.Option.empty())
    return DataFrame(of_sql.classic.Dataset.ofRows(spark._jsparkSession, relation.newInstance()), spark)
