"""Finds where two sides differ without joining their rows.

For each bucket of sequence numbers or offsets both sides are reduced to a count, an exclusive or and a sum of 64-bit
hashes; only buckets that differ are examined row by row. Buckets are small because every legal difference (a record of
unknown outcome that was written, the end of a live reader) costs its whole bucket; the number of buckets is still a
small part of the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.clock import CLOCKS_MS
from harness.model.outcome import Outcome, TxnOutcome
from harness.verify.engine.ack_times import slots
from harness.verify.engine.kept import kept
from harness.verify.engine.numbered import (
    LANE,
    READER,
    WHO,
    named,
    packed,
    place_number,
    reader_number,
    unpacked,
)
from harness.verify.engine.tables import BUNDLE, PLACE, RECORDED, is_committed
from harness.verify.engine.windows import WINDOWS, within

if TYPE_CHECKING:
    from harness.verify.engine.prepared import Prepared

# Buckets of 1,024 sequence numbers; of 256 offsets, because readers start and stop within one.
_SEQ_BITS: Final = 10
OFFSET_BITS: Final = 8
# The offsets of a bucket as the bits of so many 64-bit numbers.
OFFSETS: Final = [f"offsets_{nth}" for nth in range(1 << OFFSET_BITS - 6)]
_PRINT, _TIMES, _EPOCH, _BIT, _NTH = "_print", "_times", "_epoch", "_bit", "_nth"
STREAM_BUCKET: Final = [BUNDLE, "stream", "bucket"]


def seq_bucket() -> Column:
    """The bucket of a row's sequence number."""
    return F.shiftright("seq", _SEQ_BITS)


def offset_bucket() -> Column:
    """The bucket of a row's offset."""
    return F.shiftright("offset", OFFSET_BITS)


def _printed(rows: DataFrame) -> DataFrame:
    """Rows with the hashes that ledger and drain are compared by. They are columns of the rows, so that each is
    computed once for each row and not in every aggregate."""
    return rows.withColumns(
        {_PRINT: F.xxhash64("stream", "seq", LANE, "offset"), _TIMES: F.xxhash64("seq", "timestamp_ms")}
    )


def _print_of_group() -> list[Column]:
    """Count, exclusive or and sum over the hashes of a group."""
    return [
        F.count("*").alias("n"),
        F.bit_xor(_PRINT).alias("xor"),
        # Half of the hash, so that the sum over two billion rows does not overflow.
        F.sum(F.col(_PRINT).bitwiseAND(0xFFFFFFFF)).alias("sum"),
    ]


def _print_of_groups(prefix: str, among: Column) -> list[Column]:
    """The same, and the exclusive or of times, over those groups for which `among` holds."""
    over = {"n": F.sum, "xor": F.bit_xor, "sum": F.sum, "times": F.bit_xor}
    return [
        F.coalesce(combined(F.when(among, F.col(part))), F.lit(0)).alias(f"{prefix}_{part}")
        for part, combined in over.items()
    ]


def _differ(prefix: str, *more: str) -> Column:
    columns = [f"{prefix}_{part}" for part in ("n", "xor", "sum", *more)]
    return reduce(or_, (~F.col(f"left.{c}").eqNullSafe(F.col(f"right.{c}")) for c in columns))


def ill_timed(timestamp_ms: str) -> Column:
    """Whether a timestamp, the client's or the log's, is outside the time in which it was due."""
    at = F.col(timestamp_ms)
    early = at < F.floor(F.col("due_from_ns") / 10**6) - CLOCKS_MS
    return early | (at > F.ceil(F.col("due_to_ns") / 10**6) + CLOCKS_MS)


