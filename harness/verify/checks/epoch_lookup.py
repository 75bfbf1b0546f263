"""epoch_lookup: a leader that was asked where a leader epoch ended names another offset than its log has, or none.

Followers truncate by these answers, consumers detect truncation with them, and remote segments are found by the same
lineage. Every record that the read after healing returned carries the epoch of its batch. Where retention or
DeleteRecords may have removed records, only those at or above the log start count: a leader forgets the epochs below
it, and answers with its log start for them. A replica that was built from a compacted copy never had the epochs whose
records had been removed by then, so its answers are compared with its own copy only.

A leader names the asked epoch or an older one, never a newer one. The newest epoch ends at the end of the log, which
is known from the last snapshot and from the disks, which are read after the questions.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.case import UNCOMMITTED
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.tables import BUNDLE, PLACE, is_drain
from harness.verify.excuses.retention import topics_that_keep_all
from harness.verify.excuses.shortened import shortened_places
from harness.verify.promise import Check, Introduced, span


class Answer(Reason):
    """The defect of a leader's answer about an epoch."""

    SHORT = "short", "The epoch ends before its last record."
    BEYOND = "beyond", "An earlier epoch ends after the first record of a later one."
    OLDER = "older", "The leader names an older epoch than its log has."
    NONE = "no epoch", "The leader names no epoch, and its log has one."
    NEWER = "newer", "The leader names a newer epoch than it was asked for."
    PAST = "past", "An epoch ends after the end of the log."


def epoch_lookup(given: Prepared) -> DataFrame:
    """One record of each epoch that an answer gets wrong: the last of an epoch that ends too early, the first of one
    that starts too late."""
    asked = _asked(given)
    there = given.observations.where(is_drain() & (F.col("isolation") == UNCOMMITTED))
    by_epoch = there.where("leader_epoch >= 0").groupBy(*PLACE, F.col("leader_epoch").alias("of_epoch"))
    has = by_epoch.agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
    has = has.withColumn("newest", F.max("of_epoch").over(Window.partitionBy(*PLACE)))
    judged = has.join(F.broadcast(asked), PLACE).where(F.col("last") >= F.col("from"))
    judged = judged.join(F.broadcast(_log_ends(given)), PLACE, "left")
    # All offsets between two records of an epoch are of that epoch.
    judged = judged.withColumn("first", F.greatest("first", "from"))
    asked_for = F.col("of_epoch") <= F.col("epoch")
    later = (F.col("of_epoch") > F.col("reported_epoch")) & F.col("own_copy")
    of_newest = F.col("of_epoch") == F.col("newest")
    # A leader knows nothing about an epoch that is newer than all epochs of its log.
    reason = (
        F.when(F.col("reported_epoch").isNull(), F.when(asked_for & (F.col("epoch") <= F.col("newest")), Answer.NONE))
        .when((F.col("of_epoch") <= F.col("reported_epoch")) & (F.col("last") >= F.col("end_offset")), Answer.SHORT)
        .when(later & asked_for, Answer.OLDER)
        .when(later & (F.col("first") < F.col("end_offset")), Answer.BEYOND)
        .when(of_newest & (F.col("reported_epoch") > F.col("epoch")), Answer.NEWER)
        .when(of_newest & (F.col("end_offset") > F.col("log_end")), Answer.PAST)
    )
    rows = judged.withColumn("reason", reason).where("reason IS NOT NULL")
    of_last = F.col("reason").isin(Answer.SHORT, Answer.NEWER, Answer.PAST)
    rows = rows.withColumn("offset", F.when(of_last, F.col("last")).otherwise(F.col("first")))
    other = F.when(F.col("reason").isin(Answer.SHORT, Answer.BEYOND, Answer.PAST), F.col("end_offset"))
    other = other.when(F.col("reason") == Answer.NEWER, F.col("reported_epoch")).otherwise(F.col("of_epoch"))
    rows = rows.withColumn("other", other)
    once = rows.groupBy(*PLACE, "offset", "reason").agg(F.min("other").alias("other"))
    return found(once, Kind.EPOCH_LOOKUP, F.col("reason"), reader=F.lit("leader"))


def _asked(given: Prepared) -> DataFrame:
    """Answers with `from`, the offset from which they must be right, and `own_copy` (see `shortened_places`)."""
    answers = given.epoch_ends.where("error IS NULL").select(*PLACE, "epoch", "reported_epoch", "end_offset")
    whole = answers.join(topics_that_keep_all(given), [BUNDLE, "topic"], "left_semi")
    asked = whole.withColumns({"from": F.lit(0).cast("bigint"), "own_copy": F.lit(True)})
    shortened = shortened_places(given)
    if shortened is None:
        return asked
    return asked.unionByName(answers.join(shortened.select(*PLACE, "from", "own_copy"), PLACE))


def _log_ends(given: Prepared) -> DataFrame:
    """`log_end` of places with batches on any disk. It is no older than the answers: disks are read after them."""
    on_disks = given.batches.groupBy(*PLACE).agg((F.max("last_offset") + 1).alias("disk_end"))
    ends = on_disks.join(given.places.select(*PLACE, F.col("log_end").alias("seen_end")), PLACE)
    return ends.where("seen_end IS NOT NULL").select(*PLACE, F.greatest("seen_end", "disk_end").alias("log_end"))


CHECK: Final = Check(
    promise="A leader knows where each leader epoch of its log ended.",
    kinds={
        Kind.EPOCH_LOOKUP: Introduced(
            promise=(
                "a leader knows where each leader epoch of its log ended, on disk or in the remote tier (KIP-101, "
                "KIP-405)"
            )
        )
    },
    seen={
        (Kind.EPOCH_LOOKUP, Answer.SHORT): lambda run: (
            f"the leader answered that the epoch of this record ended before it, at {span(run, 'offset')}"
        ),
        (Kind.EPOCH_LOOKUP, Answer.BEYOND): lambda run: (
            f"the leader answered that an earlier epoch ended after this record, at {span(run, 'offset')}"
        ),
        (Kind.EPOCH_LOOKUP, Answer.OLDER): lambda run: (
            f"the record has leader {span(run, 'epoch')}; the leader was asked for it and named an older epoch"
        ),
        (Kind.EPOCH_LOOKUP, Answer.NONE): lambda run: (
            f"the record has leader {span(run, 'epoch')}; the leader was asked for it and named no epoch"
        ),
        (Kind.EPOCH_LOOKUP, Answer.NEWER): lambda run: (
            f"the record is of the newest epoch, and the leader, asked for an older one, named {span(run, 'epoch')}"
        ),
        (Kind.EPOCH_LOOKUP, Answer.PAST): lambda run: (
            f"the record is the last of the newest epoch, which by the leader's answer ends at {span(run, 'offset')}, "
            "after the end of the log"
        ),
    },
    queries={"epoch_lookup": epoch_lookup},
    nothing_without={"epoch_lookup": "epoch_ends"},
    planted=(
        "epoch_lookup_short",
        "epoch_lookup_beyond",
        "epoch_lookup_finds_none",
        "epoch_lookup_names_a_newer_epoch",
        "epoch_lookup_past_the_log_end",
        "near_epoch_lookup_at_the_log_end",
        "epoch_lookup_short_above_retention",
        "epoch_lookup_finds_none_above_retention",
        "near_epoch_lookup_newer_than_the_log",
        "epoch_lookups_without_answer",
    ),
)
