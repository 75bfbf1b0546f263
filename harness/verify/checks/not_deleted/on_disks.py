"""The segments on the disks of brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import functions as F

from harness.model.documents.cluster import PartitionState
from harness.model.schemas import Columns
from harness.verify.checks.not_deleted.due import due_on_disks
from harness.verify.checks.not_deleted.segments import Segment
from harness.verify.engine.case import Place
from harness.verify.engine.kept import kept, narrowed
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, frame

_DUE: Final[Columns] = {"topic": "string", "topic_id": "string", "partition": "int32", "by_ms": "int64"}


def segments_on_disks(given: Prepared) -> list[list[Segment]]:
    """The segments of the partitions with something due, on the disks of all brokers."""
    rows = [
        (number, p.topic, p.topic_id, p.partition, due[p.topic].by_ms)
        for number, case in enumerate(given.cases)
        if (due := case.once(due_on_disks))
        for p in case.last_partitions
        if p.topic in due
    ]
    found: list[list[Segment]] = [[] for _ in given.cases]
    if not rows:
        return found
    wanted = kept(frame(given.spark, _DUE, rows))
    batches = narrowed(given.batches.where("broker >= 0 AND segment IS NOT NULL"), wanted, "topic_id").join(
        F.broadcast(wanted), PLACE
    )
    old_bytes = F.sum(F.when(F.col("max_timestamp_ms") <= F.col("by_ms"), F.col("size_bytes")).otherwise(0))
    each = batches.groupBy(*PLACE, "broker", "segment").agg(
        F.min("base_offset").alias("base"),
        F.max("last_offset").alias("last"),
        F.max("max_timestamp_ms").alias("max_ms"),
        old_bytes.alias("old_bytes"),
    )
    for row in each.collect():
        place = (row["topic"], row["topic_id"], row["partition"])
        figures = [row[name] for name in ("broker", "base", "last", "max_ms", "old_bytes")]
        found[row[BUNDLE]].append(Segment(place, *figures))
    return found


def of_replicas(states: Mapping[Place, PartitionState], segments: Sequence[Segment]) -> list[Segment]:
    """Without those of brokers that have no replica at the end."""
    return [segment for segment in segments if _is_replica(states[segment.place], segment.broker)]


def _is_replica(state: PartitionState, broker: int) -> bool:
    return broker in state.replicas and broker in {log.broker for log in state.logs}


ON_DISKS: Final[OnDriver[list[Segment]]] = OnDriver(name="not_deleted", read=segments_on_disks, none=list)
