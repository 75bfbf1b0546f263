"""Whose second copy is it? The headers of both copies' batches say.

A broker takes a batch for a repetition by producer id, epoch and sequence (KIP-98). librdkafka, after a gap in its
sequences, starts a new producer epoch and sends batches in doubt once more, which no broker can recognise; seen on
brokers that did nothing wrong. So a copy is the release's when both carry one producer id and epoch.

The release's own client has no such excuse. It too starts a new epoch after a gap (KIP-360), and numbers the batches of
that partition anew: but only where the leader has refused the first of them for its sequence, so that none of them is
in its log, or where nothing of the partition is in flight any more. What it has given up on it never sends again. A
record of one of its streams that stands twice, or before an earlier one, is a defect of the release's, be it of its
brokers or of its client.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.prepared import Prepared, is_own_client
from harness.verify.engine.tables import BUNDLE, PLACE

_BITS: Final = 8
BY_CLIENT: Final = "the client sent it again under a new producer epoch, which no broker can recognise (librdkafka)"


def explained(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with `explained_by`: for copies and turned-round records that the client wrote under two identities.

    The row's own copy stands at `offset`, the one that it is compared with at `other`. Without batch headers nothing is
    explained, and nothing that the release's own client has sent.
    """
    own_clients = given.streams.where(is_own_client()).select(BUNDLE, "stream", F.lit(True).alias("own_client"))
    rows = rows.join(F.broadcast(own_clients), [BUNDLE, "stream"], "left")
    # An application that processes twice is no client that sends twice: that one's `other` is an offset elsewhere.
    ours = F.col("kind").isin(Kind.DUPLICATED.value, Kind.REORDERED.value) & ~F.col("reason").startswith("processed")
    twice = rows.where(ours)
    wanted = twice.select(*PLACE, "offset").unionByName(twice.select(*PLACE, F.col("other").alias("offset"))).distinct()
    headers = given.batches.where("control IS NULL AND producer_id >= 0 AND last_offset - base_offset < 1000000")
    headers = headers.select(*PLACE, "base_offset", "last_offset", "producer_id", "producer_epoch")
    identified = (
        within(headers, wanted)
        .groupBy(*PLACE, "offset")
        # Replicas that disagree on who wrote it explain nothing.
        .agg(F.min(_who()).alias("who"), F.max(_who()).alias("who_else"))
        .where("who = who_else")
        .drop("who_else")
    )
    own = identified.withColumnRenamed("who", "own")
    others = identified.withColumnsRenamed({"who": "others", "offset": "other"})
    joined = rows.join(own, [*PLACE, "offset"], "left").join(others, [*PLACE, "other"], "left")
    # The copy further up was written later.
    later = F.when(F.col("kind") == Kind.DUPLICATED.value, F.col("own")).otherwise(F.col("others"))
    earlier = F.when(F.col("kind") == Kind.DUPLICATED.value, F.col("others")).otherwise(F.col("own"))
    renewed = (later["producer_id"] != earlier["producer_id"]) | (later["producer_epoch"] > earlier["producer_epoch"])
    mine = ours & F.coalesce(renewed, F.lit(False)) & F.col("own_client").isNull()
    return joined.withColumn("explained_by", F.when(mine, F.lit(BY_CLIENT))).drop("own", "others", "own_client")


def within(headers: DataFrame, wanted: DataFrame) -> DataFrame:
    """Headers with each of the wanted offsets that lie in their batch, by place."""
    near = F.explode(F.sequence(F.shiftright("base_offset", _BITS), F.shiftright("last_offset", _BITS)))
    wanted = wanted.withColumn("near", F.shiftright("offset", _BITS))
    joined = headers.withColumn("near", near).join(wanted, [*PLACE, "near"])
    return joined.where("offset BETWEEN base_offset AND last_offset").drop("near")


def _who() -> Column:
    return F.struct("producer_id", "producer_epoch")
