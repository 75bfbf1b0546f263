"""When records were sent and acknowledged, by slots of time: the one pass over the times of all records."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.clock import CLOCKS_MS
from harness.model.outcome import Outcome
from harness.verify.engine.numbered import LANE
from harness.verify.engine.tables import BUNDLE

TENTH_MS: Final = 100
_TENTHS: Final = CLOCKS_MS // TENTH_MS


def ack_times(rows: DataFrame) -> DataFrame:
    """Rows of the ledger with their lane, by `sent`, the slot of CLOCKS_MS of their send, and `tenth`, the tenth of a
    second of their end; `answered`: its slot of CLOCKS_MS.

    called_ns: the first send. gave_up_ns: the last end without an acknowledgement. Of the acknowledged ones, first_ns
    and last_ns: the first and the last end; low, high: the offsets.
    """
    acked = F.col("outcome") == Outcome.ACKED.value
    acked_ns, offset = F.when(acked, F.col("returned_ns")), F.when(acked, F.col("offset"))
    sent = F.expr(f"called_ns DIV {CLOCKS_MS * 10**6}").alias("sent")
    tenth = F.expr(f"returned_ns DIV {TENTH_MS * 10**6}").alias("tenth")
    grouped = rows.groupBy(BUNDLE, LANE, sent, tenth).agg(
        F.min("called_ns").alias("called_ns"),
        F.max(F.when(~acked, F.col("returned_ns"))).alias("gave_up_ns"),
        F.min(acked_ns).alias("first_ns"),
        F.max(acked_ns).alias("last_ns"),
        F.min(offset).alias("low"),
        F.max(offset).alias("high"),
    )
    return grouped.withColumn("answered", F.expr(f"tenth DIV {_TENTHS}"))
