"""corrupt: the payload, timestamp or codec of a record is not what was sent or configured."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.clock import CLOCKS_MS
from harness.model.contract.contract import COMPRESSION_TYPE
from harness.model.contract.kafka_defaults import PRODUCER_CODEC
from harness.model.facts import FactKind
from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.model.schemas import Columns
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.case import Case
from harness.verify.engine.fingerprints import ill_timed
from harness.verify.engine.kept import is_empty, kept
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.steps import facts_in
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, frame
from harness.verify.excuses.clock_skew import without_wrong_clocks, wrong_clocks
from harness.verify.promise import Check, Introduced, span

_DECLARED: Final[Columns] = {"topic": "string", "declared": "string"}


class Changed(Reason):
    """The part of a record that is not as it was sent or configured."""

    PAYLOAD = "payload", "The checksum of its payload does not match."
    TIMESTAMP = "timestamp", "Its timestamp is outside the time from its send to its acknowledgement."
    TIMESTAMP_TYPE = "timestamp_type", "Its batch has another timestamp type than its topic."
    TIME_REPORTED = "time_reported", "Its timestamp is not the one that the client set or the leader reported."
    TIME_BACK = "time_back", "Its batch has an older LogAppendTime than a batch before it."
    CODEC = "codec", "Its batch has another codec than its topic."


def corrupt(given: Prepared) -> DataFrame | None:
    """Observations with an invalid payload, identified by the record that was acknowledged at that offset."""
    damaged = kept(
        given.observations.where(~F.col("intact"))
        .groupBy(*PLACE, "offset")
        .agg(
            F.array_join(F.slice(F.array_sort(F.collect_set("reader")), 1, 3), ", ").alias("reader"),
            F.max(F.when(F.col("stream") >= 0, F.struct("stream", "seq"))).alias("decoded"),
        )
    )
    if is_empty(damaged):
        return None
    acked = given.ledger.where((F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull())
    acked = acked.join(damaged, [*PLACE, "offset"], "left_semi")
    sent = acked.groupBy(*PLACE, "offset").agg(F.max(F.struct("stream", "seq")).alias("acked"))
    rows = damaged.join(sent, [*PLACE, "offset"], "left").withColumn("record", F.coalesce("acked", "decoded"))
    return found(rows, Kind.CORRUPT, Changed.PAYLOAD, stream=F.col("record.stream"), seq=F.col("record.seq"))


def ill_timed_records(drill: Drill) -> DataFrame:
    """Acknowledged records with a timestamp outside the time from the send to its acknowledgement.

    With CreateTime the timestamp is the time of the call, minus the time by which the producer backdates its records;
    with LogAppendTime (KIP-32) it is before the acknowledgement. Judged only where run.json says that clients set the
    send time. Clocks that a step changed are taken into account.
    """
    ours = [n for n, case in enumerate(drill.given.cases) if case.run.timestamps == "send"]
    sent = drill.sent.where((F.col("outcome") == Outcome.ACKED.value) & F.col(BUNDLE).isin(ours))
    rows = drill.read.where("intact").join(
        sent.select(
            *RECORD,
            *("called_ns", "returned_ns", "due_from_ns", "due_to_ns", "timestamp_type"),
            F.col("offset").alias("reported"),
            F.col("timestamp_ms").alias("reported_ms"),
        ),
        RECORD,
    )
    wrong = ill_timed("oldest_ms") | ill_timed("newest_ms")
    outside = without_wrong_clocks(rows.where(wrong), drill.given)
    outside = found(outside, Kind.CORRUPT, Changed.TIMESTAMP, other="oldest_ms")
    return outside.unionByName(_other_time_than_reported(rows, drill.given))


def _other_time_than_reported(rows: DataFrame, given: Prepared) -> DataFrame:
    """Records at their acknowledged offset with another timestamp than the client set or, with LogAppendTime, than
    the leader reported. When an acknowledgement reports no timestamp, the ledger has the client's own, and nothing
    is judged."""
    declared = F.broadcast(frame(given.spark, _DECLARED, _declared(given)))
    rows = rows.join(declared, [BUNDLE, "topic"]).where("offset = reported AND timestamp_type = declared")
    other = F.when(F.col("oldest_ms") != F.col("reported_ms"), F.col("oldest_ms")).otherwise(F.col("newest_ms"))
    return found(rows.where(other != F.col("reported_ms")), Kind.CORRUPT, Changed.TIME_REPORTED, other="reported_ms")


def time_back(given: Prepared) -> DataFrame:
    """Batches of one leader with an older LogAppendTime than a batch before, by more than clocks of one
    machine differ: a leader takes it from its clock at the append. Not judged where a step changed a clock."""
    clocked = [n for n, case in enumerate(given.cases) if any(wrong_clocks(case))]
    own = [row for row in _declared(given) if row[2] == "append"]
    topics = F.broadcast(frame(given.spark, _DECLARED, own))
    rows = given.batches.where("control IS NULL AND timestamp_type = 'append'").join(topics, [BUNDLE, "topic"])
    rows = (
        rows.where(~F.col(BUNDLE).isin(clocked))
        .groupBy(*PLACE, "leader_epoch", "base_offset")
        .agg(F.min("max_timestamp_ms").alias("at_ms"), F.min("broker").alias("broker"))
    )
    before = (
        Window.partitionBy(*PLACE, "leader_epoch").orderBy("base_offset").rowsBetween(Window.unboundedPreceding, -1)
    )
    rows = rows.withColumn("newest_ms", F.max("at_ms").over(before)).where(
        F.col("at_ms") < F.col("newest_ms") - CLOCKS_MS
    )
    reader = F.concat(F.lit("broker "), F.col("broker").cast("string"))
    return found(rows, Kind.CORRUPT, Changed.TIME_BACK, offset="base_offset", reader=reader, other="newest_ms")


def _declared(given: Prepared) -> list[tuple[int, str, str]]:
    return [
        (n, name, topic.timestamp_type)
        for n, case in enumerate(given.cases)
        for name, topic in case.contract.topics.items()
    ]


def wrong_codec(given: Prepared) -> DataFrame:
    """Batches on disk with another codec than the topic's `compression.type`, where that names one.

    Leaders recompress batches that arrive with another codec; copying and compaction keep the codec. Control batches
    are never compressed. Not judged where a step changes the setting, because older batches keep the older codec. A
    changed default of brokers does not matter to a topic that was created with a setting of its own.
    """
    topics = [
        (n, name, "none" if topic.codec == "uncompressed" else topic.codec)
        for n, case in enumerate(given.cases)
        for name, topic in case.contract.topics.items()
        if topic.codec != PRODUCER_CODEC and not _changes_codec(case, name)
    ]
    declared = F.broadcast(frame(given.spark, _DECLARED, topics))
    rows = given.batches.where("control IS NULL").join(declared, [BUNDLE, "topic"])
    rows = rows.where("codec != declared").groupBy(*PLACE, "base_offset").agg(F.min("broker").alias("broker"))
    reader = F.concat(F.lit("broker "), F.col("broker").cast("string"))
    return found(rows, Kind.CORRUPT, Changed.CODEC, offset="base_offset", reader=reader)


def _changes_codec(case: Case, topic: str) -> bool:
    own = any(one.name == topic and COMPRESSION_TYPE in (one.config or ()) for one in case.scenario.topics or ())
    changes = facts_in(case.steps, FactKind.CONFIG_SET, FactKind.CONFIG_TOGGLED)
    # A change without a topic is one of brokers, which the topic may follow.
    of_topic = (topic,) if own else (topic, "", None)
    return any(COMPRESSION_TYPE in (change.config or ()) and change.topic in of_topic for change in changes)


def wrong_timestamp_type(given: Prepared) -> DataFrame:
    """Batches on disk with another timestamp type than the topic's `message.timestamp.type` (KIP-32)."""
    declared = F.broadcast(frame(given.spark, _DECLARED, _declared(given)))
    rows = given.batches.where("control IS NULL").join(declared, [BUNDLE, "topic"])
    rows = rows.where("timestamp_type != declared").groupBy(*PLACE, "base_offset").agg(F.min("broker").alias("broker"))
    reader = F.concat(F.lit("broker "), F.col("broker").cast("string"))
    return found(rows, Kind.CORRUPT, Changed.TIMESTAMP_TYPE, offset="base_offset", reader=reader)


