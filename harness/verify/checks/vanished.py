"""vanished: a reader received a record, whatever its outcome, and the log no longer contains it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.compare import Compared
from harness.verify.engine.prepared import at_place
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.tables import OTHER_DRAIN, PLACE, is_committed
from harness.verify.promise import Check, Introduced, span


class Vanished(Reason):
    """The content of the log at the offset of a record that a reader received."""

    GONE = "gone", "Nothing."
    GONE_COMMITTED = "gone_committed", "The same, and the reader was read_committed."
    IN_ANOTHER_READ = "in_another_read", "Nothing, and another read after healing received it."
    IN_ANOTHER_COMMITTED = "in_another_committed", "The same, and that read was read_committed."
    WRITTEN_AGAIN = "written_again", "The same record, in a batch of a later leader."


def vanished(compared: Compared) -> DataFrame:
    """Records that a live reader, or another read after healing, received and that the drain of the same isolation
    passes over.

    Readers receive only records below the high watermark, which must stay. Records below the log start, and records
    that the drain did not reach, are left out. A record is also gone if a later leader wrote it again at the same
    offset: a batch keeps its leader epoch (KIP-101), so the batch that the reader received was truncated.
    """
    rows = at_place(compared.unshown.where(_others()), compared.given.places)
    # If read_committed returns it at this offset, it exists: the other drain skipped it.
    there = compared.drains.where("drain_stream IS NULL").select(*PLACE, "offset", "stream", "seq")
    rows = rows.join(there, [*PLACE, "offset", "stream", "seq"], "left_anti")
    position = F.when(is_committed(), F.col("committed")).otherwise(F.col("uncommitted"))
    passed = F.coalesce((position > F.col("offset")) | (F.col("log_end") <= F.col("offset")), F.lit(False))
    rows = rows.where(passed & (F.col("offset") >= F.col("log_start")))
    # A record of an aborted transaction becomes an aborted_read once its send is known.
    live = F.when(is_committed(), F.lit(Vanished.GONE_COMMITTED)).otherwise(F.lit(Vanished.GONE))
    read = F.when(is_committed(), F.lit(Vanished.IN_ANOTHER_COMMITTED)).otherwise(F.lit(Vanished.IN_ANOTHER_READ))
    reason = F.when(F.col("kind") == "live", live).otherwise(read)
    again = found(compared.moved.where(_others()), Kind.VANISHED, Vanished.WRITTEN_AGAIN, other="drain_epoch")
    return found(rows, Kind.VANISHED, reason).unionByName(again)


def _others() -> Column:
    """Whether a row is of a reader that the drain must not fall short of: all but replicas."""
    return F.col("kind").isin("live", OTHER_DRAIN)


CHECK: Final = Check(
    promise="A record that a consumer received stays in the log.",
    kinds={
        Kind.VANISHED: Introduced(
            promise=(
                "a record that a consumer received is below the high watermark and stays in the log (unclean "
                "elections aside)"
            ),
            rank=80,
        )
    },
    seen={
        (Kind.VANISHED, Vanished.GONE): (
            "a live reader received the record, and after healing no record is at its offset"
        ),
        (Kind.VANISHED, Vanished.IN_ANOTHER_READ): (
            "one read after healing received the record, and another one found no record at its offset"
        ),
        (Kind.VANISHED, Vanished.WRITTEN_AGAIN): lambda run: (
            f"a reader received the record from a batch that was truncated later; the batch there now has "
            f"{span(run, 'leader epoch')}"
        ),
    },
    of_committed={
        Vanished.GONE_COMMITTED: Vanished.GONE,
        Vanished.IN_ANOTHER_COMMITTED: Vanished.IN_ANOTHER_READ,
    },
    queries={"vanished": vanished},
    planted=(
        "vanished_of_unknown_outcome",
        "vanished_above_every_log",
        "vanished_at_a_marker",
        "vanished_and_written_again",
        "vanished_between_two_drains",
        "near_vanished_without_an_epoch",
        "near_vanished_below_the_log_start",
        "near_vanished_unknown_and_unseen",
        "vanished_of_an_aborted_transaction",
    ),
)
