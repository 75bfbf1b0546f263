"""not_rolled: a segment on a disk is far larger than segment.bytes of its topic.

A log begins the next segment before an append would make the present one larger than segment.bytes. A follower appends
at once what one fetch gave it, so that the first append of a segment may be larger. A broker that does not apply the
setting of the topic fills the segment further: neither retention nor compaction nor the tier reaches its records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.facts import FactKind
from harness.model.finding import Kind
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import Only, found
from harness.verify.engine.steps import facts_in
from harness.verify.engine.tables import BUNDLE, PLACE, Values, frame
from harness.verify.promise import Check, Introduced

# Of replica.fetch.max.bytes: what a follower appends at once, beside a single batch that is larger.
_FETCHED_BYTES: Final = 1 << 20
_FACTOR: Final = 2  # so much larger than permitted that no other limit explains it
_KEYS: Final = ("segment.bytes", "log.segment.bytes")


def not_rolled(given: Prepared) -> DataFrame:
    """The first offset of each such segment, with its size in bytes as `other`."""
    limits = [(n, *row) for n, case in enumerate(given.cases) for row in _limits(case)]
    judged = F.broadcast(frame(given.spark, {"topic": "string", "limit_bytes": "int64"}, limits))
    on_disk = given.batches.where("broker >= 0 AND segment IS NOT NULL").join(judged, [BUNDLE, "topic"])
    sizes = on_disk.groupBy(*PLACE, "broker", F.col("segment").alias("offset"), "limit_bytes").agg(
        F.sum("size_bytes").alias("other"), F.max("size_bytes").alias("largest_bytes")
    )
    permitted = F.greatest("limit_bytes", "largest_bytes", F.lit(_FETCHED_BYTES))
    large = sizes.where(F.col("other") > _FACTOR * permitted)
    return found(large, Kind.NOT_ROLLED, reader=F.concat(F.lit("broker "), F.col("broker").cast("string")))


def _limits(case: Case) -> Iterator[Values]:
    """By topic, the largest value that the setting had, on the topic or on a broker, whoever set it."""
    changes = [*facts_in(case.steps, FactKind.CONFIG_SET, FactKind.CONFIG_TOGGLED)]
    for name, contract in case.contract.topics.items():
        of_topic = [fact for fact in changes if fact.topic in (name, "", None)]
        values = [int((fact.config or {})[key]) for fact in of_topic for key in _KEYS if key in (fact.config or {})]
        yield name, max([contract.segment_bytes, *values])


CHECK: Final = Check(
    promise="A log begins a new segment when the present one has reached segment.bytes.",
    kinds={
        Kind.NOT_ROLLED: Introduced(
            promise="every replica rolls its segments at segment.bytes of the topic (Kafka documentation)"
        )
    },
    seen={
        (Kind.NOT_ROLLED, Only.ONE): lambda run: (
            f"the segment that begins with this record has {run.other_first:,} bytes on the disk, far more than "
            "segment.bytes"
        ),
    },
    queries={"not_rolled": not_rolled},
    nothing_without={"not_rolled": "batches"},
    planted=("not_rolled", "near_not_rolled_with_a_large_setting"),
)
