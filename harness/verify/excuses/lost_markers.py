"""Transactions whose end an unclean election took, and that an operator aborted where they hung (KIP-664, KAFKA-20716).

The coordinator has committed them and is done; the leader that acknowledged the marker alone is gone, and the one that
was elected has the records and not the marker. Aborting is all that is left to do, and it hides the records for good.

Nothing is excused by the abort itself. What is on the brokers' disks has to say that the elected replica lacked the
end: the first marker of the producer behind the transaction's first record is an abort, on every replica, and it stands
at or above the log end that survived. A marker that was there and not heeded, one that went without such an election,
and records that are gone and not hidden, condemn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, frame

_KINDS: Final = (Kind.LOST, Kind.VANISHED, Kind.TORN_TRANSACTION)
_HIDDEN: Final = "uncommitted_only"  # of what is lost: it is there, and read_committed does not show it
# What a coordinator says that has every marker acknowledged: it will write no other.
_COMMITTED: Final = "CompleteCommit"

_ABORTED: Final[Columns] = {
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "by": "string",
    "producer_id": "int64",
    "began": "int64",
    "log_end": "int64",
    "until_ns": "int64",
    "hand_why": "string",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """A transaction of a producer that began at an offset, hung behind an unclean election and was aborted there.

    log_end: what survived the election; until_ns: what was acked until then is of before it.
    """

    topic: str
    topic_id: str
    partition: int
    producer: str
    producer_id: int
    began: int
    log_end: int
    until_ns: int
    why: str


# topic, partition, surviving log end, before when, epoch
Election = tuple[str, int, int, int, int]


def by_hand(case: Case, permitted: Iterable[Election]) -> Iterator[Aborted]:
    """Aborts of what a permitted election before them may have left without its end."""
    elections = list(permitted)
    for event, _ in case.events("transaction_aborted"):
        if event["coordinator"] != _COMMITTED:
            continue
        place, began = (event["topic"], event["partition"]), event["start_offset"]
        for topic, partition, log_end, until_ns, epoch in elections:
            if (topic, partition) == place and began < log_end and until_ns <= event["asked_ns"]:
                yield Aborted(
                    topic=topic,
                    topic_id=event["topic_id"],
                    partition=partition,
                    producer=event["producer"],
                    producer_id=event["producer_id"],
                    began=began,
                    log_end=log_end,
                    until_ns=until_ns,
                    why=(
                        f"unclean election of {topic}/{partition} in epoch {epoch}, which the contract permits: its "
                        f"log ended at {log_end}, and the end of {event['producer']}'s transaction from {began} on "
                        "went with the rest; an operator aborted what hung there (KIP-664)"
                    ),
                )


def hidden_by_hand(rows: DataFrame, given: Prepared, aborted: Iterable[tuple[int, Aborted]]) -> DataFrame:
    """Rows with `excused_by` set for records of such a transaction, the one that began at that very offset."""
    hands = frame(given.spark, _ABORTED, [(number, *astuple(one)) for number, one in aborted])
    hands = _of_transactions(_without_end(hands, given), given)
    hands = hands.groupBy(*PLACE, "txn_id", "began").agg(
        *[F.max(c).alias(c) for c in ("log_end", "until_ns", "hand_why")]  # of several elections the last
    )
    joined = rows.join(F.broadcast(hands), [*PLACE, "txn_id"], "left")
    of_it = (
        F.col("kind").isin(*(kind.value for kind in _KINDS))
        & ((F.col("kind") != Kind.LOST.value) | (F.col("reason") == _HIDDEN))
        & (F.col("outcome") == Outcome.ACKED.value)
        & (F.col("txn") == TxnOutcome.COMMITTED.value)
        & (F.col("returned_ns") <= F.col("until_ns"))
        & (F.col("offset").isNull() | F.col("offset").between(F.col("began"), F.col("log_end") - 1))
    )
    excused = F.coalesce("excused_by", F.when(F.coalesce(of_it, F.lit(False)), F.col("hand_why")))
    return joined.withColumn("excused_by", excused).select(*rows.columns)


def _without_end(hands: DataFrame, given: Prepared) -> DataFrame:
    """Those whose end no replica has: the next marker of the producer there is the abort, above what survived."""
    markers = given.batches.where("control IN ('commit', 'abort')").select(
        *PLACE, "producer_id", "broker", "control", "base_offset"
    )
    behind = markers.join(F.broadcast(hands), [*PLACE, "producer_id"]).where("base_offset >= began")
    keys = [*PLACE, "producer_id", "began", "log_end"]
    first = behind.groupBy(*keys, "broker").agg(
        F.min("base_offset").alias("at"), F.min_by("control", "base_offset").alias("ended")
    )
    reported = first.groupBy(*keys).agg(
        F.bool_and((F.col("ended") == "abort") & (F.col("at") >= F.col("log_end"))).alias("hung")
    )
    return hands.join(reported.where("hung").select(*keys), keys, "left_semi")


def _of_transactions(hands: DataFrame, given: Prepared) -> DataFrame:
    """With the transaction whose first record of that partition stands where it began."""
    streams = given.streams.select(BUNDLE, "stream", "producer")
    here = F.broadcast(hands.select(*PLACE, F.col("by").alias("producer")).distinct())
    sent = given.ledger.where("txn_id IS NOT NULL AND offset IS NOT NULL").join(
        F.broadcast(streams), [BUNDLE, "stream"]
    )
    first = (
        sent.join(here, [*PLACE, "producer"]).groupBy(*PLACE, "producer", "txn_id").agg(F.min("offset").alias("began"))
    )
    return hands.join(first.withColumnRenamed("producer", "by"), [*PLACE, "by", "began"])
