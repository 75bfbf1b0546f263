"""lost: an acknowledged record that the read after healing passed without returning it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.contract.contract import MIN_INSYNC, UNCLEAN
from harness.model.doubt_names import DoubtName
from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.checks.lost import acks
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.kept import is_empty, kept
from harness.verify.engine.known import Known
from harness.verify.engine.prepared import Prepared, at_place
from harness.verify.engine.rows import NOT_READ, Reason, found
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, frame
from harness.verify.promise import Check, Introduced, Settings


class Lost(Reason):
    """How a record was missed."""

    PASSED = (
        "passed",
        "The read after healing passed its place, and no other one with its isolation returned it.",
    )
    UNCOMMITTED_ONLY = "uncommitted_only", "read_committed passed its offset, and read_uncommitted returns it."
    TOPIC_GONE = "topic_gone", "Another topic has the name, and no declared step deleted the topic."
    BEYOND_EVERY_LOG = "beyond_every_log", "The log of every replica ends at or below its offset."
    COMPACTED = "compacted", "Compaction may have removed it, which excuses the loss."
    NOT_READ = "not_read", "The read after healing did not get there: a doubt, and no finding."


def lost(drill: Drill) -> DataFrame:
    """Promised records that the read_committed drain does not return.

    A record is lost when the position of the drain passed its offset. If the drain did not get there, some replica may
    have the record: reason `not_read`, a doubt. Left out: records below the log start, which `log_start` judges, and
    records beyond every log, which `beyond_every_log` reports.
    """
    given = drill.given
    missing = (
        drill.sent.where(F.col("promised") & given.complete)
        .join(drill.shown.where("rc").select(*RECORD), RECORD, "left_anti")
        .join(drill.shown.select(*RECORD, "ru"), RECORD, "left")
    )
    missing = at_place(missing, given.places)
    missing = missing.join(kept_since(given, missing), PLACE, "left")
    # An acknowledgement without an offset: the record may have been deleted, unless it was sent after a record that is
    # kept had been acknowledged.
    perhaps = (F.col("log_start") > 0) & F.coalesce(F.col("called_ns") <= F.col("kept_since_ns"), F.lit(True))
    deleted = F.coalesce(F.col("offset") < F.col("log_start"), perhaps)
    passed = F.coalesce(F.col("committed") > F.col("offset"), F.col("committed_reached"), F.lit(False))
    missing = missing.join(F.broadcast(_topic_names(given)), [BUNDLE, "topic"], "left")
    # Topic ids are unique: when the name has another id, the topic with this id was deleted with all its records.
    gone = F.col("as_of_ns").isNull() & F.col("committed").isNull() & F.coalesce("named", F.lit(False))
    reason = F.when(passed & F.coalesce("ru", F.lit(False)), F.lit(Lost.UNCOMMITTED_ONLY)).when(
        passed, F.lit(Lost.PASSED)
    )
    reason = reason.when(gone, F.lit(Lost.TOPIC_GONE))
    missing = missing.where(~F.coalesce(_is_beyond(), F.lit(False))).withColumn(
        "reason", F.coalesce(reason, F.lit(Lost.NOT_READ))
    )
    missing = missing.where(~F.coalesce(deleted, F.lit(False)))
    kind = F.when(F.col("reason") == Lost.NOT_READ, F.lit(NOT_READ)).otherwise(F.lit(Kind.LOST.value))
    # Where the acknowledgement named no offset, the other isolation may show it.
    seen = drill.read.groupBy(*RECORD, *PLACE[1:]).agg(F.min("offset").alias("seen_at"))
    missing = missing.join(seen, [*RECORD, *PLACE[1:]], "left")
    return found(missing, kind, F.col("reason"), offset=F.coalesce("offset", "seen_at"))


def _topic_names(given: Prepared) -> DataFrame:
    """Names of the topics that brokers reported after healing."""
    last = [(n, case.last_snapshot) for n, case in enumerate(given.cases) if case.last_snapshot is not None]
    names = {(n, p.topic) for n, snapshot in last for p in snapshot.partitions}
    named = frame(given.spark, {"topic": "string"}, sorted(names))
    return named.withColumn("named", F.lit(True))


def _is_beyond() -> Column:
    """At or above the end of every log, and acknowledged before the logs were asked."""
    return (F.col("offset") >= F.col("log_end")) & (F.col("returned_ns") <= F.col("as_of_ns"))


def beyond_every_log(drill: Drill) -> DataFrame | None:
    """Promised records at or above the log end of every replica after healing, whatever a read returned before.

    Needs no read, so it also holds for a run that did not finish. A record that is below, at another offset than the
    acknowledged one, is a wrong_ack_offset.
    """
    given = drill.given
    # A log that ends above all promised records of its partition lacks none of them.
    reached = given.sent.groupBy(*PLACE).agg(F.max("promised_to").alias("promised_to"))
    short = kept(at_place(reached, given.places).where("promised_to >= log_end").select(*PLACE))
    if is_empty(short):
        return None
    rows = given.ledger.where("promised").join(F.broadcast(short), PLACE, "left_semi")
    beyond = at_place(rows, given.places).where(_is_beyond())
    below = at_place(drill.read, given.places).where("offset < log_end").select(*RECORD)
    return found(beyond.join(below, RECORD, "left_anti"), Kind.LOST, Lost.BEYOND_EVERY_LOG)


def kept_since(given: Prepared, missing: DataFrame) -> DataFrame:
    """When the first record at or above the log start was acknowledged; what was sent later is after it in the log.

    By partition, of those with lost records of unknown offset and a log start above 0.
    """
    cut = missing.where("offset IS NULL AND log_start > 0").select(*PLACE, "log_start").distinct()
    acked = given.ledger.where(F.col("outcome") == Outcome.ACKED.value)
    kept = acked.join(F.broadcast(cut), PLACE).where("offset >= log_start - 1")
    return kept.groupBy(*PLACE).agg(F.min("returned_ns").alias("kept_since_ns"))


def _acks_keep(settings: Settings) -> str:
    """The promise of the declared acks, with the losses that the topic's settings permit."""
    topic, acks = settings.topic, settings.producer.acks if settings.producer else "all"
    least = topic and settings.over_time(MIN_INSYNC, topic.min_insync_replicas)
    in_sync = f" with {MIN_INSYNC}={least}" if topic and acks == "all" else ""
    clean = f" and {UNCLEAN}=false" if topic and not topic.unclean_election else ""
    if acks == "0":
        return "acks=0 promises nothing, and no excuse covers this loss"
    limits = [
        *(["those that the next leader lacks after a leader change"] if acks == "1" else []),
        *(["those that an unclean election may lose"] if topic and topic.unclean_election else []),
    ]
    unless = f", except {' and '.join(limits)}" if limits else ""
    return f"acks={acks}{in_sync}{clean} keeps every acknowledged record{unless}"


