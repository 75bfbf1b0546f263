"""Records that a reader received twice, or after a higher offset, within one session.

The first pass over all observations says in which buckets and polls that is so (`fingerprints.shown_buckets`). Only
those are examined row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.verify.engine.fingerprints import OFFSETS, offset_bucket
from harness.verify.engine.kept import kept, narrowed
from harness.verify.engine.numbered import LANE, READER, WHO, place_number, reader_number
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE

_SESSION: Final = [*PLACE, *READER, "session"]
_OF_READER: Final = [BUNDLE, LANE, *READER]
_WHOLE: Final = -1  # in place of a session: all those of a read
_AT_MAX: Final = "received_to"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Each with the reader, the place, the offset, and the stream and sequence number of one record there.

    conflicting: offsets at which a session of a live reader, or a whole read of a log, has several intact records.
    again: offsets that a session has more than once. back: records that a session has after a higher offset, or the
    same, which is `received_to`.
    """

    given: Prepared
    conflicting: DataFrame
    again: DataFrame
    back: DataFrame


def sessions(given: Prepared, shown: DataFrame) -> Sessions:
    """Finds the buckets and polls, immediately, and examines their rows. shown: `fingerprints.shown_buckets`.

    With `previous_offset` every step back is found; of several records that a poll returned too late, the first one is.
    Without it the order within a poll is unknown.
    """
    buckets, polls = _buckets(shown), _polls(shown)
    both = kept(buckets.unionByName(polls, allowMissingColumns=True))  # one query, because most often nothing is found
    near = kept(_near(given, both.where("bucket IS NOT NULL").select(buckets.columns), "bucket"))
    late = _near(given, both.where("poll IS NOT NULL").select(polls.columns), "session", "poll").where(
        F.col("offset") <= F.col(_AT_MAX)
    )
    stepped = near.where("offset <= previous_offset").withColumn(_AT_MAX, F.col("previous_offset"))
    columns = [*_SESSION, "offset", "stream", "seq", _AT_MAX]
    record = F.max(F.struct("intact", "stream", "seq")).alias("of")
    given_twice = near.groupBy(*_SESSION, "offset").agg(record, F.count("*").alias("n")).where("n > 1")
    turn = F.when(F.col("kind") == "live", F.col("session")).otherwise(F.lit(_WHOLE))
    intact = near.where("intact").withColumn("session", turn)
    different = intact.groupBy(*_SESSION, "offset").agg(
        record, (F.min(F.struct("stream", "seq")) < F.max(F.struct("stream", "seq"))).alias("differ")
    )
    return Sessions(
        given=given,
        conflicting=different.where("differ").select(*_SESSION, "offset", "of.stream", "of.seq"),
        again=given_twice.select(*_SESSION, "offset", "of.stream", "of.seq"),
        back=late.select(*columns).unionByName(stepped.select(*columns)).distinct(),
    )


def _buckets(shown: DataFrame) -> DataFrame:
    """Buckets of offsets with more records than offsets, or with a step back. Sessions of one read of a log may
    overlap, since a read may go back to the log's start, and must be equal where they do."""
    turn = F.when(F.col("kind") == "live", F.col("session")).otherwise(F.lit(_WHOLE))
    by_bucket = shown.groupBy(*_OF_READER, turn.alias("session"), "bucket").agg(
        F.sum("n").alias("n"),
        *[F.bit_or(bits).alias(bits) for bits in OFFSETS],
        F.max("stepped_back").alias("stepped_back"),
    )
    offsets = reduce(add, [F.bit_count(bits) for bits in OFFSETS])
    twice = F.col("n") > offsets
    return by_bucket.where(twice | F.coalesce("stepped_back", F.lit(False))).select(*_OF_READER, "bucket").distinct()


def _polls(shown: DataFrame) -> DataFrame:
    """Polls that returned offsets up to the highest one of the earlier polls of their session."""
    by_poll = shown.groupBy(*_OF_READER, "session", "poll").agg(
        F.min("at_min").alias("low"), F.max("at_max").alias("high")
    )
    earlier = Window.partitionBy(*_OF_READER, "session").orderBy("poll").rowsBetween(Window.unboundedPreceding, -1)
    received = by_poll.withColumn(_AT_MAX, F.max("high").over(earlier))
    return received.where(F.col("low") <= F.col(_AT_MAX)).select(*_OF_READER, "session", "poll", _AT_MAX)


def _near(given: Prepared, few: DataFrame, *columns: str) -> DataFrame:
    """Observations of these readers and places with the same values in the columns, with all columns of both."""
    numbers: dict[str, Column] = {LANE: place_number(), WHO: reader_number(), "bucket": offset_bucket()}
    rows = narrowed(given.observations, few, "reader", "isolation").withColumns(numbers)
    few = few.withColumn(WHO, reader_number()).drop(*READER)
    return rows.join(F.broadcast(few), [BUNDLE, LANE, WHO, *columns]).drop(LANE, WHO, "bucket")
