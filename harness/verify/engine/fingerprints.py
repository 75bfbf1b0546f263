"""Finds where two sides differ without joining their rows.

For each bucket of sequence numbers or offsets both sides are reduced to a count, an exclusive or and a sum of 64-bit
hashes; only buckets that differ are examined row by row. Buckets are small because every legal difference (a record of
unknown outcome that was written, the end of a live reader) costs its whole bucket; the number of buckets is still a
small part of the number of rows.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.outcome import Outcome, TxnOutcome
from harness.verify.engine.tables import BUNDLE, PLACE, is_committed
from harness.verify.engine.windows import WINDOWS, within

if TYPE_CHECKING:
    from harness.verify.engine.prepared import Prepared

# Buckets of 1,024 sequence numbers; of 256 offsets, because readers start and stop within one.
_SEQ_BITS: Final = 10
OFFSET_BITS: Final = 8
# Brokers and clients run on one machine: allowed difference between their clocks.
CLOCKS_MS: Final = 500
_SESSION: Final = ["kind", "reader", "session", "isolation"]
_PRINT, _TIMES, _LANE = "_print", "_times", "_lane"
STREAM_BUCKET: Final = [BUNDLE, "stream", "bucket"]


def seq_bucket() -> Column:
    """The bucket of a row's sequence number."""
    return F.shiftright("seq", _SEQ_BITS)


def offset_bucket() -> Column:
    """The bucket of a row's offset."""
    return F.shiftright("offset", OFFSET_BITS)


def fingerprint(prefix: str, among: Column) -> list[Column]:
    """Count, exclusive or and sum over the hashes of those rows of a group for which `among` holds. The hash is a
    column of the rows, so that it is computed once for each row and not in every aggregate."""
    counted = F.when(among, F.col(_PRINT))
    return [
        F.count(counted).alias(f"{prefix}_n"),
        F.coalesce(F.bit_xor(counted), F.lit(0)).alias(f"{prefix}_xor"),
        # Half of the hash, so that the sum over two billion rows does not overflow.
        F.coalesce(F.sum(counted.bitwiseAND(0xFFFFFFFF)), F.lit(0)).alias(f"{prefix}_sum"),
    ]


def _printed(rows: DataFrame) -> DataFrame:
    """Rows with the hashes that ledger and drain are compared by."""
    rows = rows.withColumn(_LANE, place_id())
    return rows.withColumns(
        {_PRINT: F.xxhash64("stream", "seq", _LANE, "offset"), _TIMES: F.xxhash64("seq", "timestamp_ms")}
    )


def _differ(prefix: str) -> Column:
    columns = [f"{prefix}_{part}" for part in ("n", "xor", "sum")]
    return reduce(or_, (~F.col(f"left.{c}").eqNullSafe(F.col(f"right.{c}")) for c in columns))


def ill_timed(timestamp_ms: str) -> Column:
    """Whether a timestamp, the client's or the log's, is outside the time in which it was due."""
    at = F.col(timestamp_ms)
    early = at < F.floor(F.col("due_from_ns") / 10**6) - CLOCKS_MS
    return early | (at > F.ceil(F.col("due_to_ns") / 10**6) + CLOCKS_MS)


def _times(prefix: str, among: Column) -> list[Column]:
    """The sequence numbers and timestamps of the rows as one number."""
    return [F.coalesce(F.bit_xor(F.when(among, F.col(_TIMES))), F.lit(0)).alias(f"{prefix}_times")]


def place_id() -> Column:
    """A topic-partition as one number, which is much cheaper to compare and to aggregate than its names."""
    return F.xxhash64(*PLACE[1:])


def ledger_buckets(ledger: DataFrame, windows: DataFrame) -> DataFrame:
    """The ledger by stream, place and bucket of sequence numbers: all that is needed of records without a defect."""
    acked, reported, promised = F.col("_acked"), F.col("_reported"), F.col("_promised")
    undecided = F.col("txn").eqNullSafe(TxnOutcome.UNKNOWN.value)
    is_acked = F.col("outcome") == Outcome.ACKED.value
    is_reported = is_acked & F.col("offset").isNotNull()
    rows = _printed(ledger.join(windows, BUNDLE, "left")).withColumns(
        {
            "_acked": is_acked,
            "_reported": is_reported,
            "_promised": is_reported & F.col("promised"),
            "bucket": seq_bucket(),
        }
    )
    return rows.groupBy(BUNDLE, "stream", *PLACE[1:], "bucket").agg(
        *fingerprint("rc", promised),
        *fingerprint("ru", reported),
        F.max((acked & F.col("offset").isNull()) | undecided).alias("always"),
        F.min(F.when(reported, F.col("timestamp_ms").isNotNull())).alias("exact"),
        *_times("rc", promised),
        *_times("ru", reported),
        F.min(F.when(reported, F.col("due_from_ns"))).alias("due_from_ns"),
        F.max(F.when(reported, F.col("due_to_ns"))).alias("due_to_ns"),
        F.max("seq").alias("last_seq"),
        F.count("*").alias("attempted"),
        F.count_if(acked).alias("acked"),
        F.count_if("promised").alias("promised"),
        F.count_if(F.col("outcome") == Outcome.REFUSED.value).alias("refused"),
        F.count_if(F.col("outcome") == Outcome.UNKNOWN.value).alias("unknown"),
        F.max(F.when(promised, F.col("offset"))).alias("promised_to"),
        F.min(F.when(promised & within("after", "called_ns", "called_ns"), F.col("offset"))).alias("offset_after"),
        *[F.count_if(acked & within(window, "returned_ns", "returned_ns")).alias(window) for window in WINDOWS],
    )


