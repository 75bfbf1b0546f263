"""Figures of the reads after healing: copies that were read, and acknowledged records that were deleted, by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from pyspark.sql import functions as F

from harness.model.documents.steps import RecordsDeleted, Step, TierLeft
from harness.model.documents.verdict_facts import ReadBack
from harness.model.finding import Kind
from harness.model.schemas import Columns
from harness.verify.checks.lost import Lost
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.case import Case, Place, places_of
from harness.verify.engine.counts import Counts
from harness.verify.engine.runs import RecordRange
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


def deleted_by(case: Case, counts: Counts, runs: Sequence[RecordRange], below: Mapping[str, int]) -> dict[str, int]:
    """By setting or request, how many acknowledged records were deleted. below: of `below_log_start`."""
    found = Counter(below)
    found[Deletion.COMPACTION.value] += sum(
        run.fate_records for run in runs if (run.kind, run.reason) == (Kind.LOST, Lost.COMPACTED)
    )
    topics = deleted(case)
    found[Deletion.TOPIC.value] += sum(of.acked for place, of in counts.sent.items() if place[:2] in topics)
    return {setting: records for setting, records in sorted(found.items()) if records}


def copies_read(case: Case, counts: Counts) -> ReadBack:
    """How many copies of partitions with acknowledged records were read to the end."""
    topics = deleted(case)
    places = {place for place, of in counts.sent.items() if of.acked and place[:2] not in topics}
    there = {row.place: set(row.replicas) for row in case.last_partitions}
    read: dict[Place, set[int]] = {}
    for one in case.reads:
        place = one.place
        if place in places and one.reached and one.position >= one.target:
            served = set(one.served_by or ())
            # A read that several brokers served is a read of no copy in particular.
            of_copy = served & there.get(place, served) if len(served) == 1 else set()
            read.setdefault(place, set()).update(of_copy)
    return ReadBack(
        partitions=len(places),
        copies_read=sum(max(len(brokers), 1) for brokers in read.values()),
        copies=sum(len(there[place]) for place in places) if places <= there.keys() else None,
    )


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
