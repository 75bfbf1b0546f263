"""conflicting: two reads, or one by itself, received different records at one offset."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.compare import Compared
from harness.verify.engine.rows import Only, Reason, found
from harness.verify.engine.sessions import Sessions
from harness.verify.engine.tables import OTHER_DRAIN
from harness.verify.promise import Check, Introduced


class Conflict(Reason):
    """Which reads have different records at an offset, if not two."""

    ITSELF = "itself", "One session of a live reader, or one read of a log."


def conflicting(compared: Compared) -> DataFrame:
    """Live readers and other reads of leaders compared with the drain of their isolation, and the two drains with each
    other."""
    live = found(compared.other.where(F.col("kind").isin("live", OTHER_DRAIN)), Kind.CONFLICTING)
    different = (F.col("stream") != F.col("drain_stream")) | (F.col("seq") != F.col("drain_seq"))
    drains = compared.drains.where(different & F.col("intact") & F.col("drain_intact"))
    return live.unionByName(found(drains, Kind.CONFLICTING))


def conflicting_with_itself(sessions: Sessions) -> DataFrame:
    """Offsets at which one session of a reader, or one read of a log, has several records."""
    return found(sessions.conflicting, Kind.CONFLICTING, Conflict.ITSELF)


CHECK: Final = Check(
    promise="An offset holds the same record for every reader.",
    kinds={
        Kind.CONFLICTING: Introduced(promise="an offset below the high watermark always holds the same record", rank=90)
    },
    seen={
        (Kind.CONFLICTING, Only.ONE): "the read after healing returned another record at this offset",
        (Kind.CONFLICTING, Conflict.ITSELF): "one reader received several records at this offset",
    },
    finer={Conflict.ITSELF: -1},
    queries={"conflicting": conflicting, "conflicting_with_itself": conflicting_with_itself},
    planted=(
        "conflicting_with_a_live_reader",
        "conflicting_with_an_earlier_unanswered_record",
        "conflicting_within_one_read",
        "conflicting_between_two_drains",
        "near_conflicting_two_equal_drains",
        "near_conflicting_after_a_permitted_election",
    ),
)
