"""conflicting: two readers received different records at one offset."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.compare import Compared
from harness.verify.engine.rows import Only, found
from harness.verify.promise import Check, Introduced


def conflicting(compared: Compared) -> DataFrame:
    """Live readers compared with the drain of their isolation, and the two drains with each other."""
    live = found(compared.other.where("kind = 'live'"), Kind.CONFLICTING)
    different = (F.col("stream") != F.col("drain_stream")) | (F.col("seq") != F.col("drain_seq"))
    drains = compared.drains.where(different & F.col("intact") & F.col("drain_intact"))
    return live.unionByName(found(drains, Kind.CONFLICTING))


CHECK: Final = Check(
    promise="An offset holds the same record for every reader.",
    kinds={
        Kind.CONFLICTING: Introduced(promise="an offset below the high watermark always holds the same record", rank=90)
    },
    seen={(Kind.CONFLICTING, Only.ONE): "the read after healing returned another record at this offset"},
    queries={"conflicting": conflicting},
    planted=(
        "conflicting_with_a_live_reader",
        "conflicting_with_an_earlier_unanswered_record",
        "near_conflicting_after_a_permitted_election",
    ),
)
