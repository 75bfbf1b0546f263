"""Offsets that an application received twice: processed and not committed when it died, or committed and then lost by
the coordinator. For a share group: every offset that was delivered more than once.

Figures only: such groups are promised at least once, so nothing here decides a verdict.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Row
from pyspark.sql import functions as F

from harness.model.contract.internal_topics import OFFSETS, state_partition
from harness.model.documents.steps import ReaderDied
from harness.model.outcome import Outcome
from harness.verify.checks.commit_regressed.offset_loss import skipped_by_reset
from harness.verify.engine.case import Case
from harness.verify.engine.kept import kept, narrowed
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, UNBOUNDED, Values, frame, is_drain, is_live
from harness.verify.excuses.config_history import compacted_until
from harness.verify.excuses.unclean_elections import internal_elections

_SPANS: Final = {
    "topic": "string?",  # null = any place
    "partition": "int32?",
    "reader": "string",
    "from_offset": "int64",
    "before_offset": "int64",
}


def redelivered(given: Prepared) -> list[dict[str, int]]:
    """For each bundle, by "topic/partition": how many such offsets a group received twice."""
    rows = [
        (n, *span) for n, case in enumerate(given.cases) for span in {*_died(case), *_offsets_lost(case), *_reset(case)}
    ]
    found: list[dict[str, int]] = [{} for _ in given.cases]
    for row in _shared(given):
        found[row[BUNDLE]][f"{row['topic']}/{row['partition']}"] = row["count"]
    if not rows:
        return found
    spans = F.broadcast(frame(given.spark, _SPANS, rows))
    at: list[str] = [BUNDLE, "topic", "partition", "reader"]
    of = given.observations.where(is_live())
    here = spans["partition"].isNull() | ((spans["topic"] == of["topic"]) & (spans["partition"] == of["partition"]))
    same = (spans[BUNDLE] == of[BUNDLE]) & (spans["reader"] == of["reader"]) & here
    within = (of["offset"] >= spans["from_offset"]) & (of["offset"] < spans["before_offset"])
    seen = of.join(spans, same & within, "left_semi")
    twice = seen.groupBy(*at, "offset").count().where("count > 1")
    for row in twice.groupBy(BUNDLE, "topic", "partition").count().collect():
        found[row[BUNDLE]][f"{row['topic']}/{row['partition']}"] = row["count"]
    return found


def _died(case: Case) -> list[Values]:
    return [
        (event.topic, event.partition, reader.reader, event.from_offset, event.before_offset)
        for event, _ in case.events(ReaderDied)
        for reader in case.contract.readers.values()
        if reader.group == event.group
    ]


def _reset(case: Case) -> list[Values]:
    """Everything from the start position of a member, if its group had no offset any more."""
    return [
        (row.topic, row.partition, reader.reader, row.began, UNBOUNDED)
        for reader, row, _ in skipped_by_reset(case)
        if row.committed is None and row.began is not None
    ]


def _offsets_lost(case: Case) -> list[Values]:
    """Everything that groups read if their offsets were in a log that an unclean election replaced."""
    elected = {change.partition for change in internal_elections(case, OFFSETS)}
    offsets = case.contract.offsets
    return [
        (None, None, reader.reader, 0, UNBOUNDED)
        for reader in case.contract.readers.values()
        if offsets is not None and state_partition(reader.group, offsets.partitions) in elected
    ]


def missed(given: Prepared) -> list[dict[str, int]]:
    """For each bundle, by "topic/partition": how many acknowledged records a group never received because they were
    deleted before a member started after them (auto.offset.reset), or compacted away before the group read them."""
    rows = [
        (n, row.topic, row.partition, reader.reader, row.committed or 0, row.began)
        for n, case in enumerate(given.cases)
        for reader, row, _ in skipped_by_reset(case)
        if row.began is not None
    ]
    found: list[dict[str, int]] = [{} for _ in given.cases]
    place: list[str] = [BUNDLE, "topic", "partition"]
    for row in _compacted_before_read(given):
        found[row[BUNDLE]][f"{row['topic']}/{row['partition']}"] = row["count"]
    if not rows:
        return found
    spans = F.broadcast(frame(given.spark, _SPANS, rows))
    sent = given.ledger.where((F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull()).join(
        spans, place
    )
    sent = sent.where("offset >= from_offset AND offset < before_offset").select(*place, "reader", "offset")
    received = given.observations.where(is_live()).join(spans, [*place, "reader"], "left_semi")
    left = sent.join(received, [*place, "reader", "offset"], "left_anti")
    starts = given.places.select(BUNDLE, "topic", "partition", "log_start")
    gone = left.join(starts, place).where("offset < log_start")
    for row in gone.groupBy(*place).count().collect():
        at = f"{row['topic']}/{row['partition']}"
        found[row[BUNDLE]][at] = found[row[BUNDLE]].get(at, 0) + row["count"]
    return found


def _compacted_before_read(given: Prepared) -> list[Row]:
    """By place of compacted topics: how many promised records between its first and last a group did not receive and
    no read finds any more. Records below the log start are left out, because compaction did not remove them."""
    topics = [
        (n, t)
        for n, case in enumerate(given.cases)
        for t in case.contract.topics
        if compacted_until(case, t) is not None
    ]
    groups = [(n, r.reader, r.group) for n, case in enumerate(given.cases) for r in case.contract.readers.values()]
    groups = [row for row in groups if row[2]]
    if not topics or not groups:
        return []
    place: list[str] = [BUNDLE, "topic", "partition"]
    of_topics = F.broadcast(frame(given.spark, {"topic": "string"}, topics))
    of_groups = F.broadcast(frame(given.spark, {"reader": "string", "group": "string"}, groups))
    seen = given.observations.join(of_topics, [BUNDLE, "topic"], "left_semi")
    live = seen.where(is_live()).join(of_groups, [BUNDLE, "reader"]).select(*place, "group", "offset")
    ends = kept(live.groupBy(*place, "group").agg(F.min("offset").alias("first"), F.max("offset").alias("last")))
    sent = narrowed(given.ledger, ends, "topic", "partition").where("promised AND offset IS NOT NULL")
    sent = sent.select(*place, "offset").join(F.broadcast(ends), place)
    left = sent.where("offset > first AND offset < last").join(live, [*place, "group", "offset"], "left_anti")
    gone = left.join(seen.where(is_drain()).select(*place, "offset"), [*place, "offset"], "left_anti")
    starts = given.places.select(*place, "log_start")
    return gone.join(starts, place).where("offset >= log_start").groupBy(*place).count().collect()


def _shared(given: Prepared) -> list[Row]:
    """By place: how many offsets share groups received more than once."""
    if not any(case.contract.shares for case in given.cases):
        return []
    at: list[str] = [BUNDLE, "topic", "partition"]
    twice = given.deliveries.groupBy(*at, "group", "offset").count().where("count > 1")
    return twice.groupBy(*at).count().collect()
