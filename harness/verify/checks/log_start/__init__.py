"""log_start: the start of a log moved further than retention, DeleteRecords and deletion permit.

Retention is recomputed. By size: a replica never keeps less than retention.bytes, because a segment is deleted only
while the rest is large enough; offsets of a topic in the remote tier (KIP-405) count once. If a cleaner has shrunk what
is kept, its former size is unknown. By time: every record below the start was older than retention.ms when the start
was seen there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.model.clock import CLOCKS_MS
from harness.model.documents.cluster import Snapshot
from harness.model.documents.steps import LogStartSeen, RecordsDeleted, TierLeft
from harness.model.documents.verdict_facts import VerdictFacts
from harness.model.doubt_names import DoubtName
from harness.model.finding import Finding, Kind
from harness.model.outcome import Outcome
from harness.model.schemas import Columns
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.checks.log_start.delete_records import deleted_records_returned, returned, returned_by_design
from harness.verify.checks.log_start.deleted import BELOW, below_at_the_end, deleted_by, deleted_records
from harness.verify.checks.log_start.sampled import sampled_log_starts
from harness.verify.checks.tier.retention import Kept, kept_in_tier
from harness.verify.checks.tier.state import Tier
from harness.verify.engine.case import Case, Place
from harness.verify.engine.kept import kept
from harness.verify.engine.known import Known
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import UNJUDGED, Reason, found
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, Values, frame, is_drain
from harness.verify.excuses.config_history import compacted_until
from harness.verify.excuses.retention import Limits, limits_of
from harness.verify.promise import Check, Introduced, Settings, span
from harness.verify.sentences import promise

_SAMPLES: Final[Columns] = {
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "sample": "int64",
    "broker": "int32",
    "start": "int64",
    "deleted_to": "int64",  # by DeleteRecords or by leaving the remote tier, as far as the contract permits it
    "compacts": "bool",  # a cleaner may have removed records
    "limit": "int64",  # each of several size limits has its row, and any of them explains the deletion
    "keep_bytes": "int64?",  # null = no limit by size, or the size at that time is unknown
    "until_ms": "int64?",  # when that limit ended: later records are not compared with it
    "tier_bytes": "int64?",  # kept in the remote tier; null = unknown
    "tier_n": "int64?",
    "tier_end": "int64?",  # below this offset disks are not counted
    "young_ms": "int64?",  # records with this timestamp or a younger one must be there; null = no limit by time
}


class Moved(Reason):
    """Where a log start was seen."""

    REPLICA = "replica", "On a replica."


def log_start(given: Prepared, tiers: Sequence[Tier]) -> DataFrame | None:
    """Records below the highest log start that neither size nor time nor DeleteRecords explains."""
    every = [row for n, case in enumerate(given.cases) for row in _samples(n, case, tiers[n])]
    if not every:
        return None
    samples = frame(given.spark, _SAMPLES, every)
    key = [*PLACE, "sample"]
    each = [*key, "limit"]
    # The most complete copy shows how much there was to keep; a hole in another copy is a replica_divergence.
    on_copies = (
        given.batches.join(F.broadcast(samples.select(*each, "start", "tier_end", "until_ms")), PLACE)
        .where("last_offset >= greatest(start, tier_end) AND (until_ms IS NULL OR max_timestamp_ms <= until_ms)")
        .groupBy(*each, "broker")
        .agg(
            F.sum("size_bytes").alias("kept"),
            F.sum(F.col("last_offset") - F.col("base_offset") + 1).alias("kept_n"),
            _shrunk().alias("shrunk"),
        )
        .groupBy(*each)
        .agg(F.max(F.struct("kept", "kept_n", "shrunk")).alias("most"))
        .select(*each, "most.*")
    )
    # Where disks were read, a log without any batch keeps nothing.
    on_disk = given.batches.select(BUNDLE).distinct().withColumn("on_disk", F.lit(0).cast("bigint"))
    judged = samples.join(on_copies, each, "left").join(F.broadcast(on_disk), BUNDLE, "left")
    judged = judged.withColumns(
        {
            "kept": F.coalesce("kept", "on_disk") + F.col("tier_bytes"),
            "kept_n": F.coalesce("kept_n", F.lit(0)) + F.col("tier_n"),
        }
    )
    by_size = F.coalesce(F.col("kept") >= F.col("keep_bytes"), F.lit(False))
    by_some_size = F.max(by_size).over(Window.partitionBy(*key))
    judged = judged.withColumn("by_size", by_some_size).where("NOT by_size").drop("by_size")
    judged = kept(judged)  # often empty, and then the ledger is not read
    young = (
        given.ledger.join(F.broadcast(judged.select(*key, "start", "young_ms").distinct()), PLACE)
        .where((F.col("outcome") == Outcome.ACKED.value) & (F.col("offset") < F.col("start")))
        .where("young_ms IS NULL OR due_from_ns DIV 1000000 > young_ms")
    )
    young = _at_acked_offset(young, given).groupBy(*key).agg(F.min("offset").alias("first_young"))
    judged = judged.join(young, key, "left")
    by_time = F.col("young_ms").isNotNull() & F.col("first_young").isNull()
    wrong = judged.where(~by_time)
    # By size, only the bytes up to the limit are missing, converted to records of the kept records' average size.
    short = F.ceil((F.col("keep_bytes") - F.col("kept")) * F.col("kept_n") / F.col("kept"))
    short_n = F.when(F.col("kept") > 0, short)
    low = F.coalesce("first_young", F.col("start") - 1)
    wrong = wrong.withColumn("low", F.greatest("deleted_to", low, F.col("start") - short_n))
    wrong = wrong.withColumn("low", F.max("low").over(Window.partitionBy(*key)))
    shrunk = F.col("compacts") & F.coalesce("shrunk", F.lit(False))
    unknown = F.col("keep_bytes").isNotNull() & (F.col("kept").isNull() | shrunk)
    # Records from before the run may have been deleted before it; only a snapshot from its beginning shows that.
    begun = [n for n, case in enumerate(given.cases) if _first(case)]
    places = wrong.groupBy(*PLACE).agg(
        F.min("low").alias("low"),
        F.max("start").alias("start"),
        F.min(unknown).alias("unknown"),
        F.array_join(F.array_sort(F.collect_set(F.col("broker").cast("string"))), ", ").alias("brokers"),
    )
    places = kept(places)
    sent = given.ledger.where("promised").select(*PLACE, "offset", "stream", "seq")
    sent = sent.join(F.broadcast(places.select(*PLACE, "low", "start")), PLACE)
    sent = _at_acked_offset(sent.where("offset >= low AND offset < start"), given).drop("low", "start")
    rows = places.join(sent, PLACE, "left")
    unknown = F.col("unknown") | (F.col("offset").isNull() & ~F.col(BUNDLE).isin(begun))
    rows = rows.withColumns({"unknown": unknown, "offset": F.coalesce("offset", F.col("start") - 1)})
    kind = F.when(F.col("unknown"), F.lit(UNJUDGED)).otherwise(F.lit(Kind.LOG_START.value))
    return found(rows, kind, Moved.REPLICA, reader="brokers", other="start")


def _shrunk() -> Column:
    """Whether a copy lacks records between the start and its end, according to its batches."""
    begin = F.greatest("start", "tier_end")
    there = F.sum(F.col("last_offset") - F.greatest("base_offset", begin) + 1)
    whole = F.min(F.col("count") == F.col("last_offset") - F.col("base_offset") + 1)
    return ~whole | (there < F.max("last_offset") - F.max(begin) + 1)


def _at_acked_offset(reported: DataFrame, given: Prepared) -> DataFrame:
    """Acknowledgements below `start` with a record that is really there. For a batch that was sent again librdkafka may
    report offsets from the very start of the log (the broker answers -1); the drain shows where those records are."""
    shown = given.observations.where(is_drain()).select(*RECORD, F.col("offset").alias("shown"))
    elsewhere = reported.select(*RECORD, "start").join(shown, RECORD).where("shown >= start")
    return reported.join(elsewhere.select(*RECORD, "start").distinct(), [*RECORD, "start"], "left_anti")


def _samples(number: int, case: Case, tier: Tier) -> Iterator[Values]:
    """Every log start above 0 that was seen and that DeleteRecords alone does not explain."""
    last = case.last_snapshot
    before = _starts_before(case)
    sample = 0
    for snapshot in case.cluster.snapshots:
        for p in snapshot.partitions:
            limits = limits_of(case, p.topic, snapshot.at_ns)
            if snapshot.phase == "start" or (limits.sizes and snapshot is not last):
                continue  # how much was kept is known only for the last snapshot
            for log in p.logs:
                sample += 1
                place = (p.topic, p.topic_id, p.partition)
                deleted = _deleted_to(case, p.topic, p.partition, snapshot.at_ns)
                deleted = max(deleted, before.get(place, 0))
                if log.log_start > deleted and case.complete:
                    start, compacts = log.log_start, compacted_until(case, p.topic) is not None
                    row = (number, *place, sample, log.broker, start, deleted, compacts)
                    in_tier = partial(_in_tier, case, tier, place, start)
                    yield from ((*row, *bounds) for bounds in _bounds(limits, in_tier))
    yield from _seen_while_running(number, case, sample, before)


def _starts_before(case: Case) -> dict[Place, int]:
    """Log starts when the run began. Earlier deletions are not judged."""
    first = _first(case)
    return {
        (p.topic, p.topic_id, p.partition): max((log.log_start for log in p.logs), default=0)
        for p in (first.partitions if first else [])
    }


def _first(case: Case) -> Snapshot | None:
    """The snapshot from when the run began."""
    return next((s for s in case.cluster.snapshots if s.phase == "start"), None)


def _seen_while_running(number: int, case: Case, sample: int, before: Mapping[Place, int]) -> Iterator[Values]:
    """Log starts that steps saw. The bytes of that time are unknown, so only time can be judged there."""
    ids = {(p.topic, p.partition): p.topic_id for p in case.last_partitions}
    for event, _ in case.events(LogStartSeen):
        place = (event.topic, event.partition)
        limits = limits_of(case, event.topic, event.at_ns)
        deleted = _deleted_to(case, *place, event.at_ns)
        deleted = max(deleted, before.get((event.topic, ids.get(place, ""), event.partition), 0))
        if place in ids and event.log_start > deleted and not limits.sizes and case.complete:
            sample += 1
            row = (number, event.topic, ids[place], event.partition, sample, -1, event.log_start, deleted)
            yield from ((*row, False, *bounds) for bounds in _bounds(limits))


def _bounds(
    limits: Limits, in_tier: Callable[[int | None], Kept | None] = lambda _: Kept()
) -> Iterator[tuple[int | None, ...]]:
    """The columns of a sample's rows from `limit` on. in_tier: what the remote tier holds that is not younger."""
    young_ms = None if limits.young_ms is None else limits.young_ms + CLOCKS_MS
    if not limits.sizes:
        yield 0, None, None, 0, 0, 0, young_ms
    for number, size in enumerate(limits.sizes):
        kept = in_tier(size.until_ms)
        far = (None, None, None) if kept is None else (kept.size_bytes, kept.records, kept.end)
        yield number, size.keep_bytes, size.until_ms, *far, young_ms


