"""below_acked: a record was sent when another one had been acknowledged, and is at a lower offset.

Leaders append, so a later send gets a higher offset, whichever producer sends and whichever broker leads. Only records
count that are in the log at the offset that their acknowledgement named.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.verify.engine.ack_times import ack_times as by_time
from harness.verify.engine.ack_times import each_alone, slots
from harness.verify.engine.kept import is_empty, kept, narrowed
from harness.verify.engine.numbered import LANE, place_number
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import Only, found
from harness.verify.engine.tables import BUNDLE
from harness.verify.promise import Check, Introduced, span

_LANES: Final = [BUNDLE, LANE]
_ENTRY: Final = [*_LANES, "offset", "stream", "seq"]


def below_acked(given: Prepared, ack_times: DataFrame) -> DataFrame | None:
    """Acknowledged records with `other`, the highest offset that had been acknowledged by the time of their send."""
    suspects = kept(_overtaken(ack_times))
    if is_empty(suspects):
        return None
    acked = given.ledger.where((F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull())
    acked = acked.withColumn(LANE, place_number())
    lanes = F.broadcast(suspects.select(*_LANES).distinct())
    suspected = narrowed(acked, suspects).join(lanes, _LANES, "left_semi")
    # Only what the log has counts, because an acknowledgement may name a wrong offset.
    shown = narrowed(given.observations.where(given.widest_read), suspects).withColumn(LANE, place_number())
    there = kept(suspected.join(shown.join(lanes, _LANES, "left_semi").select(*_ENTRY), _ENTRY, "left_semi"))
    overtaken = kept(_overtaken(by_time(each_alone(there)))).withColumnRenamed("slot", "sent")
    rows = there.withColumn("sent", slots()["sent"]).join(F.broadcast(overtaken), [*_LANES, "sent"])
    return found(rows.where("offset < reached"), Kind.BELOW_ACKED, other="reached")


def _overtaken(times: DataFrame) -> DataFrame:
    """Slots of time with a send to an offset below `reached`, the highest that was acknowledged before the slot before
    it. Clocks of clients may differ by a slot."""
    ends = F.array(
        F.struct(F.col("answered").alias("slot"), "high", F.lit(None).alias("low")),
        F.struct(F.col("sent").alias("slot"), F.lit(None).alias("high"), "low"),
    )
    every = times.where("low IS NOT NULL").select(*_LANES, F.inline(ends))
    slots = every.groupBy(*_LANES, "slot").agg(F.max("high").alias("high"), F.min("low").alias("low"))
    before = Window.partitionBy(*_LANES).orderBy("slot").rangeBetween(Window.unboundedPreceding, -2)
    reached = slots.withColumn("reached", F.max("high").over(before))
    return reached.where("low < reached").select(*_LANES, "slot", "reached")


CHECK: Final = Check(
    promise="A record that is sent when another is acknowledged gets a higher offset.",
    kinds={
        Kind.BELOW_ACKED: Introduced(
            promise="a record that is sent when another is acknowledged gets a higher offset of the partition"
        )
    },
    seen={
        (Kind.BELOW_ACKED, Only.ONE): lambda run: (
            f"the send of the record was called after the record at {span(run, 'offset')} had been acknowledged"
        )
    },
    queries={"below_acked": below_acked},
    planted=(
        "below_acked_by_another_producer",
        "near_below_acked_in_flight",
        "near_below_acked_at_a_wrong_offset",
    ),
)
