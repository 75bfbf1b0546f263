"""misrouted: right record, wrong topic or partition."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.rows import found
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD
from harness.verify.excuses.topics_deleted import underway


def misrouted(drill: Drill) -> DataFrame:
    """A stream belongs to one partition of one topic; whatever stands elsewhere was brought there by someone else."""
    home = drill.given.streams.select(BUNDLE, "stream", *[F.col(c).alias(f"home_{c}") for c in PLACE[1:]])
    away = [F.col(c) != F.col(f"home_{c}") for c in PLACE[1:]]
    rows = drill.read.where("intact").join(home, [BUNDLE, "stream"]).where(away[0] | away[1] | away[2])
    # In the topic that has the name now, at its partition, may stand what was underway when the old one was deleted.
    here = underway(drill.sent).select(*RECORD, "topic", "partition")
    rows = rows.join(here, [*RECORD, "topic", "partition"], "left_anti")
    return found(rows.where(drill.given.complete), Kind.MISROUTED, other="home_partition")
