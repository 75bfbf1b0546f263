"""Places whose logs lack records by permission, and from where on a leader must nevertheless answer correctly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.documents.cluster import PartitionState
from harness.model.schemas import Columns
from harness.verify.engine.case import UNCOMMITTED, Case, drains_of
from harness.verify.engine.elections import leader_changes
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import PLACE, Values, frame
from harness.verify.excuses.config_history import compacted_until
from harness.verify.excuses.retention import may_delete

_SHORTENED: Final[Columns] = {
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "log_start": "int64",  # the highest one of all replicas
    "leader": "int32?",
    "leader_start": "int64?",
    "moving": "bool",  # retention may have raised it since
    "compacted": "bool",
    "finds": "bool",  # whether a leader names no later record for a time than the first one that is there
    "finds_any": "bool",  # whether it can be known that it must name one
    "empty_ms": "int64?",  # the latest time of a file on its disk that compaction has emptied
    "own_copy": "bool",  # whether the drain read what the leader had when it was asked
}


def shortened_places(given: Prepared) -> DataFrame | None:
    """Places of finished runs where retention, compaction, DeleteRecords or tier_off may have removed records; None if
    there are none. `from`: the log started there or lower until all questions had been answered. Without retention
    that is the start in the last snapshot; with it, the start that a leader reported after these questions."""
    rows = [row for n, case in enumerate(given.cases) if case.complete for row in _shortened(n, case)]
    if not rows:
        return None
    places = F.broadcast(frame(given.spark, _SHORTENED, rows))
    after = F.max(F.greatest("log_start", "log_start_after")).alias("after")
    reported = given.probes.where("log_start_after IS NOT NULL").groupBy(*PLACE).agg(after)
    places = places.join(F.broadcast(reported), PLACE, "left").where("NOT moving OR after IS NOT NULL")
    stayed = ~F.col("moving") | F.coalesce(F.col("leader_start") == F.col("after"), F.lit(False))
    places = places.withColumns({"from": F.greatest("log_start", "after"), "finds_any": F.col("finds_any") & stayed})
    return places.drop("log_start", "leader_start", "after", "moving")


def _shortened(number: int, case: Case) -> Iterator[Values]:
    for p in case.last_partitions:
        topic = case.contract.topics.get(p.topic)
        if topic is None or not {*p.replicas} <= {log.broker for log in p.logs} or not p.logs:
            continue
        moving, compacted = may_delete(case, p.topic), compacted_until(case, p.topic) is not None
        if moving or compacted or topic.delete_records or topic.tier_off:
            starts = {log.broker: log.log_start for log in p.logs}
            own_copy = not compacted or _own_copy(case, p)
            finds = own_copy and not (topic.tiered or topic.tier_off)
            # What was searched may have been deleted since, so that no disk shows it.
            finds_any = finds and not (moving and topic.delete_records)
            finds_any &= not compacted or case.cluster.empty_segments is not None
            of_leader = None if p.leader is None else starts.get(p.leader)
            yield (
                number,
                *p.place,
                max(starts.values()),
                p.leader,
                of_leader,
                moving,
                compacted,
                finds,
                finds_any,
                _empty_ms(case, p),
                own_copy,
            )


def _empty_ms(case: Case, p: PartitionState) -> int | None:
    segments = case.cluster.empty_segments or ()
    here = [s for s in segments if (s.topic, s.partition, s.broker) == (p.topic, p.partition, p.leader)]
    return max((segment.modified_ms for segment in here), default=None)


def _own_copy(case: Case, p: PartitionState) -> bool:
    """Whether one leader served the drain and led until the end. Each replica compacts its own copy, and one that was
    built from a compacted copy never had what had been removed by then."""
    drain = drains_of(case).get((p.place, UNCOMMITTED))
    healed_ns = [snapshot.at_ns for snapshot in case.cluster.snapshots if snapshot.phase == "healed"]
    if drain is None or not healed_ns or case.history is None or drain.served_by != (p.leader,):
        return False
    changes = [change for change in leader_changes(case) if change.concerns(p.topic, p.partition, p.topic_id)]
    return all(change.at_ns < healed_ns[0] for change in changes)
