"""too_large: a batch on a disk is larger than max.message.bytes of its topic.

A leader refuses a batch that is larger when it arrives, and one that becomes larger when the leader compresses it again
(RecordTooLargeException). Followers copy batches as they are. So a broker that does not apply the setting of the topic
shows in every log. Judged are topics that were created with a setting of their own, which counts whatever the default
of brokers is, and of which no step changes it. A cleaner writes batches anew, and may enlarge them by that, so
compacted topics are left out.
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
from harness.verify.excuses.config_history import compacted_until
from harness.verify.promise import Check, Introduced

_KEY: Final = "max.message.bytes"


def too_large(given: Prepared) -> DataFrame:
    """The first offset of each such batch, once for all replicas, with its size in bytes as `other`."""
    limits = [(n, *row) for n, case in enumerate(given.cases) for row in _limits(case)]
    judged = F.broadcast(frame(given.spark, {"topic": "string", "limit_bytes": "int64"}, limits))
    batches = given.batches.where("control IS NULL").join(judged, [BUNDLE, "topic"])
    large = batches.where("size_bytes > limit_bytes").groupBy(*PLACE, F.col("base_offset").alias("offset"))
    rows = large.agg(F.max("size_bytes").alias("other"), F.min("broker").alias("broker"))
    return found(rows, Kind.TOO_LARGE, reader=F.concat(F.lit("broker "), F.col("broker").cast("string")))


def _limits(case: Case) -> Iterator[Values]:
    """By topic, the setting with which it was created."""
    changes = [*facts_in(case.steps, FactKind.CONFIG_SET, FactKind.CONFIG_TOGGLED)]
    for topic in case.scenario.topics or ():
        own = (topic.config or {}).get(_KEY)
        changed = any(fact.topic == topic.name and _KEY in (fact.config or {}) for fact in changes)
        if own is not None and not changed and compacted_until(case, topic.name) is None:
            yield topic.name, int(own)


CHECK: Final = Check(
    promise="No batch is larger than max.message.bytes of its topic.",
    kinds={
        Kind.TOO_LARGE: Introduced(
            promise="a leader refuses a batch that is larger than max.message.bytes of the topic (Kafka documentation)"
        )
    },
    seen={
        (Kind.TOO_LARGE, Only.ONE): lambda run: (
            f"the batch that begins with this record has {run.other_first:,} bytes on the disk, more than "
            "max.message.bytes"
        ),
    },
    queries={"too_large": too_large},
    nothing_without={"too_large": "batches"},
    planted=(
        "too_large",
        "near_too_large_by_nothing",
        "near_too_large_with_a_larger_setting",
        "near_too_large_after_compaction",
    ),
)