CHECK: Final = Check(
    promise="A record is returned as it was sent.",
    kinds={Kind.CORRUPT: Introduced(promise="a record is returned as it was sent, or not at all", rank=10)},
    seen={
        (Kind.CORRUPT, Changed.PAYLOAD): "the checksum of the record's payload does not match",
        (Kind.CORRUPT, Changed.TIMESTAMP): lambda run: (
            f"the record's timestamp is outside the time from its send to its acknowledgement: "
            f"{span(run, 'timestamp')} ms"
        ),
        (Kind.CORRUPT, Changed.TIMESTAMP_TYPE): (
            "the record's batch on disk has another timestamp type than the topic's message.timestamp.type"
        ),
        (Kind.CORRUPT, Changed.TIME_REPORTED): lambda run: (
            f"the record's timestamp is not the one that the client set or the leader reported: "
            f"{span(run, 'timestamp')} ms"
        ),
        (Kind.CORRUPT, Changed.TIME_BACK): lambda run: (
            f"the record's batch is older than a batch before it in the log, which has {span(run, 'timestamp')} ms"
        ),
        (Kind.CORRUPT, Changed.CODEC): (
            "the record's batch on disk has another codec than the topic's compression.type"
        ),
    },
    # A record with another defect may well have another record's timestamp, so every other finding is reported first.
    finer={
        Changed.TIMESTAMP: 500,
        Changed.TIMESTAMP_TYPE: 501,
        Changed.CODEC: 502,
        Changed.TIME_REPORTED: 503,
        Changed.TIME_BACK: 504,
    },
    queries={
        "corrupt": corrupt,
        "timestamps": ill_timed_records,
        "timestamp_types": wrong_timestamp_type,
        "log_times": time_back,
        "codecs": wrong_codec,
    },
    nothing_without={"timestamps": "drill.read", "log_times": "batches", "codecs": "batches"},
    planted=(
        "corrupt_timestamps",
        "corrupt_timestamp_by_a_millisecond",
        "near_corrupt_timestamp_not_reported",
        "corrupt_codec",
        "corrupt_codec_while_a_default_changes",
        "near_corrupt_codec_that_is_the_producers",
        "near_corrupt_codec_of_a_default_that_changes",
        "near_corrupt_timestamps_of_the_producers_choice",
        "corrupt_timestamp_types",
        "corrupt_in_both_drains",
        "corrupt_beyond_decoding",
        "corrupt_on_one_replica",
        "corrupt_for_one_live_reader",
    ),
)