def _in_tier(case: Case, tier: Tier, place: Place, start: int, until_ms: int | None) -> Kept | None:
    contract = case.contract.topics.get(place[0])
    if contract is None or not contract.tiered:
        return Kept()
    return kept_in_tier(tier.partitions[place], start, until_ms)


def _deleted_to(case: Case, topic: str, partition: int, at_ns: int) -> int:
    contract = case.contract.topics.get(topic)
    if contract is None:
        return 0
    deletions: list[RecordsDeleted | TierLeft] = []
    deletions += [event for event, _ in case.events(RecordsDeleted) if contract.delete_records]
    deletions += [event for event, _ in case.events(TierLeft) if contract.tier_off]
    return max(
        (
            event.before_offset
            for event in deletions
            if event.topic == topic and event.partition == partition and event.at_ns <= at_ns
        ),
        default=0,
    )


def _of_documents(known: Known) -> Addition:
    """Findings: log starts above the log, deleted records that are there again, and log starts in samples."""
    case = known.case
    at_the_end = [*_beyond_the_log(case), *deleted_records_returned(case)] if case.complete else []
    return Addition(
        findings=[*at_the_end, *sampled_log_starts(case)],
        doubts=[*_not_judged(known)],
        notes=returned_by_design(case),
        facts=VerdictFacts(
            deleted=below_at_the_end(case),
            deleted_by=deleted_by(known),
            deleted_records=deleted_records(known),
            returned=returned(case),
        ),
    )