def ledger_groups(ledger: DataFrame, windows: DataFrame) -> DataFrame:
    """The ledger by stream, place, bucket of sequence numbers, slots of time (`ack_times.slots`) and what became of the
    records: the only pass over all of it.

    Nearly all records of a bucket share what became of them. So that is a key of the aggregate, which costs less for
    each record than one condition for each figure. It is in columns `is_`.
    """
    is_acked = F.col("outcome") == Outcome.ACKED.value
    reported = is_acked & F.col("offset").isNotNull()
    undecided = F.col("txn").eqNullSafe(TxnOutcome.UNKNOWN.value)
    fate = {
        "is_acked": is_acked,
        "is_reported": reported,
        "is_promised": F.col("promised"),
        "is_of_deleted_topic": is_acked
        & F.col("deleted_ns").isNotNull()
        & (F.col("txn_id").isNull() | F.col("txn").eqNullSafe(TxnOutcome.COMMITTED.value)),
        "is_refused": F.col("outcome") == Outcome.REFUSED.value,
        "is_unknown": F.col("outcome") == Outcome.UNKNOWN.value,
        "is_always": (is_acked & F.col("offset").isNull()) | undecided,
        "is_exact": F.col("timestamp_ms").isNotNull(),
        "is_sent_after": within("after", "called_ns", "called_ns"),
        **{f"is_{window}": is_acked & within(window, "returned_ns", "returned_ns") for window in WINDOWS},
    }
    rows = _printed(ledger.join(windows, BUNDLE, "left").withColumn(LANE, place_number()))
    rows = rows.withColumns({"bucket": seq_bucket(), "fate": packed(fate), **slots()})
    by_fate = rows.groupBy(BUNDLE, "stream", LANE, "bucket", *slots(), "fate").agg(
        *_print_of_group(),
        F.bit_xor(_TIMES).alias("times"),
        F.min("due_from_ns").alias("due_from_ns"),
        F.max("due_to_ns").alias("due_to_ns"),
        F.max("seq").alias("last_seq"),
        F.min("offset").alias("low"),
        F.max("offset").alias("high"),
        F.min("called_ns").alias("called_ns"),
        F.min("returned_ns").alias("first_ns"),
        F.max("returned_ns").alias("last_ns"),
    )
    return unpacked(kept(by_fate), "fate", fate)


def ledger_buckets(groups: DataFrame, places: DataFrame, ledger: DataFrame) -> DataFrame:
    """The ledger by stream, place and bucket of sequence numbers: all that is needed of records without a defect.
    groups: `ledger_groups`. places: those that are known, with their numbers."""
    acked, reported, promised = F.col("is_acked"), F.col("is_reported"), F.col("is_promised")
    buckets = groups.groupBy(BUNDLE, "stream", LANE, "bucket").agg(
        *_print_of_groups("rc", promised & reported),
        *_print_of_groups("ru", reported),
        F.max("is_always").alias("always"),
        F.min(F.when(reported, F.col("is_exact"))).alias("exact"),
        F.min(F.when(reported, F.col("due_from_ns"))).alias("due_from_ns"),
        F.max(F.when(reported, F.col("due_to_ns"))).alias("due_to_ns"),
        F.max("last_seq").alias("last_seq"),
        F.sum("n").alias("attempted"),
        _count(acked).alias("acked"),
        _count(promised).alias("promised"),
        _count(F.col("is_of_deleted_topic")).alias("of_deleted_topic"),
        _count(F.col("is_refused")).alias("refused"),
        _count(F.col("is_unknown")).alias("unknown"),
        F.max(F.when(promised, F.col("high"))).alias("promised_to"),
        F.min(F.when(promised & F.col("is_sent_after"), F.col("low"))).alias("offset_after"),
        *[_count(F.col(f"is_{window}")).alias(window) for window in WINDOWS],
    )
    return named(kept(buckets), LANE, PLACE[1:], places, ledger)


def _count(among: Column) -> Column:
    """How many rows are in those groups for which `among` holds."""
    return F.sum(F.when(among, F.col("n")).otherwise(0))


def shown_buckets(given: Prepared) -> DataFrame:
    """All observations by reader, session, poll, place, stream, and buckets both of offsets and of sequence numbers:
    the only pass over all of them. `shift`: offset minus sequence number; `at`: offset; `stepped_back`: whether the
    reader had received a record at or above one of them just before; `given_ns`: when it received the poll; `timed`,
    `ordered`: how many of them have `given_ns` and `previous_offset`."""
    rows = given.observations.withColumns({LANE: place_number(), WHO: reader_number()})
    printed = _printed(rows).withColumns(
        {
            _EPOCH: F.xxhash64(_PRINT, "leader_epoch"),
            "bucket": offset_bucket(),
            "seq_bucket": seq_bucket(),
            "shift": F.col("offset") - F.col("seq"),
            _BIT: offset_bit(),
            _NTH: offset_word(),
        }
    )
    prints = printed.groupBy(BUNDLE, LANE, WHO, "session", "poll", "bucket", "stream", "seq_bucket", "intact").agg(
        *_print_of_group(),
        F.bit_xor(_EPOCH).alias("epochs"),
        F.bit_xor(_TIMES).alias("times"),
        *[F.bit_or(F.when(F.col(_NTH) == nth, F.col(_BIT)).otherwise(0)).alias(c) for nth, c in enumerate(OFFSETS)],
        F.max(F.col("offset") <= F.col("previous_offset")).alias("stepped_back"),
        F.min("given_ns").alias("given_ns"),
        F.count("given_ns").alias("timed"),
        F.count("previous_offset").alias("ordered"),
        *_limits({"timestamp_ms": ("timestamp_ms",) * 2, "shift": ("shift",) * 2, "at": ("offset",) * 2}),
    )
    of_readers = named(kept(prints), WHO, READER, given.numbered_readers, given.observations)
    return of_readers.withColumn(RECORDED, F.col("kind"))


