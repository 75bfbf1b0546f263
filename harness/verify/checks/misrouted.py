"""misrouted: a record is in another topic or partition than the one that it was sent to."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.rows import Only, found
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD
from harness.verify.excuses.topics_deleted import in_progress
from harness.verify.promise import Check, Introduced, span


def misrouted(drill: Drill) -> DataFrame:
    """Records outside the partition of their stream. Each stream writes to one partition of one topic."""
    home = drill.given.streams.select(BUNDLE, "stream", *[F.col(c).alias(f"home_{c}") for c in PLACE[1:]])
    away = [F.col(c) != F.col(f"home_{c}") for c in PLACE[1:]]
    rows = drill.read.where("intact").join(home, [BUNDLE, "stream"]).where(away[0] | away[1] | away[2])
    # A send that was in progress when its topic was deleted may be in the new topic of that name.
    here = in_progress(drill.sent).select(*RECORD, "topic", "partition")
    rows = rows.join(here, [*RECORD, "topic", "partition"], "left_anti")
    return found(rows.where(drill.given.complete), Kind.MISROUTED, other="home_partition")


CHECK: Final = Check(
    promise="A record is in the partition that it was sent to, and in no other.",
    kinds={
        Kind.MISROUTED: Introduced(promise="a record is in the partition that it was sent to, and in no other", rank=20)
    },
    seen={
        (Kind.MISROUTED, Only.ONE): lambda run: (
            f"the record was sent to {span(run, 'partition')} of this topic or of another one"
        ),
    },
    queries={"misrouted": misrouted},
    nothing_without={"misrouted": "drill.read"},
    planted=(
        "misrouted_to_another_partition",
        "misrouted_copy",
        "near_misrouted_to_another_offset",
    ),
)
