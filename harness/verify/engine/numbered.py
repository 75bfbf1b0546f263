"""Names and conditions as numbers, by which many records are grouped at a fraction of the cost of texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.verify.engine.kept import kept
from harness.verify.engine.tables import BUNDLE, PLACE

# Columns of numbers: of a topic-partition, and of what a reader is called.
LANE: Final = "_lane"
WHO: Final = "_who"
READER: Final = ["kind", "reader", "isolation"]


def place_number() -> Column:
    """A topic-partition as a number."""
    return F.xxhash64(*PLACE[1:])


def reader_number() -> Column:
    """Kind, name and isolation of a reader as a number."""
    return F.xxhash64(*READER)


def named(rows: DataFrame, number: str, names: Sequence[str], known: DataFrame, source: DataFrame) -> DataFrame:
    """Rows with `names` in place of their number. known: numbers with their names, each once; the names of others come
    from `source`, rows with names and without numbers, which is read only if there are others."""
    source = source.withColumn(number, F.xxhash64(*names))
    others = kept(rows.select(BUNDLE, number).distinct().join(F.broadcast(known), [BUNDLE, number], "left_anti"))
    found = source.join(F.broadcast(others), [BUNDLE, number], "left_semi").select(BUNDLE, number, *names).distinct()
    every = known.unionByName(kept(found))
    return rows.join(F.broadcast(every), [BUNDLE, number]).drop(number)


def packed(conditions: Mapping[str, Column]) -> Column:
    """Which of the conditions hold, as the bits of one number. An unknown condition does not hold."""
    bits = [F.when(condition, 1 << bit).otherwise(0) for bit, condition in enumerate(conditions.values())]
    return reduce(Column.bitwiseOR, bits)


def unpacked(rows: DataFrame, number: str, conditions: Iterable[str]) -> DataFrame:
    """Rows with a column for each condition in place of the number that `packed` made of them."""
    columns = {name: F.col(number).bitwiseAND(1 << bit) != 0 for bit, name in enumerate(conditions)}
    return rows.withColumns(columns).drop(number)