def drained_buckets(given: Prepared, shown: DataFrame) -> DataFrame:
    """The records that the drain returned, by bucket of sequence numbers. `lane`, `shift`, `at`: the smallest and
    largest place, difference of offset and sequence number, and offset of the records that `reordered` compares.
    shown: `shown_buckets`."""
    compared = given.widest_read & F.col("intact") & (F.col("stream") >= 0)
    rows = shown.where(given.drained).withColumns({"compared": compared, "committed": is_committed()})
    committed = F.col("committed")
    return rows.groupBy(BUNDLE, "stream", F.col("seq_bucket").alias("bucket")).agg(
        *_print_of_groups("rc", committed),
        *_print_of_groups("ru", ~committed),
        F.max(~F.col("intact")).alias("damaged"),
        F.min("timestamp_ms_min").alias("oldest_ms"),
        F.max("timestamp_ms_max").alias("newest_ms"),
        *_limits(
            {"lane": (LANE, LANE), "shift": ("shift_min", "shift_max"), "at": ("at_min", "at_max")},
            among=F.col("compared"),
        ),
    )


def _limits(of: Mapping[str, tuple[str, str]], among: Column | None = None) -> list[Column]:
    """For each name the smallest value of its first column and the largest of its second, `NAME_min` and `NAME_max`,
    over all rows, or those for which `among` holds."""
    limits = (("min", F.min), ("max", F.max))
    return [
        limit(column if among is None else F.when(among, F.col(column))).alias(f"{name}_{end}")
        for name, columns in of.items()
        for (end, limit), column in zip(limits, columns, strict=True)
    ]


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


def reader_buckets(given: Prepared, shown: DataFrame) -> DataFrame:
    """Fingerprints of each session of each reader, by place and bucket of offsets, with the lowest and highest
    offset, and all offsets as bits (`OFFSETS`). shown: `shown_buckets`."""
    prints = shown.groupBy(BUNDLE, LANE, *READER, "session", "bucket").agg(
        F.sum("n").alias("all_n"),
        F.bit_xor("xor").alias("all_xor"),
        F.sum("sum").alias("all_sum"),
        F.bit_xor("epochs").alias("all_epochs"),
        F.min("at_min").alias("low"),
        F.max("at_max").alias("high"),
        *[F.bit_or(c).alias(c) for c in OFFSETS],
    )
    return named(kept(prints), LANE, PLACE[1:], given.numbered_places, given.observations)


def offsets_of_bucket(among: Column) -> list[Column]:
    """Aggregates that make those offsets of a bucket for which `among` holds the bits of `OFFSETS`, in that order."""
    return [F.bit_or(F.when(among & (offset_word() == n), offset_bit()).otherwise(0)) for n in range(len(OFFSETS))]


def offset_bit() -> Column:
    """A row's offset as one bit of a word of `OFFSETS`."""
    return F.expr("shiftleft(1L, CAST(offset & 63 AS INT))")


def offset_word() -> Column:
    """The word of `OFFSETS` that has a row's offset, as its number."""
    return F.shiftright("offset", 6).bitwiseAND(len(OFFSETS) - 1)


def together(prints: DataFrame, keys: list[str]) -> DataFrame:
    """Fingerprints combined over readers: by place, bucket and `keys` only."""
    return prints.groupBy(*PLACE, *keys, "bucket").agg(
        F.sum("all_n").alias("all_n"),
        F.bit_xor("all_xor").alias("all_xor"),
        F.sum("all_sum").alias("all_sum"),
        F.bit_xor("all_epochs").alias("all_epochs"),
        F.min("low").alias("low"),
        F.max("high").alias("high"),
    )


def differing(left: DataFrame, right: DataFrame, keys: list[str]) -> DataFrame:
    """Rows of `left` (with its keys) with a missing or different fingerprint on the right."""
    joined = left.alias("left").join(right.alias("right"), keys, "left")
    return joined.where(_differ("all", "epochs")).select(
        *[f"left.{c}" for c in left.columns if not c.startswith("all_")]
    )
