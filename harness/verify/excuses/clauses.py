"""Clauses of excuses: which findings about which records a clause covers. Rows of one table, matched in one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.model.excuse import Evidence
from harness.model.finding import FindingKind, Kind
from harness.model.outcome import Outcome
from harness.model.schemas import Columns
from harness.verify.engine.rows import ByApplication, PassedOver, word_of
from harness.verify.engine.tables import BUNDLE, UNBOUNDED, frame
from harness.verify.excuse import reference

CLAUSES: Final[Columns] = {
    "kind": "string",
    "on_topic": "string?",  # null = any
    "on_topic_id": "string?",
    "on_partition": "int32?",
    "by_producer": "string?",
    "of_reader": "string?",
    "from_offset": "int64",
    "before_offset": "int64?",
    "since_ns": "int64",  # acknowledged at that time or later
    "until_ns": "int64?",  # acknowledged, or sent if never acknowledged, before this
    # of `late_acks`: another record at the offset, acknowledged at that time or later, shows that two leaders gave it
    "others_ns": "int64",
    "took_ns": "int64",  # at least this long from the send to the acknowledgement
    # for findings without a record, and so without a time: their reason; null = for findings with a record. Also the
    # reason of records that a reader passed over, see `with_holding`
    "of_reason": "string?",
    "why": "string",
    # The reference to the evidence, and the name of the excuse, which `registry` adds.
    "evidence": "string",
    "what": "string",
    "step": "string?",
    "at_ns": "int64?",
    "excuse": "string",
}


class Clause(NamedTuple):
    """One row of `CLAUSES`."""

    bundle: int
    kind: str
    on_topic: str | None
    on_topic_id: str | None
    on_partition: int | None
    by_producer: str | None
    of_reader: str | None
    from_offset: int
    before_offset: int | None
    since_ns: int
    until_ns: int | None
    others_ns: int
    took_ns: int
    of_reason: str | None
    why: str
    evidence: str
    what: str
    step: str | None
    at_ns: int | None
    excuse: str = ""


def holds(clause: Column) -> Column:
    """Whether a clause covers a finding: True or False for every row."""
    acked = F.col("outcome") == Outcome.ACKED.value
    when_ns = F.when(acked, F.col("returned_ns")).otherwise(F.col("called_ns"))
    by_application = F.coalesce(word_of() == ByApplication.PROCESSED, F.lit(False))
    in_time = (~acked | (when_ns >= clause["since_ns"])) & (
        (clause["until_ns"] >= UNBOUNDED) | (when_ns <= clause["until_ns"])
    )
    long_enough = ~acked | (F.col("returned_ns") - F.col("called_ns") >= clause["took_ns"])
    of_reason = (clause["of_reason"] == F.col("reason")) & F.when(
        clause["of_reason"] == PassedOver.ONE, in_time & long_enough
    ).otherwise(F.col("outcome").isNull())
    permitted = (
        (clause["on_topic"].isNull() | (clause["on_topic"] == F.col("topic")))
        & (clause["on_topic_id"].isNull() | (clause["on_topic_id"] == F.col("topic_id")))
        & (clause["on_partition"].isNull() | (clause["on_partition"] == F.col("partition")))
        # An excuse of a producer does not cover what an application did with its records.
        & (clause["by_producer"].isNull() | ((clause["by_producer"] == F.col("producer")) & ~by_application))
        & (clause["of_reader"].isNull() | (clause["of_reader"] == F.col("reader")))
        & (clause["before_offset"].isNull() | (F.col("offset") < clause["before_offset"]))
        # A record acknowledged without an offset may have been there.
        & (F.col("offset").isNull() | (clause["from_offset"] <= 0) | (clause["from_offset"] <= F.col("offset")))
        & F.when(clause["of_reason"].isNull(), in_time & long_enough).otherwise(of_reason)
    )
    return F.coalesce(permitted, F.lit(False))


def with_holding(rows: DataFrame, spark: SparkSession, table: Iterable[Clause]) -> DataFrame:
    """Rows with `holding`: those clauses that cover the finding, as an array of structs.

    What permits that a record vanished after a reader had received it permits that a later reader passed over it.
    """
    table = list(table)
    passed = [
        clause._replace(kind=Kind.SKIPPED_READ.value, of_reason=PassedOver.ONE.value)
        for clause in table
        if clause.kind == Kind.VANISHED.value and clause.of_reason is None
    ]
    given = frame(spark, CLAUSES, [*table, *passed])
    of_kind = given.groupBy(BUNDLE, "kind").agg(
        F.collect_list(F.struct(*[c for c in given.columns if c not in (BUNDLE, "kind")])).alias("clauses")
    )
    joined = rows.join(F.broadcast(of_kind), [BUNDLE, "kind"], "left")
    return joined.withColumn("holding", F.filter("clauses", holds)).drop("clauses")


def excuse_of(clause: Column) -> Column:
    """The sentence of a clause, with the value of the column `excuse` of the rows that it covers. Of several clauses
    the least counts."""
    evidence = reference(clause["evidence"], clause["what"], clause["step"], clause["at_ns"])
    excuse = F.struct(clause["excuse"].alias("name"), evidence.alias("evidence"))
    return F.struct(clause["why"].alias("why"), excuse.alias("excuse"))


def clauses(
    number: int,
    kinds: Iterable[FindingKind],
    why: str,
    *,
    evidence: Evidence,
    topic: str | None = None,
    topic_id: str | None = None,
    partition: int | None = None,
    producer: str | None = None,
    reader: str | None = None,
    offsets: tuple[int, int | None] = (0, None),
    acked_ns: tuple[int, int] = (0, UNBOUNDED),
    others_ns: int | None = None,
    took_ns: int = 0,
    reason: str | None = None,
) -> Iterator[Clause]:
    """One clause for each kind; arguments that are left out match anything. others_ns: by default the first time of
    `acked_ns`."""
    for kind in kinds:
        yield Clause(
            number,
            kind.value,
            topic,
            topic_id,
            partition,
            producer,
            reader,
            *offsets,
            *acked_ns,
            acked_ns[0] if others_ns is None else others_ns,
            took_ns,
            reason,
            why,
            evidence.kind.value,
            evidence.what,
            evidence.step,
            evidence.at_ns,
        )
