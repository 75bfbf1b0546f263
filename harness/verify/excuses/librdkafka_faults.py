"""Whether the release or the client caused a second copy: the headers of both batches decide.

A broker recognises a repeated batch by producer id, epoch and sequence (KIP-98). librdkafka, after a gap in its
sequence numbers, starts a new producer epoch and sends uncertain batches again, which no broker can recognise; this was
observed with correct brokers. So the release caused a copy when both batches have the same producer id and epoch.

The release's own client has no such excuse. It too starts a new epoch after a gap (KIP-360) and renumbers the batches
of that partition, but only if the leader refused the first of them for its sequence number, so that none of them is in
the log, or if nothing of the partition is in flight any more. It never sends again what it has given up. A record of
its streams that is there twice, or before an earlier one, is a defect of the release, either of its brokers or of its
client.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.prepared import Prepared, is_own_client
from harness.verify.engine.tables import BUNDLE, PLACE

_BITS: Final = 8
BY_CLIENT: Final = "librdkafka sent it again with a new producer epoch, so no broker could recognise the duplicate"


def explained(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with `explained_by`, for copies and reordered records that the client wrote with two identities.

    The row's own copy is at `offset`, the one that it is compared with at `other`. Without batch headers nothing is
    explained, and nothing that the release's own client sent.
    """
    java_clients = given.streams.where(is_own_client()).select(BUNDLE, "stream", F.lit(True).alias("own_client"))
    rows = rows.join(F.broadcast(java_clients), [BUNDLE, "stream"], "left")
    # An application that processes twice is not a client that sends twice: its `other` is an offset elsewhere.
    ours = F.col("kind").isin(Kind.DUPLICATED.value, Kind.REORDERED.value) & ~F.col("reason").startswith("processed")
    twice = rows.where(ours)
    wanted = twice.select(*PLACE, "offset").unionByName(twice.select(*PLACE, F.col("other").alias("offset"))).distinct()
    headers = given.batches.where("control IS NULL AND producer_id >= 0 AND last_offset - base_offset < 1000000")
    headers = headers.select(*PLACE, "base_offset", "last_offset", "producer_id", "producer_epoch")
    identified = (
        within(headers, wanted)
        .groupBy(*PLACE, "offset")
        # If replicas disagree on the identity, nothing is explained.
        .agg(F.min(_identity()).alias("identity"), F.max(_identity()).alias("other_identity"))
        .where("identity = other_identity")
        .drop("other_identity")
    )
    own = identified.withColumnRenamed("identity", "own")
    others = identified.withColumnsRenamed({"identity": "others", "offset": "other"})
    joined = rows.join(own, [*PLACE, "offset"], "left").join(others, [*PLACE, "other"], "left")
    # The copy at the higher offset was written later.
    later = F.when(F.col("kind") == Kind.DUPLICATED.value, F.col("own")).otherwise(F.col("others"))
    earlier = F.when(F.col("kind") == Kind.DUPLICATED.value, F.col("others")).otherwise(F.col("own"))
    renewed = (later["producer_id"] != earlier["producer_id"]) | (later["producer_epoch"] > earlier["producer_epoch"])
    mine = ours & F.coalesce(renewed, F.lit(False)) & F.col("own_client").isNull()
    return joined.withColumn("explained_by", F.when(mine, F.lit(BY_CLIENT))).drop("own", "others", "own_client")


def within(headers: DataFrame, wanted: DataFrame) -> DataFrame:
    """Headers joined with each wanted offset that their batch covers, by place."""
    near = F.explode(F.sequence(F.shiftright("base_offset", _BITS), F.shiftright("last_offset", _BITS)))
    wanted = wanted.withColumn("near", F.shiftright("offset", _BITS))
    joined = headers.withColumn("near", near).join(wanted, [*PLACE, "near"])
    return joined.where("offset BETWEEN base_offset AND last_offset").drop("near")


def _identity() -> Column:
    return F.struct("producer_id", "producer_epoch")
