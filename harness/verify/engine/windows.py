"""Spans of time of a run: before, during and after its faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.model.documents.run import Windows
from harness.model.schemas import Columns
from harness.verify.engine.case import Case
from harness.verify.engine.kept import kept
from harness.verify.engine.tables import BUNDLE, frame

WINDOWS: Final = ("before", "during", "after")
_SINGLE: Final[Columns] = {"before_from": "int64", "before_to": "int64", "after_from": "int64", "after_to": "int64"}
_UNKNOWN: Final = (None, None)
_DURING: Final[Columns] = {"from_ns": "int64", "to_ns": "int64"}


def windows_of(spark: SparkSession, cases: Sequence[Case]) -> DataFrame:
    """One row for each bundle: the limits of `before` and `after`, and an array of the spans `during` faults. Null
    where a run lacks a window."""
    given = [case.run.windows or Windows() for case in cases]
    single = [(n, *(of.before or _UNKNOWN), *(of.after or _UNKNOWN)) for n, of in enumerate(given)]
    spans = [(n, *span) for n, of in enumerate(given) for span in of.during or ()]
    during = frame(spark, _DURING, spans).groupBy(BUNDLE)
    nested = during.agg(F.collect_list(F.struct("from_ns", "to_ns")).alias("during"))
    return F.broadcast(kept(frame(spark, _SINGLE, single).join(nested, BUNDLE, "left")))


def within(window: str, from_ns: str, to_ns: str) -> Column:
    """Whether a time span, or a time, is in one span of a window."""
    if window == "during":
        inside = F.exists(window, lambda w: (F.col(from_ns) >= w["from_ns"]) & (F.col(to_ns) <= w["to_ns"]))
    else:
        inside = (F.col(from_ns) >= F.col(f"{window}_from")) & (F.col(to_ns) <= F.col(f"{window}_to"))
    return F.coalesce(inside, F.lit(False))
