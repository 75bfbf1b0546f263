"""Acknowledged records that were deleted, by cause. Figures only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from pyspark.sql import functions as F

from harness.model.documents.steps import RecordsDeleted, Step, TierLeft
from harness.model.finding import Kind
from harness.model.schemas import Columns
from harness.verify.checks.lost import Lost
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.case import Case, places_of
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, Values, frame
from harness.verify.excuses.retention import deleting_settings
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
    """Causes that delete acknowledged records, besides the settings of retention. The summary shows these texts."""

    DELETE_RECORDS = "DeleteRecords"
    TIER_OFF = "the end of tiered storage"
    COMPACTION = "compaction"
    TOPIC = "the deletion of their topic"
    UNKNOWN = "an unknown cause"


def below_log_start(drill: Drill) -> list[dict[str, int]]:
    """By setting or request, how many promised records of each bundle are below the start of their log and were not
    read back."""
    given = drill.given
    starts = frame(given.spark, _STARTS, [row for n, case in enumerate(given.cases) for row in _starts(n, case)])
    gone = drill.sent.where("promised").join(F.broadcast(starts), PLACE).where("offset < log_start")
    gone = gone.join(drill.shown.where("rc").select(*RECORD), RECORD, "left_anti")
    by = (
        F.when(F.col("offset") < F.col("requested_to"), F.lit(Deletion.DELETE_RECORDS.value))
        .when(F.col("offset") < F.col("tier_off_to"), F.lit(Deletion.TIER_OFF.value))
        .otherwise(F.col("retention"))
    )
    out: list[dict[str, int]] = [{} for _ in given.cases]
    for bundle, setting, records in gone.groupBy(BUNDLE, by.alias("by")).agg(F.count("*")).collect():
        out[bundle][setting] = records
    return out


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
    found[Deletion.TOPIC.value] += sum(of.acked for place, of in known.counts.sent.items() if place[:2] in topics)
    return {setting: records for setting, records in sorted(found.items()) if records}


def _starts(number: int, case: Case) -> Iterator[Values]:
    for facts in places_of(case):
        if facts.log_start > 0:
            topic, _, partition = facts.place
            settings = " or ".join(deleting_settings(case, topic)) or Deletion.UNKNOWN.value
            requested = _to(case.events(RecordsDeleted), topic, partition)
            tier_off = _to(case.events(TierLeft), topic, partition)
            yield number, *facts.place, facts.log_start, requested, tier_off, settings


def _to(events: Sequence[tuple[RecordsDeleted | TierLeft, Step]], topic: str, partition: int) -> int:
    """Up to which offset these events deleted the records of a partition."""
    here = [event for event, _ in events if (event.topic, event.partition) == (topic, partition)]
    return max((event.before_offset for event in here), default=0)


BELOW: Final[OnDriver[dict[str, int]]] = OnDriver(name="deletions", read=below_log_start, none=dict)
