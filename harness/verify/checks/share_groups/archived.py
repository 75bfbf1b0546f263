"""Records that a share group archived: delivered as often as its limit permits, and never accepted (KIP-932)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.excuse import SHARE_ARCHIVED, Evidence, EvidenceKind
from harness.model.finding import Kind
from harness.verify.checks.share_groups.reasons import Shared
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, frame
from harness.verify.excuse import Excuse, Turn

_LIMITS: Final = {"reader": "string", "limit": "int64"}


def _archived(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with `excused_by` where a group had as many deliveries as its limit."""
    limits = [(n, s.group, s.limit) for n, case in enumerate(given.cases) for s in case.contract.shares.values()]
    if not limits:
        return rows
    joined = rows.join(F.broadcast(frame(given.spark, _LIMITS, limits)), [BUNDLE, "reader"], "left")
    mine = (F.col("kind") == Kind.SKIPPED_READ.value) & (F.col("reason") == Shared.UNACCEPTED)
    why = F.concat(
        F.lit("archived at share.delivery.count.limit="), F.col("limit"), F.lit(" of share group "), F.col("reader")
    )
    over = F.when(mine & (F.col("other") >= F.col("limit")), why)
    return joined.withColumn("excused_by", F.coalesce("excused_by", over)).drop("limit")


EXCUSES: Final = (
    Excuse(
        name=SHARE_ARCHIVED,
        permits="A share group archives a record that it delivered as often as its limit permits.",
        kinds=(Kind.SKIPPED_READ,),
        rows=_archived,
        evidence=Evidence(kind=EvidenceKind.RECORDS, what="deliveries"),
        turn=Turn.LAST,  # a record that compaction removed is in no log, whatever the group did
    ),
)
