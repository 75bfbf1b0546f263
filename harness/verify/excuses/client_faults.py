"""Whether the release or a client caused a finding about the copies, the order or the offsets of records.

A broker recognises a repeated batch by producer id, epoch and sequence (KIP-98). So the headers of both batches decide:
the release caused a copy when both have the same producer id and epoch, and a client wrote it otherwise.

- librdkafka, after a gap in its sequence numbers, starts a new producer epoch and sends uncertain batches again, which
  no broker can recognise; this was observed with correct brokers. If its failed tries are known, they show whether a
  broker's wrong answer caused that (denied_batches.py). It was also observed to report wrong offsets.
- The release's own client has no such excuse. It too starts a new epoch after a gap (KIP-360) and renumbers the batches
  of that partition, but only if the leader refused the first of them for its sequence number, so that none of them is
  in the log, or if nothing of the partition is in flight any more. It never sends again what it has given up. A record
  of its streams that is there twice, or before an earlier one, is a defect of the release, either of its brokers or of
  its client.
- Nothing is known about any other client. Its contract may declare that it sends again under a new producer id or epoch
  (`new_epoch_retries`); else it is unknown whether it or the release caused such a copy, which is a doubt.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import LIBRDKAFKA
from harness.verify.engine.prepared import Prepared, is_client, is_own_client
from harness.verify.engine.rows import ACKED_TWICE_NOTE, UNATTRIBUTED, AckedTwice, ByApplication, word_of
from harness.verify.engine.tables import BUNDLE, PLACE, frame
from harness.verify.excuses.denied_batches import CAUSE, CLIENT, IDENTITY, UNCLEAR, causes

_BITS: Final = 8
BY_CLIENT: Final = "librdkafka sent it again with a new producer epoch, so no broker could recognise the duplicate"
UNKNOWN_CLIENT: Final = "unknown client"


def attributed(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with `explained_by`, for copies and reordered records that a client wrote with two identities. Where it is
    unknown whether a client caused it, they become rows of other kinds: notes and doubts.

    Without batch headers nothing is explained; if tries of librdkafka failed on the partition, it is then unknown. Rows
    that are excused stay as they are, except for two records that were acknowledged at one offset: there the excuse of
    the loss says all.
    """
    excused = F.col("excused_by").isNotNull()
    twice = F.coalesce(F.col("reason").isin([reason.value for reason in AckedTwice]), F.lit(False))
    rows = rows.where(~(excused & twice))
    joined = _with_tries(_with_causes(_with_clients(_with_identities(rows, given), given), given), given)
    ours = F.col("renewed")
    declared = F.concat(
        F.lit("its client "),
        F.col("client"),
        F.lit(" sent it again with a new producer epoch, as its contract declares (new_epoch_retries), "),
        F.lit("so no broker could recognise the duplicate"),
    )
    by_client = F.col(CAUSE) == CLIENT
    why = F.when(ours & F.col("librdkafka") & by_client, F.lit(BY_CLIENT)).when(
        ours & F.col("declared") & ~F.col("own"), declared
    )
    # A stream without a reservation has no client.
    other = ~F.col("own") & ~F.col("librdkafka")
    unknown = other & (ours | (F.col("kind") == Kind.WRONG_ACK_OFFSET.value)) & why.isNull() & ~excused
    unknown |= ours & F.col("librdkafka") & (F.col(CAUSE) == UNCLEAR) & ~excused
    unknown |= F.col("unidentified") & F.col("librdkafka") & F.col("tried") & ~excused
    unknown |= F.col("reason").eqNullSafe(AckedTwice.UNKNOWN)
    kind = F.when(unknown, F.lit(UNATTRIBUTED))
    kind = kind.when(F.col("reason").eqNullSafe(AckedTwice.LIBRDKAFKA), F.lit(ACKED_TWICE_NOTE))
    # The reason of a doubt is the kind that the finding would have had.
    named = {
        "explained_by": why,
        "reason": F.when(unknown, F.col("kind")).otherwise(F.col("reason")),
        "reader": F.when(unknown, F.coalesce("client", F.lit(UNKNOWN_CLIENT))).otherwise(F.col("reader")),
        "kind": kind.otherwise(F.col("kind")),
    }
    return joined.withColumns(named).select(*rows.columns, "explained_by")


