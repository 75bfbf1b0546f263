"""Records that a producer without idempotence may have sent again: which of its records, and acknowledged when.

A record is sent again when an answer does not arrive or reports an error, although a copy may already be in the log. So
a record that may be there twice was in flight during a disturbance, or for a long time. Requests overtake each other if
several are in flight and one of them is sent again, or if a late one arrives that the client has given up. (Kafka
documentation of `retries`, `enable.idempotence` and `max.in.flight.requests.per.connection`; KIP-98.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.documents.contract import ProducerContract
from harness.model.excuse import Evidence, EvidenceKind
from harness.model.facts import OBSERVED
from harness.model.finding import Kind
from harness.model.outcome import JAVA_CLIENTS, Outcome
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, UNBOUNDED, frame
from harness.verify.excuse import Excuse, of_fact
from harness.verify.excuses.clauses import Clause, clauses

_NS: Final = 10**9
# How long after its end clients may feel a fault: a delivery timeout, and the time that a client needs to reconnect.
_AFTERMATH_NS: Final = 30 * _NS
# An undisturbed client waits for an answer up to its request.timeout.ms, which is seconds in any configuration.
_UNANSWERED_NS: Final = _NS


def _clauses(number: int, case: Case) -> Iterator[Clause]:
    """For each producer that retries without idempotence."""
    times = list(_disturbed(case))
    for name, producer in case.contract.producers.items():
        if producer.idempotent or not producer.retries:
            continue
        kinds = [Kind.DUPLICATED] if _in_order(producer) else [Kind.DUPLICATED, Kind.REORDERED]
        why = f"producer {name} is not idempotent: a retry may write a record twice and out of order"
        for acked_ns, evidence in times:
            yield from clauses(number, kinds, why, evidence=evidence, producer=name, acked_ns=acked_ns)
        evidence = Evidence(kind=EvidenceKind.CONTRACT, what=f"producers.{name}.idempotent")
        yield from clauses(number, kinds, why, evidence=evidence, producer=name, took_ns=_UNANSWERED_NS)


def _late_retries(rows: DataFrame, given: Prepared) -> DataFrame:
    """Excuses records that are before an earlier one without an acknowledgement, where nothing else reorders
    records."""
    producers = [
        (n, name)
        for n, case in enumerate(given.cases)
        for name, producer in case.contract.producers.items()
        if not producer.idempotent and _in_order(producer)
    ]
    if not producers:
        return rows
    columns = {"producer": "string"}
    of = F.broadcast(frame(given.spark, columns, producers).withColumn("in_order", F.lit(True)))
    unanswered = given.ledger.where(F.col("outcome") != Outcome.ACKED.value).select(BUNDLE, "stream", "seq")
    stands = given.observations.where(given.drained).select(*PLACE, F.col("offset").alias("other"), "stream", "seq")
    late = stands.join(unanswered, [BUNDLE, "stream", "seq"]).select(*PLACE, "other", "stream").distinct()
    late = late.withColumn("late", F.lit(True))
    joined = rows.join(of, [BUNDLE, "producer"], "left").join(late, [*PLACE, "other", "stream"], "left")
    holds = (F.col("kind") == Kind.REORDERED.value) & F.col("in_order") & F.col("late")
    why = F.concat(
        F.lit("a late retry of the earlier record: producer "),
        F.col("producer"),
        F.lit(" is not idempotent, and got no answer for it"),
    )
    named = F.coalesce(F.col("excused_by"), F.when(holds, why))
    return joined.withColumn("excused_by", named).drop("in_order", "late")


def _split_batches(given: Prepared) -> list[Clause]:
    """For each partition in which a record of such a producer was refused. The release's own client splits a batch that
    is refused as too large, and sends its parts again behind those that are on their way, whatever `retries` says."""
    producers = {
        (n, name)
        for n, case in enumerate(given.cases)
        for name, producer in case.contract.producers.items()
        if not producer.idempotent and not producer.one_in_flight
    }
    if not producers:
        return []
    refused = given.ledger.where(F.col("outcome") == Outcome.REFUSED.value).select(BUNDLE, "stream").distinct()
    own = given.streams.where(F.col("client").startswith(JAVA_CLIENTS)).select(*PLACE, "producer", "stream")
    return [
        clause
        for row in own.join(F.broadcast(refused), [BUNDLE, "stream"]).drop("stream").distinct().collect()
        if (row[BUNDLE], row["producer"]) in producers
        for clause in clauses(
            row[BUNDLE],
            [Kind.REORDERED],
            f"producer {row['producer']} is not idempotent: its client splits a batch that is refused as too large, "
            "and sends the parts again out of order",
            evidence=Evidence(kind=EvidenceKind.RECORDS, what="ledger"),
            producer=row["producer"],
            topic=row["topic"],
            topic_id=row["topic_id"],
            partition=row["partition"],
        )
    ]


def _in_order(producer: ProducerContract) -> bool:
    """Whether no retry of this producer reorders records."""
    return not producer.retries or producer.one_in_flight


def _disturbed(case: Case) -> Iterator[tuple[tuple[int, int], Evidence]]:
    """Times in which answers may have been lost, each with its cause; without an end if a fault was never healed."""
    for step in case.steps:
        changed = [fact for fact in step.facts if fact.kind not in OBSERVED]
        if step.started_ns is not None and changed:
            ended_ns = step.healed_ns or step.ended_ns
            until_ns = UNBOUNDED if ended_ns is None else ended_ns + _AFTERMATH_NS
            yield (step.started_ns, until_ns), of_fact(changed[0], step)


EXCUSES: Final = (
    Excuse(
        name="retries",
        permits="A producer without idempotence sent a record again because it may have received no answer.",
        kinds=(Kind.DUPLICATED, Kind.REORDERED),
        clauses=_clauses,
    ),
    Excuse(
        name="split_batches",
        permits="The release's own client split a batch that was refused as too large, and sent the parts again.",
        kinds=(Kind.REORDERED,),
        by_tables=_split_batches,
    ),
    Excuse(
        name="late_retries",
        permits="A producer without idempotence received no answer for an earlier record, and its retry arrived late.",
        kinds=(Kind.REORDERED,),
        rows=_late_retries,
        evidence=Evidence(kind=EvidenceKind.RECORDS, what="ledger"),
    ),
)
