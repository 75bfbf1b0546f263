"""Figures of a run, by place and by reader: few rows, so the driver may have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.outcome import Outcome
from harness.model.schemas import Columns
from harness.verify.case import Case, Place
from harness.verify.prepared import Prepared
from harness.verify.rows import union
from harness.verify.tables import BUNDLE, PLACE, frame

_WINDOWS: Final[Columns] = {"window": "string", "from_ns": "int64", "to_ns": "int64"}


_SIZED: Final = ("batches", "offset_commits", "transactions")


@dataclass(slots=True)
class Counts:
    """Of one bundle. sent: figures by place; read: rows by (kind, isolation, reader); unreserved: streams without a
    reservation; rows: of other tables."""

    sent: dict[Place, dict[str, int]] = field(default_factory=dict)
    read: dict[tuple[str, str, str], int] = field(default_factory=dict)
    unreserved: int = 0
    rows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SIZED, 0))

    def total(self, figure: str) -> int:
        """A figure of `sent` over all places."""
        return sum(of_place[figure] for of_place in self.sent.values())


def counts(given: Prepared) -> list[Counts]:
    """One for each bundle."""
    out = [Counts() for _ in given.cases]
    for row in _sent(given).collect():
        figures = {k: v for k, v in row.asDict().items() if k not in PLACE}
        out[row[BUNDLE]].sent[row["topic"], row["topic_id"], row["partition"]] = figures
    readers = [BUNDLE, "kind", "isolation", "reader"]
    for row in given.observations.groupBy(*readers).count().collect():
        out[row[BUNDLE]].read[row["kind"], row["isolation"], row["reader"]] = row["count"]
    for row in given.streams.where("producer IS NULL").groupBy(BUNDLE).count().collect():
        out[row[BUNDLE]].unreserved = row["count"]
    sized = dict(zip(_SIZED, (given.batches, given.offset_commits, given.transactions), strict=True))
    sizes = [table.groupBy(BUNDLE).count().withColumn("table", F.lit(name)) for name, table in sized.items()]
    for row in union(sizes).collect():
        out[row[BUNDLE]].rows[row["table"]] = row["count"]
    return out


def _sent(given: Prepared) -> DataFrame:
    acked = F.col("outcome") == Outcome.ACKED.value
    windows = frame(given.spark, _WINDOWS, [row for n, case in enumerate(given.cases) for row in _windows(n, case)])
    nested = windows.groupBy(BUNDLE, "window").agg(F.collect_list(F.struct("from_ns", "to_ns")).alias("spans"))
    by_window = nested.groupBy(BUNDLE).pivot("window", ["before", "during", "after"]).agg(F.first("spans"))
    rows = given.ledger.join(F.broadcast(by_window), BUNDLE, "left")
    return rows.groupBy(*PLACE).agg(
        F.count("*").alias("attempted"),
        F.count_if(acked).alias("acked"),
        F.count_if(F.col("promised")).alias("promised"),
        F.count_if(F.col("outcome") == Outcome.REFUSED.value).alias("refused"),
        F.count_if(F.col("outcome") == Outcome.UNKNOWN.value).alias("unknown"),
        F.coalesce(F.max(F.when(acked, F.col("offset"))), F.lit(-1)).alias("highest"),
        *[F.count_if(acked & _within(window)).alias(window) for window in ("before", "during", "after")],
    )


def _within(window: str) -> Column:
    """Acked in any span of a window. Null-safe: a run may have no such window."""
    inside = F.exists(window, lambda w: (F.col("returned_ns") >= w["from_ns"]) & (F.col("returned_ns") <= w["to_ns"]))
    return F.coalesce(inside, F.lit(False))


def _windows(number: int, case: Case) -> list[tuple[Any, ...]]:
    given = case.run.get("windows") or {}
    spans: list[tuple[str, Sequence[int]]] = [("during", span) for span in given.get("during") or []]
    spans += [(name, given[name]) for name in ("before", "after") if given.get(name)]
    return [(number, name, span[0], span[1]) for name, span in spans]