def _with_causes(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with the cause of the later batch's epoch. A client that records its failed tries sends nothing again
    without one: then the cause is unclear. Of other clients only the new epoch is known."""
    known = F.broadcast(causes(given))
    joined = rows.join(known, [BUNDLE, *IDENTITY], "left")
    unrecorded = F.when(F.col("tries_recorded"), F.lit(UNCLEAR)).otherwise(F.lit(CLIENT))
    return joined.withColumn(CAUSE, F.coalesce(CAUSE, unrecorded))


def _with_tries(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with `tried`: whether a try of their producer to send to their partition failed. Only then can it have sent
    a batch there again."""
    of_place = given.failed_sends.select(*PLACE, "producer").distinct().withColumn("tried", F.lit(True))
    joined = rows.join(F.broadcast(of_place), [*PLACE, "producer"], "left")
    return joined.withColumn("tried", F.coalesce("tried", F.lit(False)))


def _with_clients(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with what is known about the client of their stream."""
    clients = given.streams.select(
        BUNDLE,
        "stream",
        "client",
        "tries_recorded",
        is_own_client().alias("own"),
        is_client(LIBRDKAFKA).alias("librdkafka"),
    )
    producers = [
        (n, name, True)
        for n, case in enumerate(given.cases)
        for name, producer in case.contract.producers.items()
        if producer.new_epoch_retries
    ]
    declared = frame(given.spark, {"producer": "string", "declared": "bool"}, producers)
    joined = rows.join(F.broadcast(clients), [BUNDLE, "stream"], "left")
    joined = joined.join(F.broadcast(declared), [BUNDLE, "producer"], "left")
    flags = ("own", "librdkafka", "declared", "tries_recorded")
    return joined.withColumns({flag: F.coalesce(F.col(flag), F.lit(False)) for flag in flags})


def _with_identities(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with `renewed`: a copy, or a reordered record, whose later batch has another producer id or a higher epoch.

    With `unidentified`, too: one of its two batches is in no log that was read, as in a run that was interrupted.

    The row's own copy is at `offset`, the one that it is compared with at `other`.
    """
    # An application that processes twice is not a client that sends twice: its `other` is an offset elsewhere.
    copies = F.col("kind").isin(Kind.DUPLICATED.value, Kind.REORDERED.value)
    ours = copies & (word_of() != ByApplication.PROCESSED)
    twice = rows.where(ours)
    wanted = twice.select(*PLACE, "offset").unionByName(twice.select(*PLACE, F.col("other").alias("offset"))).distinct()
    headers = given.batches.where("control IS NULL AND producer_id >= 0 AND last_offset - base_offset < 1000000")
    headers = headers.select(*PLACE, "base_offset", "last_offset", "producer_id", "producer_epoch")
    identified = (
        within(headers, wanted)
        .groupBy(*PLACE, "offset")
        # If replicas disagree on the identity, nothing is explained.
        .agg(F.min(_identity()).alias("least"), F.max(_identity()).alias("greatest"))
        .select(*PLACE, "offset", F.when(F.col("least") == F.col("greatest"), F.col("least")).alias("identity"))
        .withColumn("known", F.lit(True))
    )
    own = identified.withColumnsRenamed({"identity": "own", "known": "own_known"})
    others = identified.withColumnsRenamed({"identity": "others", "offset": "other", "known": "other_known"})
    joined = rows.join(own, [*PLACE, "offset"], "left").join(others, [*PLACE, "other"], "left")
    # The copy at the higher offset was written later.
    later = F.when(F.col("kind") == Kind.DUPLICATED.value, F.col("own")).otherwise(F.col("others"))
    earlier = F.when(F.col("kind") == Kind.DUPLICATED.value, F.col("others")).otherwise(F.col("own"))
    renewed = (later["producer_id"] != earlier["producer_id"]) | (later["producer_epoch"] > earlier["producer_epoch"])
    unidentified = ours & (F.col("own_known").isNull() | F.col("other_known").isNull())
    columns = {
        "renewed": ours & F.coalesce(renewed, F.lit(False)),
        "unidentified": unidentified,
        **{name: earlier[name] for name in IDENTITY},
    }
    return joined.withColumns(columns).drop("own", "others", "own_known", "other_known")


def within(headers: DataFrame, wanted: DataFrame) -> DataFrame:
    """Headers joined with each wanted offset that their batch covers, by place."""
    near = F.explode(F.sequence(F.shiftright("base_offset", _BITS), F.shiftright("last_offset", _BITS)))
    wanted = wanted.withColumn("near", F.shiftright("offset", _BITS))
    joined = headers.withColumn("near", near).join(wanted, [*PLACE, "near"])
    return joined.where("offset BETWEEN base_offset AND last_offset").drop("near")


def _identity() -> Column:
    return F.struct(*IDENTITY)
