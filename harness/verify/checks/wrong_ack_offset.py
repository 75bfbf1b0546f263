"""wrong_ack_offset: a record is at another offset than the acknowledged one.

A finding if the release's own client received the acknowledgement. For librdkafka only a note: it was observed to
report such offsets with correct brokers. For any other client a doubt (`client_faults`): it is unknown whether it
reports the offsets that brokers name.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import LIBRDKAFKA, Outcome
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.prepared import is_client
from harness.verify.engine.rows import WRONG_ACK_OFFSET_NOTE, WRONG_ACK_OFFSET_WEAK, Only, found
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD
from harness.verify.promise import Check, Introduced, span


def wrong_ack_offset(drill: Drill) -> DataFrame:
    """Acknowledged records that are in their partition, but not at the offset that the broker acknowledged.

    Only a note with less than acks=all: the acknowledged copy may be lost by permission, and an earlier copy of a send
    that was tried twice may stay.
    """
    reported = drill.sent.where((F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull())
    reported = reported.select(*RECORD, *PLACE[1:], F.col("offset").alias("reported"))
    seen = drill.read.groupBy(*RECORD, *PLACE[1:]).agg(
        F.collect_set("offset").alias("at"), F.min("offset").alias("offset")
    )
    rows = seen.join(reported, [*RECORD, *PLACE[1:]]).where(~F.array_contains("at", F.col("reported")))
    kind = (
        F.when(is_client(LIBRDKAFKA), F.lit(WRONG_ACK_OFFSET_NOTE))
        .when(F.col("acks") == "all", F.lit(Kind.WRONG_ACK_OFFSET.value))
        .otherwise(F.lit(WRONG_ACK_OFFSET_WEAK))
    )
    kinds = drill.given.streams.select(BUNDLE, "stream", kind.alias("kind"))
    rows = rows.join(F.broadcast(kinds), [BUNDLE, "stream"])
    return found(rows, F.col("kind"), other="reported")


CHECK: Final = Check(
    promise="An acknowledgement names the offset that the record has.",
    kinds={
        Kind.WRONG_ACK_OFFSET: Introduced(
            promise="an acknowledgement names the offset that the record has (RecordMetadata)"
        )
    },
    seen={
        (Kind.WRONG_ACK_OFFSET, Only.ONE): lambda run: (
            f"the acknowledgement to the release's own client named {span(run, 'offset')}"
        ),
    },
    queries={"wrong_ack_offset": wrong_ack_offset},
    nothing_without={"wrong_ack_offset": "drill.read"},
    planted=(
        "wrong_ack_offset_of_the_own_client",
        "near_wrong_ack_offset_none_reported",
    ),
)