def _not_judged(known: Known) -> Iterator[Doubt]:
    for run in known.runs:
        if run.kind == UNJUDGED:
            start = run.other_last
            lacks = "the evidence lacks the batch sizes, or the log start before the run"
            text = f"the log of {run.topic}/{run.partition} starts at {start}; {lacks}, so it may be wrong"
            yield Doubt(DoubtName.UNJUDGED, text)


def _beyond_the_log(case: Case) -> Iterator[Finding]:
    for p in case.last_partitions:
        for log in p.logs if p.high_watermark is not None else ():
            if log.log_start > max(p.high_watermark or 0, 0):
                yield Finding(
                    kind=Kind.LOG_START,
                    topic=p.topic,
                    topic_id=p.topic_id,
                    partition=p.partition,
                    reader=f"broker {log.broker}",
                    detail=f"the log starts at {log.log_start}, above the high watermark",
                    contract=promise(Kind.LOG_START, p.topic, None, case.contract),
                )


def _only_by_settings(settings: Settings) -> str:
    return settings.with_retention("only retention by size or time, DeleteRecords and deletion move the start of a log")


CHECK: Final = Check(
    promise="The start of a log moves only as far as retention, DeleteRecords and deletion permit.",
    kinds={Kind.LOG_START: Introduced(promise=_only_by_settings, rank=50)},
    seen={
        (Kind.LOG_START, Moved.REPLICA): lambda run: (
            f"the log starts at {span(run, 'offset')}, further than retention, DeleteRecords and deletion permit"
        ),
    },
    queries={"log_start": log_start},
    on_driver=(BELOW,),
    adds=_of_documents,
    order=Order(findings=20, doubts=25, notes=15),
    planted=(
        "log_start_raised",
        "log_start_raised_on_one_replica",
        "log_start_raised_and_records_gone",
        "log_start_by_an_undeclared_step",
        "near_log_start_by_delete_records",
        "near_log_start_by_size",
        "log_start_beyond_size",
        "log_start_of_deleted_records",
        "near_log_start_of_deleted_records",
        "log_start_moved_back",
        "near_log_start_moved_back_after_a_sudden_end",
        "log_start_that_a_follower_does_not_learn",
        "near_log_start_that_a_follower_has_not_learned_yet",
    ),
)
