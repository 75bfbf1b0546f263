"""duplicated: one record is at two offsets."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.checks.duplicated import producer_expiry
from harness.verify.checks.duplicated.on_disk import appended_again
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.rows import Only, found
from harness.verify.engine.tables import PLACE, RECORD
from harness.verify.promise import Check, Introduced, Settings, by_idempotence, span


def duplicated(drill: Drill) -> DataFrame:
    """Every copy of a record after the first on its partition. Copies that only one isolation returns count, too: an
    aborted copy is a copy."""
    copies = Window.partitionBy(*RECORD, *PLACE[1:])
    rows = drill.read.withColumn("first", F.min("offset").over(copies)).where("offset > first AND stream >= 0")
    return found(rows, Kind.DUPLICATED, reader=None, other="first")


def _once(settings: Settings) -> str:
    return f"{by_idempotence(settings)} writes each record once on a partition (KIP-98)"


CHECK: Final = Check(
    promise="A record is in its partition once.",
    kinds={Kind.DUPLICATED: Introduced(promise=_once, rank=60)},
    seen={
        (Kind.DUPLICATED, Only.ONE): lambda run: f"this is a second copy; the first copy is at {span(run, 'offset')}",
    },
    queries={"duplicated": duplicated, "appended_again": appended_again},
    nothing_without={"duplicated": "drill.read", "appended_again": "batches"},
    excuses=producer_expiry.EXCUSES,
    planted=(
        "duplicated_by_the_broker",
        "duplicated_without_batches",
        "duplicated_below_the_log_start",
        "near_duplicated_below_the_log_start_in_another_epoch",
        "near_duplicated_by_the_client",
        "duplicated_after_a_wrong_denial",
        "duplicated_after_a_denial_of_the_next_batch",
        "near_duplicated_after_a_lost_connection",
        "near_duplicated_after_a_denial_with_a_gap",
        "doubt_duplicated_after_an_early_denial",
        "doubt_duplicated_without_a_failed_try",
        "doubt_duplicated_without_batches_after_a_lost_connection",
        "duplicated_by_the_own_client",
        "near_duplicated_without_idempotence",
        "duplicated_though_unfinished",
    ),
)