def drained_buckets(given: Prepared) -> DataFrame:
    """The records that the drain returned, by bucket of sequence numbers. `lane`, `shift`, `at`: the smallest and
    largest place, difference of offset and sequence number, and offset of the records that `reordered` compares."""
    compared, committed = F.col("_compared"), F.col("_committed")
    rows = _printed(given.observations.where(given.drained)).withColumns(
        {
            "_compared": given.widest_read & F.col("intact") & (F.col("stream") >= 0),
            "_committed": is_committed(),
            "bucket": seq_bucket(),
            "shift": F.col("offset") - F.col("seq"),
        }
    )
    ordered = {"lane": _LANE, "shift": "shift", "at": "offset"}
    return rows.groupBy(BUNDLE, "stream", "bucket").agg(
        *fingerprint("rc", committed),
        *fingerprint("ru", ~committed),
        F.max(~F.col("intact")).alias("damaged"),
        F.min("timestamp_ms").alias("oldest_ms"),
        F.max("timestamp_ms").alias("newest_ms"),
        *_times("rc", committed),
        *_times("ru", ~committed),
        *[
            limit(F.when(compared, F.col(value))).alias(f"{name}_{end}")
            for name, value in ordered.items()
            for end, limit in (("min", F.min), ("max", F.max))
        ],
    )


def stream_buckets(given: Prepared, read: DataFrame) -> DataFrame:
    """Buckets of sequence numbers in which the drain does not return exactly the promised records at their places.
    read: `drained_buckets`.

    read_committed is compared with acknowledged records outside aborted or unknown transactions, read_uncommitted, if
    the drain returned anything with it, with all acknowledged ones. Always included are buckets with acknowledgements
    without an offset, with transactions of unknown outcome (their parts must agree), and with timestamps outside the
    time of their sends, or other than reported.
    """
    sums = [f"{prefix}_{part}" for prefix in ("rc", "ru") for part in ("n", "sum")]
    numbers = [f"{prefix}_{part}" for prefix in ("rc", "ru") for part in ("xor", "times")]
    sent = given.sent.groupBy(*STREAM_BUCKET).agg(
        *[F.sum(c).alias(c) for c in sums],
        *[F.bit_xor(c).alias(c) for c in numbers],
        *[F.max(c).alias(c) for c in ("always", "due_to_ns")],
        *[F.min(c).alias(c) for c in ("exact", "due_from_ns")],
    )
    wide = F.broadcast(read.where("ru_n > 0").select(BUNDLE, F.lit(True).alias("wide")).distinct())
    joined = sent.alias("left").join(read.alias("right"), STREAM_BUCKET, "full_outer").join(wide, BUNDLE, "left")
    is_wide = F.coalesce("wide", F.lit(False))
    kept = _differ("rc") | (is_wide & _differ("ru")) | F.coalesce("always", F.lit(False))
    kept |= F.coalesce("damaged", F.lit(False))
    kept |= F.coalesce(ill_timed("oldest_ms"), F.lit(False))
    kept |= F.coalesce(ill_timed("newest_ms"), F.lit(False))
    other_times = F.when(is_wide, _other_times("ru")).otherwise(_other_times("rc"))
    kept |= F.coalesce(F.col("exact") & other_times, F.lit(False))
    return joined.where(kept).select(*STREAM_BUCKET)


def _other_times(prefix: str) -> Column:
    return F.col(f"left.{prefix}_times") != F.col(f"right.{prefix}_times")


def reader_buckets(observations: DataFrame) -> DataFrame:
    """Fingerprints of each session of each reader, by place and bucket of offsets, with the lowest and highest
    offset."""
    # The place is a key, so the hash does not need it.
    rows = observations.withColumns(
        {_PRINT: F.xxhash64("stream", "seq", "offset", "leader_epoch"), "bucket": offset_bucket()}
    )
    return rows.groupBy(*PLACE, *_SESSION, "bucket").agg(
        *fingerprint("all", F.lit(True)), F.min("offset").alias("low"), F.max("offset").alias("high")
    )


def together(prints: DataFrame, keys: list[str]) -> DataFrame:
    """Fingerprints combined over readers: by place, bucket and `keys` only."""
    return prints.groupBy(*PLACE, *keys, "bucket").agg(
        F.sum("all_n").alias("all_n"),
        F.bit_xor("all_xor").alias("all_xor"),
        F.sum("all_sum").alias("all_sum"),
        F.min("low").alias("low"),
        F.max("high").alias("high"),
    )


def differing(left: DataFrame, right: DataFrame, keys: list[str]) -> DataFrame:
    """Rows of `left` (with its keys) with a missing or different fingerprint on the right."""
    joined = left.alias("left").join(right.alias("right"), keys, "left")
    return joined.where(_differ("all")).select(*[f"left.{c}" for c in left.columns if not c.startswith("all_")])
