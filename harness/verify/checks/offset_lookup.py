"""offset_lookup: a leader that was asked for the first record of a time or later names another record, or none.

Compared with what the read after healing returned. A leader may name a control record, which no reader receives and
which has a timestamp, too. Topics are not judged if retention, compaction or DeleteRecords may have removed
records of them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.doubt_names import DoubtName
from harness.model.finding import Kind
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import UNCOMMITTED, Place
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import Reason, found, union
from harness.verify.engine.tables import BUNDLE, PLACE, is_drain
from harness.verify.excuses.retention import topics_that_keep_all
from harness.verify.excuses.tier_objects_deleted import answerable
from harness.verify.promise import Check, Introduced, span

_ASKED = [*PLACE, "time_ms"]
Failed = dict[Place, tuple[int, str]]  # how many requests failed, and an error


class Named(Reason):
    """The defect of a leader's answer about a time."""

    LATE = "late", "An earlier record is of the requested time or later."
    NONE = "none", "The leader names none, and its log has one."
    EARLY = "early", "It is older than the requested time."
    TIME = "time", "It has another timestamp than the leader names."


def offset_lookup(given: Prepared) -> DataFrame:
    """The record that the leader should have named or, where the named one is older than requested, that record."""
    lookups = given.lookups.where("error IS NULL").join(topics_that_keep_all(given), [BUNDLE, "topic"], "left_semi")
    lookups = lookups.select(*_ASKED, F.col("offset").alias("named"), F.col("timestamp_ms").alias("named_ms"))
    there = given.observations.where(is_drain() & (F.col("isolation") == UNCOMMITTED))
    there = there.select(*PLACE, "offset", F.col("timestamp_ms").alias("at_ms"))
    judged = lookups.join(_first_since(lookups, there), _ASKED, "left").join(
        there.select(*PLACE, F.col("offset").alias("named"), F.col("at_ms").alias("has_ms")).join(
            F.broadcast(lookups.select(*PLACE, "named").distinct()), [*PLACE, "named"], "left_semi"
        ),
        [*PLACE, "named"],
        "left",
    )
    reason = (
        F.when(F.col("named").isNull() & F.col("first").isNotNull(), Named.NONE)
        .when(F.col("named") > F.col("first.offset"), Named.LATE)
        .when(F.col("has_ms") < F.col("time_ms"), Named.EARLY)
        .when(F.col("has_ms") != F.col("named_ms"), Named.TIME)
    )
    rows = judged.withColumn("reason", reason).where("reason IS NOT NULL")
    rows = rows.withColumn(
        "offset",
        F.when(F.col("reason").isin(Named.NONE, Named.LATE), F.col("first.offset")).otherwise(F.col("named")),
    )
    other = F.when(F.col("reason") == Named.LATE, F.col("named")).when(F.col("reason") == Named.EARLY, F.col("time_ms"))
    other = F.coalesce(other, F.col("named_ms"))
    return found(_once(rows.withColumn("other", other)), Kind.OFFSET_LOOKUP, F.col("reason"), reader=F.lit("leader"))


def _first_since(lookups: DataFrame, there: DataFrame) -> DataFrame:
    """The first record of each requested time or later. A record counts once, for the latest of the times that it
    answers; otherwise each record would be a row for each of 26 times."""
    asked = lookups.groupBy(*PLACE).agg(F.sort_array(F.collect_set("time_ms")).alias("times"))
    answers = F.size(F.filter("times", lambda time_ms: time_ms <= F.col("at_ms")))
    # Many records have one timestamp; which times it answers is then computed once for all of them.
    by_time = there.groupBy(*PLACE, "at_ms").agg(F.min("offset").alias("offset"))
    by_rank = by_time.join(F.broadcast(asked), PLACE).groupBy(*PLACE, answers.alias("answers"))
    firsts = by_rank.agg(F.min(F.struct("offset", "at_ms")).alias("first"))
    ranked = asked.select(*PLACE, F.posexplode("times").alias("before", "time_ms"))
    return ranked.join(firsts, PLACE).where("answers > before").groupBy(*_ASKED).agg(F.min("first").alias("first"))


def _once(rows: DataFrame) -> DataFrame:
    """One row for each answer: several times may have the same answer."""
    return rows.groupBy(*PLACE, "offset", "reason").agg(F.min("other").alias("other"))


def unanswered(given: Prepared) -> list[Failed]:
    """By place, how many requests for offsets by time or epoch failed, and an error. `epoch_lookup` needs no list of
    its own: requests of both sorts fail together."""
    found: list[Failed] = [{} for _ in given.cases]
    questions = union([table.select(*PLACE, "error") for table in (answerable(given.lookups, given), given.epoch_ends)])
    refused = questions.where("error IS NOT NULL").groupBy(*PLACE)
    for row in refused.agg(F.count("*").alias("n"), F.max("error").alias("error")).collect():
        found[row[BUNDLE]][row["topic"], row["topic_id"], row["partition"]] = row["n"], row["error"]
    return found


def _not_answered(known: Known) -> Addition:
    return Addition(
        doubts=[
            Doubt(
                DoubtName.LOOKUP_UNANSWERED,
                f"{n} requests for offsets of {topic}/{partition} by time or epoch failed: {error}",
            )
            for (topic, _, partition), (n, error) in sorted(known.of(UNANSWERED).items())
        ]
    )


UNANSWERED: Final[OnDriver[Failed]] = OnDriver(name="lookups", read=unanswered, none=dict)
CHECK: Final = Check(
    promise="A leader finds the first record of a time or later.",
    kinds={
        Kind.OFFSET_LOOKUP: Introduced(
            promise=(
                "a leader finds the first record of a time or later, on disk or in the remote tier (KIP-79, KIP-405)"
            )
        )
    },
    seen={
        (Kind.OFFSET_LOOKUP, Named.LATE): lambda run: (
            f"it is the first record of the requested time or later, and the leader answered {span(run, 'offset')}"
        ),
        (Kind.OFFSET_LOOKUP, Named.NONE): (
            "it is the first record of the requested time or later, and the leader answered that there is none"
        ),
        (Kind.OFFSET_LOOKUP, Named.EARLY): lambda run: (
            f"the leader answered with it, and it is older than the requested time, {span(run, 'timestamp')} ms"
        ),
        (Kind.OFFSET_LOOKUP, Named.TIME): lambda run: (
            f"the leader answered with it and with another timestamp than it has, {span(run, 'timestamp')} ms"
        ),
    },
    queries={"offset_lookup": offset_lookup},
    on_driver=(UNANSWERED,),
    adds=_not_answered,
    order=Order(doubts=75),
    planted=(
        "offset_lookup_late",
        "offset_lookup_finds_none",
        "offset_lookup_early",
        "offset_lookup_with_another_time",
        "near_offset_lookup_of_a_marker",
        "near_offset_lookup_below_retention",
        "lookups_without_answer",
    ),
)
