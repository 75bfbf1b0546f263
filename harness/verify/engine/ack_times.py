"""When records were sent and acknowledged, by slots of time."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.clock import CLOCKS_MS
from harness.model.outcome import Outcome
from harness.verify.engine.numbered import LANE
from harness.verify.engine.tables import BUNDLE

TENTH_MS: Final = 100
_TENTHS: Final = CLOCKS_MS // TENTH_MS


def slots() -> dict[str, Column]:
    """Of a row of the ledger: `sent`, the slot of CLOCKS_MS of its send, and `tenth`, the tenth of a second of its
    end."""
    return {
        "sent": F.expr(f"called_ns DIV {CLOCKS_MS * 10**6}"),
        "tenth": F.expr(f"returned_ns DIV {TENTH_MS * 10**6}"),
    }


def each_alone(rows: DataFrame) -> DataFrame:
    """Rows of the ledger with their lane, as `fingerprints.ledger_groups` of one record each."""
    of_one = {"is_acked": F.col("outcome") == Outcome.ACKED.value, "low": F.col("offset"), "high": F.col("offset")}
    ends = {"first_ns": F.col("returned_ns"), "last_ns": F.col("returned_ns")}
    return rows.withColumns({**slots(), **of_one, **ends})


def ack_times(groups: DataFrame) -> DataFrame:
    """Groups of records by place and `slots`; `answered`: their slot of CLOCKS_MS of the end. groups:
    `fingerprints.ledger_groups`.

    called_ns: the first send. gave_up_ns: the last end without an acknowledgement. Of the acknowledged ones, first_ns
    and last_ns: the first and the last end; low, high: the offsets.
    """
    acked = F.col("is_acked")
    found = groups.groupBy(BUNDLE, LANE, *slots()).agg(
        F.min("called_ns").alias("called_ns"),
        F.max(F.when(~acked, F.col("last_ns"))).alias("gave_up_ns"),
        *[F.min(F.when(acked, F.col(name))).alias(name) for name in ("first_ns", "low")],
        *[F.max(F.when(acked, F.col(name))).alias(name) for name in ("last_ns", "high")],
    )
    return found.withColumn("answered", F.expr(f"tenth DIV {_TENTHS}"))