def _unlimited(known: Known) -> Addition:
    """Doubts about partitions where the losses that acks=1 permits have no known limit."""
    lacks = "no replica reported the leader epochs of"
    places = acks.without_lineage(known.case) if known.case.last_snapshot is not None else []
    return Addition(
        doubts=[
            Doubt(DoubtName.NO_LINEAGE, f"{lacks} {topic}/{partition}, so what acks=1 may lose there is unknown")
            for topic, partition in places
        ]
    )


CHECK: Final = Check(
    promise="A record that was acknowledged as its contract requires is in the log after healing.",
    kinds={Kind.LOST: Introduced(promise=_acks_keep, rank=70)},
    seen={
        (Kind.LOST, Lost.PASSED): (
            "a read after healing passed the place of the record without returning it, and no other read with the same "
            "isolation level returned it"
        ),
        (Kind.LOST, Lost.TOPIC_GONE): (
            "another topic has the name now, and no declared step deleted the topic that the record was sent to"
        ),
        (Kind.LOST, Lost.COMPACTED): "the read after healing passed the place of the record without returning it",
        (Kind.LOST, Lost.UNCOMMITTED_ONLY): (
            "read_committed lacks the record: a read after healing passed its offset without returning it. "
            "read_uncommitted has it, so the log still holds the record"
        ),
        (Kind.LOST, Lost.BEYOND_EVERY_LOG): "the log of every replica ends at or below the offset of the record",
    },
    no_findings=frozenset({Lost.NOT_READ}),
    queries={"lost": lost, "beyond_every_log": beyond_every_log},
    nothing_without={"lost": "drill.sent"},
    adds=_unlimited,
    order=Order(doubts=60),
    excuses=acks.EXCUSES,
    planted=(
        "lost_newest_of_a_key",
        "near_lost_older_of_a_key",
        "lost_older_of_a_key_on_disks",
        "lost_older_of_a_key_hidden",
        "lost_tombstone_too_early",
        "near_lost_tombstone_in_its_time",
        "lost_tombstone_of_a_visible_value",
        "lost_in_an_election_that_is_not_permitted",
        "lost_below_a_permitted_election",
        "near_lost_in_a_permitted_election",
        "lost_from_both_drains",
        "lost_from_every_copy",
        "lost_run_of_three",
        "lost_to_read_committed_only",
        "lost_that_was_acked_without_an_offset",
        "lost_first_record_of_a_log",
        "lost_above_every_log_end",
        "lost_above_every_log_end_and_not_read",
        "near_lost_log_end_of_one_replica",
        "near_lost_unknown_and_absent",
        "near_lost_unknown_and_present",
        "near_lost_acked_without_an_offset",
        "lost_though_doubtful",
        "lost_transaction",
        "lost_transaction_that_an_operator_aborted",
    ),
)
