"""phantom: a record that was never sent, or was refused when it was sent."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.tables import BUNDLE, RECORD
from harness.verify.promise import Check, Introduced


class Unsent(Reason):
    """Why a record may not be in the log."""

    NEVER_SENT = "never_sent", "No producer reserved or sent its sequence number."
    REFUSED = "refused", "Its send was refused."


def phantom(drill: Drill) -> DataFrame:
    """Intact payloads of this run outside every reserved range, or of a send that was certainly not written.

    A reserved sequence without a row in the ledger has an unknown outcome and may be there: its sender died in between.
    """
    intact = drill.read.where("intact")
    ranges = drill.given.streams.select(BUNDLE, "stream", "end_seq")
    never = intact.join(ranges, [BUNDLE, "stream"], "left").where(
        (F.col("end_seq").isNull() | (F.col("seq") >= F.col("end_seq")) | (F.col("seq") < 0)) & drill.given.complete
    )
    turned_down = drill.sent.where(F.col("outcome") == Outcome.REFUSED.value).select(*RECORD)
    refused = intact.join(turned_down, RECORD, "left_semi")
    return found(never, Kind.PHANTOM, Unsent.NEVER_SENT).unionByName(found(refused, Kind.PHANTOM, Unsent.REFUSED))


CHECK: Final = Check(
    promise="A log contains what producers sent, and nothing else.",
    kinds={Kind.PHANTOM: Introduced(promise="a log contains what producers sent, and nothing else", rank=30)},
    seen={
        (Kind.PHANTOM, Unsent.NEVER_SENT): "no producer reserved or sent this sequence number",
        (Kind.PHANTOM, Unsent.REFUSED): "the send of the record was refused, so that no log may contain it",
    },
    queries={"phantom": phantom},
    nothing_without={"phantom": "drill.read"},
    planted=(
        "phantom_of_an_unreserved_sequence",
        "phantom_of_an_unknown_stream",
        "phantom_of_a_refused_send",
        "near_phantom_reserved_and_unwritten",
        "near_phantom_refused_and_absent",
    ),
)
