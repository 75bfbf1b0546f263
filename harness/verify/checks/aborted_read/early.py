"""Records that a read_committed reader received before their transaction was asked to commit.

Then nothing had committed them, whatever became of the transaction later. The reader says when it received a record
(`given_ns`), and the producer when it called the end of the transaction first (`end_called_ns`): two times of one run,
and the record came before the call. Where one of them is unknown, nothing is judged.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.outcome import Outcome, TxnOutcome
from harness.verify.engine.fingerprints import OFFSETS, offset_bucket, offsets_of_bucket
from harness.verify.engine.kept import is_empty, kept, narrowed
from harness.verify.engine.numbered import LANE, place_number
from harness.verify.engine.prepared import Prepared, maybe_transactional
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, frame, is_committed

_AT: Final = [BUNDLE, LANE, "stream", "bucket"]
_EARLY: Final = {"topic": "string", "topic_id": "string", "partition": "int32", "offset": "int64", "stream": "int32"}


def read_early(given: Prepared, shown: DataFrame) -> DataFrame:
    """Each such record, with its reader and `txn_id`. shown: `fingerprints.shown_buckets`.

    Offsets of transactions and of polls are compared as bits, by bucket; only polls that came too early for a
    transaction with an offset of theirs are looked at row by row.
    """
    ends = given.transactions.where("end_called_ns IS NOT NULL").where(F.col("outcome") != TxnOutcome.ABORTED.value)
    ends = ends.select(BUNDLE, "txn_id", "end_called_ns")
    known = kept(ends.select(BUNDLE).distinct())
    if is_empty(known):
        return _nothing(given)
    acked = (F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull()
    sent = narrowed(given.ledger.where("txn_id IS NOT NULL"), known).where(acked).join(ends, [BUNDLE, "txn_id"])
    placed = sent.withColumns({LANE: place_number(), "bucket": offset_bucket()})
    words = [f"sent_{n}" for n in range(len(OFFSETS))]
    bits = [word.alias(name) for word, name in zip(offsets_of_bucket(F.lit(True)), words, strict=True)]
    of_txns = placed.groupBy(*_AT, "txn_id").agg(F.max("end_called_ns").alias("end_called_ns"), *bits)
    polls = shown.where((F.col("kind") == "live") & is_committed() & F.col("given_ns").isNotNull())
    polls = maybe_transactional(polls, given).select(*_AT, "reader", "given_ns", *OFFSETS)
    both = reduce(or_, (F.col(a).bitwiseAND(F.col(b)) != 0 for a, b in zip(words, OFFSETS, strict=True)))
    early = of_txns.join(polls, _AT).where(F.col("given_ns") < F.col("end_called_ns")).where(both)
    suspects = kept(early.select(BUNDLE, "stream", "txn_id", "reader").distinct())
    if is_empty(suspects):
        return _nothing(given)
    mine = narrowed(given.ledger.where("txn_id IS NOT NULL"), suspects, "stream", "txn_id")
    mine = mine.join(F.broadcast(suspects), [BUNDLE, "stream", "txn_id"]).join(ends, [BUNDLE, "txn_id"])
    mine = mine.select(*RECORD, *PLACE[1:], "txn_id", "reader", "end_called_ns")
    received = narrowed(given.observations, suspects, "reader", "stream").where(is_committed() & F.col("intact"))
    received = received.select(*RECORD, *PLACE[1:], "reader", "offset", "given_ns")
    rows = received.join(mine, [*RECORD, *PLACE[1:], "reader"])
    return rows.where(F.col("given_ns") < F.col("end_called_ns"))


def _nothing(given: Prepared) -> DataFrame:
    return frame(given.spark, {**_EARLY, "seq": "int64", "reader": "string", "txn_id": "int64"}, [])
