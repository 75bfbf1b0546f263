"""Acknowledged records that were deleted, by cause. Figures only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.documents.steps import RecordsDeleted, Step, TierLeft
from harness.model.finding import Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.verify.checks.lost import Lost, kept_since
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.case import Case, places_of
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, Values, frame
from harness.verify.excuses.retention import permitting
from harness.verify.excuses.topics_deleted import deleted

_STARTS: Final[Columns] = {
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "log_start": "int64",
    "requested_to": "int64",
    "tier_off_to": "int64",
    "retention": "string",
}


class Deletion(StrEnum):
    """Causes that delete acknowledged records, besides the settings of retention."""

    DELETE_RECORDS = "DeleteRecords"
    TIER_OFF = "the end of tiered storage"
    COMPACTION = "compaction"
    TOPIC = "the deletion of their topic"
    UNKNOWN = "an unknown cause"


def below_log_start(drill: Drill) -> list[dict[str, int]]:
    """By setting or request, how many promised records of each bundle are below the start of their log and were not
    read back. `Deletion.TOPIC`: minus those of a deleted topic that were read back, because they were written to the
    next topic with its name."""
    given = drill.given
    out: list[dict[str, int]] = [{} for _ in given.cases]
    rows = [row for n, case in enumerate(given.cases) for row in _starts(n, case)]
    if rows:
        starts = F.broadcast(frame(given.spark, _STARTS, rows))
        gone = drill.sent.where("promised").join(starts, PLACE).where("offset < log_start OR offset IS NULL")
        gone = gone.join(drill.shown.where("rc").select(*RECORD), RECORD, "left_anti")
        by_place = gone.groupBy(BUNDLE, _cause().alias("by"), F.col("offset").isNull().alias("somewhere"))
        found = by_place.agg(F.count("*").alias("records")).collect()
        if any(row["somewhere"] for row in found):
            found = [row for row in found if not row["somewhere"]]
            found += _deleted_somewhere(drill, gone.where("offset IS NULL")).collect()
        for row in found:
            out[row[BUNDLE]][row["by"]] = out[row[BUNDLE]].get(row["by"], 0) + row["records"]
    if any(deleted(case) for case in given.cases):
        again = drill.sent.where(_of_deleted_topic()).join(drill.shown.where("rc").select(*RECORD), RECORD)
        for bundle, records in again.groupBy(BUNDLE).agg(F.count("*")).collect():
            out[bundle][Deletion.TOPIC.value] = -records
    return out


def _cause() -> Column:
    """What deleted a record. Where it was is not known if its acknowledgement named no offset."""
    at = F.coalesce("offset", F.col("log_start") - 1)
    return (
        F.when(at < F.col("requested_to"), F.lit(Deletion.DELETE_RECORDS.value))
        .when(at < F.col("tier_off_to"), F.lit(Deletion.TIER_OFF.value))
        .otherwise(F.col("retention"))
    )


def _deleted_somewhere(drill: Drill, missing: DataFrame) -> DataFrame:
    """Those of these records, acknowledged without an offset, that are deleted and not lost, as `lost` decides it."""
    since = missing.join(kept_since(drill.given, missing), PLACE, "left")
    gone = since.where("kept_since_ns IS NULL OR called_ns <= kept_since_ns")
    return gone.groupBy(BUNDLE, _cause().alias("by")).agg(F.count("*").alias("records"))


def _of_deleted_topic() -> Column:
    """Records that were promised until an operator deleted their topic."""
    kept = F.col("txn_id").isNull() | F.col("txn").eqNullSafe(TxnOutcome.COMMITTED.value)
    return (F.col("outcome") == Outcome.ACKED.value) & kept & F.col("deleted_ns").isNotNull()


def below_at_the_end(case: Case) -> dict[str, int]:
    """By "topic/partition", how many offsets were below the log start at the end."""
    starts = {
        f"{p.topic}/{p.partition}": max((log.log_start for log in p.logs), default=0) for p in case.last_partitions
    }
    return {place: start for place, start in sorted(starts.items()) if start > 0}


def deleted_by(known: Known) -> dict[str, int]:
    """By setting or request, how many acknowledged records were deleted."""
    found = Counter(known.of(BELOW))
    found[Deletion.COMPACTION.value] += sum(
        run.fate_records for run in known.runs if (run.kind, run.reason) == (Kind.LOST, Lost.COMPACTED)
    )
    topics = deleted(known.case)
    found[Deletion.TOPIC.value] += sum(of.of_deleted_topic for of in known.counts.sent.values()) if topics else 0
    return {setting: records for setting, records in sorted(found.items()) if records}


def deleted_records(known: Known) -> int:
    """How many promised records were deleted as permitted, without those in a finding. Records of a deleted topic are
    not promised, and a record that compaction removed is in an excused finding."""
    below = sum(records for cause, records in known.of(BELOW).items() if cause != Deletion.TOPIC)
    kind = Kind.LOG_START.value
    wrong = sum(run.fate_records for run in known.runs if run.kind == kind and run.stream_min is not None)
    return max(0, below - wrong)


def _starts(number: int, case: Case) -> Iterator[Values]:
    for facts in places_of(case):
        if facts.log_start > 0:
            topic, _, partition = facts.place
            settings = permitting(case, topic) or Deletion.UNKNOWN.value
            requested = _to(case.events(RecordsDeleted), topic, partition)
            tier_off = _to(case.events(TierLeft), topic, partition)
            yield number, *facts.place, facts.log_start, requested, tier_off, settings


def _to(events: Sequence[tuple[RecordsDeleted | TierLeft, Step]], topic: str, partition: int) -> int:
    """Up to which offset these events deleted the records of a partition."""
    here = [event for event, _ in events if (event.topic, event.partition) == (topic, partition)]
    return max((event.before_offset for event in here), default=0)


BELOW: Final[OnDriver[dict[str, int]]] = OnDriver(name="deletions", read=below_log_start, none=dict)
