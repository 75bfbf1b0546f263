"""Records that only the remote tier had, after a step deleted their objects there without the brokers (KIP-405).

Brokers rely on __remote_log_metadata: they keep looking for such objects, and fail reads there. Excused are the
segments that the step deleted, and no other record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.documents.steps import ObjectsDeleted, Step
from harness.model.excuse import TIER_OBJECTS_DELETED
from harness.model.finding import Finding, Kind
from harness.verify.checks.tier.seam import missing_objects, uncovered
from harness.verify.checks.tier.state import TIERS, Partition, Segment, Tier, last_look, lineage_of, tiers_of
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import PLACE, Values, frame
from harness.verify.excuse import Excuse, Permit, Permitted, of_event
from harness.verify.excuses.clauses import Clause, clauses
from harness.verify.unreadable import Unreadable

_RECORDS: Final = (Kind.LOST, Kind.VANISHED)
_FAILED: Final = "UNKNOWN_SERVER_ERROR"


def _by_tables(given: Prepared) -> list[Clause]:
    """Clauses for such records."""
    if not any(list(_events(case)) for case in given.cases):
        return []
    tiers = tiers_of(given)
    return [
        row
        for n, case in enumerate(given.cases)
        for span in _deleted(case, tiers[n])
        for row in clauses(
            n,
            _RECORDS,
            span.why,
            evidence=span.evidence,
            topic=span.place[0],
            partition=span.place[2],
            offsets=(span.low, span.high),
            acked_ns=(0, span.until_ns),
        )
    ]


def _absences(known: Known) -> Permit:
    """A finding about the seam that only reports such an object as missing."""
    case, tier = known.case, known.of(TIERS)
    deletions = {(e.topic, e.partition, e.base_offset, e.segment_id): (e, step) for e, step in _events(case)}
    missing = missing_objects(case, tier) if deletions else {}

    def permitted(finding: Finding) -> Permitted | None:
        segment = missing.get(finding)
        if segment is None or finding.topic is None or finding.partition is None:
            return None
        deletion = deletions.get((finding.topic, finding.partition, segment.base_offset or 0, segment.id))
        return deletion and Permitted(_why(*deletion), of_event(*deletion, deletion[0].at_ns))

    return permitted


def answerable(lookups: DataFrame, given: Prepared) -> DataFrame:
    """Lookups by time without those that the leader cannot answer because it searches such a copy: the first copy
    with a newest timestamp that is not older (RemoteLogManager.findOffsetByTimestamp)."""
    if not any(list(_events(case)) for case in given.cases):
        return lookups
    tiers = tiers_of(given)
    rows = [(n, *span) for n, case in enumerate(given.cases) for span in _unanswerable_times(case, tiers[n])]
    columns = {"topic": "string", "topic_id": "string", "partition": "int32", "after_ms": "int64", "until_ms": "int64"}
    spans = F.broadcast(frame(given.spark, columns, rows).alias("span"))
    same = [F.col(f"asked.{c}") == F.col(f"span.{c}") for c in PLACE]
    within = (F.col("time_ms") > F.col("after_ms")) & (F.col("time_ms") <= F.col("until_ms"))
    failed = F.col("error") == _FAILED
    return lookups.alias("asked").join(spans, [*same, within, failed], "left_anti")


def _unreadable(known: Known) -> Iterator[Unreadable]:
    return _deleted(known.case, known.of(TIERS))


def _deleted(case: Case, tier: Tier) -> Iterator[Unreadable]:
    """Deleted offset ranges that the evidence shows, as far as the contract knows them: below every local log start,
    just before the deletion and at the end, of copies without a log object, and in no other existing copy."""
    for event, step in _events(case):
        for place, partition in sorted(tier.partitions.items()):
            segment = partition.segments.get(event.segment_id)
            if (place[0], place[2]) != (event.topic, event.partition) or segment is None:
                continue
            for low, high in _lost_ranges(segment, partition, event):
                evidence = of_event(event, step, event.at_ns)
                yield Unreadable(place, low, high, event.at_ns, _why(event, step), evidence)


def _unanswerable_times(case: Case, tier: Tier) -> Iterator[Values]:
    """Place, and the limits of the times that have their first record in a deleted copy."""
    for span in _deleted(case, tier):
        finished = [s for s in tier.partitions[span.place].segments.values() if s.finished_ms is not None]
        times = [(s.base_offset or 0, s.max_timestamp_ms or 0) for s in finished]
        after_ms = max((newest_ms for base, newest_ms in times if base < span.low), default=-1)
        until_ms = max((newest_ms for base, newest_ms in times if base == span.low), default=-1)
        yield *span.place, after_ms, until_ms


def _events(case: Case) -> Iterator[tuple[ObjectsDeleted, Step]]:
    """Deletions by declared steps, of tiered topics."""
    for event, step in case.events(ObjectsDeleted):
        topic = case.contract.topics.get(event.topic)
        if topic is not None and topic.tiered and step.name in case.contract.object_deletions:
            yield event, step


def _why(event: ObjectsDeleted, step: Step) -> str:
    where = f"{event.topic}/{event.partition}"
    span = f"offsets {event.base_offset} to {event.last_offset}"
    what = "objects of the tier deleted by hand"
    return f"{what}: the step {step.name} deleted the copy of {span} of {where}, and Kafka does not copy it again"


def _lost_ranges(segment: Segment, partition: Partition, event: ObjectsDeleted) -> Iterator[tuple[int, int]]:
    """Ranges [low, high) of one deleted copy that nothing else has."""
    lineages = {lineage_of(row.epochs) for row in last_look(partition.replicas)}
    if segment.base_offset is None or segment.finished_ms is None or _log_exists(segment, partition):
        return
    if not lineages or () in lineages:
        return  # which offsets that replica shares with a copy is unknown
    begins = min(row.local_log_start for row in last_look(partition.replicas))
    low = max(segment.base_offset, event.base_offset)
    high = min(segment.end_offset or 0, event.last_offset) + 1
    others = [s for s in partition.segments.values() if s.copied and _log_exists(s, partition)]
    spans = [(low, min(high, event.local_start, begins))]
    for lineage in sorted(lineages):
        spans = [gap for one in spans for gap in uncovered(others, lineage, *one)]
    yield from spans


def _log_exists(segment: Segment, partition: Partition) -> bool:
    """Whether the log object of a copy exists at the end."""
    return any(row.kind == "log" for row in last_look(partition.objects.get(segment.id, [])))


EXCUSES: Final = (
    Excuse(
        name=TIER_OBJECTS_DELETED,
        permits="A declared step deleted objects in the remote tier, and Kafka does not copy them again.",
        kinds=(*_RECORDS, Kind.TIER_OBJECT),
        by_tables=_by_tables,
        of_findings=_absences,
        unreadable=_unreadable,
    ),
)
