"""Deliveries that a share group must not repeat as it did: of a record that a member holds, of one that has reached the
limit, or as if a release had never been counted.

The delivery count of a record is written with each answer (KIP-932), so that the next leader goes on from there.
Without an answer it may be forgotten, so only deliveries behind an acknowledged release are compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.model.schemas import Columns
from harness.verify.checks.share_groups.progress import forgetful
from harness.verify.checks.share_groups.reasons import GIVEN, SHARE, Shared
from harness.verify.engine.case import Case
from harness.verify.engine.elections import leader_changes
from harness.verify.engine.kept import kept
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import found, union
from harness.verify.engine.tables import BUNDLE, UNBOUNDED, Values, frame

# The lock of a record begins before its member has it: this part of it is surely left when the member receives it.
_SURELY_LOCKED: Final = 0.25
# An answer to a fetch arrives no later than this. A member may receive it after the next one that has the record.
_IN_FLIGHT_NS: Final = 10 * 10**9
_FORGETFUL: Final[Columns] = {"group": "string"}
_RESTLESS: Final[Columns] = {"topic": "string?", "partition": "int32?", "from_ns": "int64", "to_ns": "int64"}


def repeated(given: Prepared, each: DataFrame) -> DataFrame:
    """each: the records that a group had to deliver, with `limit`, `lock_ms` and the number of deliveries, `times`."""
    over_limit = each.where(F.col("highest") > F.col("limit"))
    again = each.where("times > 1").select(*GIVEN, "stream", "seq", "lock_ms")
    rows = kept(given.deliveries.where(given.complete).join(again, GIVEN))
    return union(
        [
            _as_rows(over_limit, Shared.OVER_LIMIT, F.col("highest")),
            _as_rows(_uncounted(given, rows), Shared.UNCOUNTED, F.col("released")),
            _as_rows(_within_lock(given, rows), Shared.WITHIN_LOCK, None),
        ]
    )


def _as_rows(rows: DataFrame, reason: Shared, other: Column | None) -> DataFrame:
    return found(rows, Kind.COMMIT_REGRESSED, reason, reader="group", other=other)


def _uncounted(given: Prepared, rows: DataFrame) -> DataFrame:
    """Records of which a delivery had no higher count than one that a member had released before. Its own answer was
    acknowledged, so that its member was the last one that held the record."""
    groups = [(n, group) for n, case in enumerate(given.cases) for group in forgetful(case)]
    acked = rows.where((F.col("outcome") == Outcome.ACKED.value) & (F.col("count") > 0))
    acked = acked.join(F.broadcast(frame(given.spark, _FORGETFUL, groups)), [BUNDLE, "group"], "left_anti")
    compared = _with_former(acked, ("returned_ns", "given_ns"), "answer", "count", "returned_ns")
    back = "former_answer = 'release' AND former_returned_ns < given_ns AND count <= former_count"
    return _once(compared.where(back), F.max("former_count").alias("released"))


def _within_lock(given: Prepared, rows: DataFrame) -> DataFrame:
    """Records that a member had received, and neither released nor failed to answer, when another delivery of them
    arrived before its lock can have ended. A new leader forgets locks, and so may one that lost its members."""
    compared = _with_former(rows, ("given_ns", "count"), "answer", "outcome", "given_ns")
    held = F.col("former_outcome").isNull() | (
        (F.col("former_outcome") == Outcome.ACKED.value) & (F.col("former_answer") != "release")
    )
    early = F.col("given_ns") - F.col("former_given_ns") < F.col("lock_ms") * 10**6 * _SURELY_LOCKED
    twice = compared.where(held & early).withColumn("since_ns", F.col("former_given_ns") - _IN_FLIGHT_NS)
    spans = [(n, *span) for n, case in enumerate(given.cases) if case.contract.shares for span in _restless(case)]
    faults = frame(given.spark, _RESTLESS, spans).selectExpr(
        f"{BUNDLE} AS of", "topic AS at", "partition AS p", "from_ns", "to_ns"
    )
    at_work = (
        (F.col(BUNDLE) == F.col("of"))
        & (F.col("at").isNull() | ((F.col("at") == F.col("topic")) & (F.col("p") == F.col("partition"))))
        & (F.col("from_ns") <= F.col("given_ns"))
        & (F.col("to_ns") >= F.col("since_ns"))
    )
    return _once(twice.join(F.broadcast(faults), at_work, "left_anti"))


def _restless(case: Case) -> Iterator[Values]:
    """When a member may have lost what it held: topic and partition (None: all), from and until when."""
    for step in case.steps:
        if step.facts and step.started_ns is not None:
            yield None, None, step.started_ns, step.healed_ns or step.ended_ns or UNBOUNDED
    for change in leader_changes(case):
        yield change.topic, change.partition, change.since_ns, change.at_ns


def _with_former(rows: DataFrame, order: Sequence[str], *names: str) -> DataFrame:
    """Deliveries with columns of the one before, of the same record and group, as `former_NAME`."""
    before = Window.partitionBy(*GIVEN).orderBy(*order)
    return rows.withColumns({f"former_{name}": F.lag(name).over(before) for name in names})


def _once(rows: DataFrame, *figures: Column) -> DataFrame:
    """One row for each record of a group."""
    return rows.groupBy(*SHARE, "offset", "stream", "seq").agg(F.count("*").alias("repeats"), *figures)
