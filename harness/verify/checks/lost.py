"""lost: acknowledged, and the read after healing passed the place without it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.prepared import Prepared, at_place
from harness.verify.engine.rows import NOT_READ, found
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, frame


def lost(drill: Drill) -> DataFrame:
    """Promised records that the read_committed drain shows nowhere.

    Lost when the drain's position passed the acknowledged offset. Some replica may have it and the read did not get
    there: `unread`, a doubt. Left out: what lay below the log's start (whether that may be where it is, is for
    log_start to say), and what lies beyond every log, which is told below.
    """
    given = drill.given
    missing = (
        drill.sent.where(F.col("promised") & given.complete)
        .join(drill.shown.where("rc").select(*RECORD), RECORD, "left_anti")
        .join(drill.shown.select(*RECORD, "ru"), RECORD, "left")
    )
    missing = at_place(missing, given.places)
    missing = missing.join(_kept_since(given, missing), PLACE, "left")
    # An ack that told no offset: deleted perhaps, unless it was sent when what was kept had been acknowledged already.
    perhaps = (F.col("log_start") > 0) & F.coalesce(F.col("called_ns") <= F.col("kept_since_ns"), F.lit(True))
    deleted = F.coalesce(F.col("offset") < F.col("log_start"), perhaps)
    passed = F.coalesce(F.col("committed") > F.col("offset"), F.col("committed_reached"), F.lit(False))
    missing = missing.join(F.broadcast(_names(given)), [BUNDLE, "topic"], "left")
    # Ids are for good: when the name has another one, the topic of this one is gone with all that it held.
    gone = F.col("as_of_ns").isNull() & F.col("committed").isNull() & F.coalesce("named", F.lit(False))
    reason = F.when(passed & F.coalesce("ru", F.lit(False)), F.lit("uncommitted_only")).when(passed, F.lit("passed"))
    reason = reason.when(gone, F.lit("topic_gone"))
    missing = missing.where(~F.coalesce(_beyond(), F.lit(False))).withColumn(
        "reason", F.coalesce(reason, F.lit("not_read"))
    )
    missing = missing.where(~F.coalesce(deleted, F.lit(False)))
    kind = F.when(F.col("reason") == "not_read", F.lit(NOT_READ)).otherwise(F.lit(Kind.LOST.value))
    return found(missing, kind, F.col("reason"))


def _names(given: Prepared) -> DataFrame:
    """Topics, by their names, that brokers told of after healing."""
    last = [(n, case.last_snapshot) for n, case in enumerate(given.cases) if case.last_snapshot is not None]
    names = {(n, p["topic"]) for n, snapshot in last for p in snapshot["partitions"]}
    named = frame(given.spark, {"topic": "string"}, sorted(names))
    return named.withColumn("named", F.lit(True))


def _beyond() -> Column:
    """At or above the end of every log, though acknowledged before the logs were asked."""
    return (F.col("offset") >= F.col("log_end")) & (F.col("returned_ns") <= F.col("as_of_ns"))


def beyond_every_log(drill: Drill) -> DataFrame:
    """Promised records at or above the end of every replica's log after healing, whatever a read had shown before.

    Needs no read, so it also holds for a run that died half way. A record that stands below, at another offset than was
    told, is wrong_ack_offset.
    """
    rows = at_place(drill.given.ledger.where("promised"), drill.given.places)
    beyond = rows.where(_beyond())
    below = at_place(drill.read, drill.given.places).where("offset < log_end").select(*RECORD)
    return found(beyond.join(below, RECORD, "left_anti"), Kind.LOST, "beyond_every_log")


def _kept_since(given: Prepared, missing: DataFrame) -> DataFrame:
    """By place, where it matters, the first ack at or above the log's start: later sends come to stand behind it."""
    cut = missing.where("offset IS NULL AND log_start > 0").select(*PLACE, "log_start").distinct()
    acked = given.ledger.where(F.col("outcome") == Outcome.ACKED.value)
    kept = acked.join(F.broadcast(cut), PLACE).where("offset >= log_start - 1")
    return kept.groupBy(*PLACE).agg(F.min("returned_ns").alias("kept_since_ns"))
