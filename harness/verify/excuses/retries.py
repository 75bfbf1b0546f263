"""What a producer that is not idempotent may have sent again: which of its records, and acknowledged when.

A record is sent again when an answer fails to come or tells of an error, and a copy may stand in the log by then. So
one that may be in the log twice was on its way while something was broken or being changed, or for long. Its requests
overtake each other if several are underway and one of them is sent again, or one comes late that nobody waits for any
more. (Kafka documentation of `retries`, `enable.idempotence` and `max.in.flight.requests.per.connection`; KIP-98.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.contract.contract import ProducerContract
from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, frame
from harness.verify.excuses.clauses import ANY_TIME, clauses

_NS: Final = 10**9
# For so long after its end clients may feel what was broken: a delivery timeout, and what a client needs to come back.
_AFTERMATH_NS: Final = 30 * _NS
# A client that nothing disturbs waits for an answer as long as its request.timeout.ms, seconds in any configuration.
_UNANSWERED_NS: Final = _NS
_UNTOUCHED: Final = frozenset({"hold", "heal", "produce"})  # steps that leave a cluster as it is, as waits do


def retry_clauses(number: int, case: Case) -> Iterator[tuple[Any, ...]]:
    """Rows of `EXCUSES` for each producer of a case that is not idempotent, and sends again."""
    times = list(_disturbed(case))
    for name, producer in case.contract.producers.items():
        if producer.idempotent or not producer.retries:
            continue
        kinds = [Kind.DUPLICATED] if _in_order(producer) else [Kind.DUPLICATED, Kind.REORDERED]
        why = f"producer {name} is not idempotent: a retry may write twice, and out of order"
        for acked_ns in times:
            yield from clauses(number, kinds, why, producer=name, acked_ns=acked_ns)
        yield from clauses(number, kinds, why, producer=name, took_ns=_UNANSWERED_NS)


def come_late(rows: DataFrame, given: Prepared) -> DataFrame:
    """Records excused that stand before an earlier one which got no answer, where nothing else turns any round."""
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
        F.lit("the earlier one came late: producer "), F.col("producer"), F.lit(" is not idempotent, and got no answer")
    )
    named = F.coalesce(F.col("excused_by"), F.when(holds, why))
    return joined.withColumn("excused_by", named).drop("in_order", "late")


def _in_order(producer: ProducerContract) -> bool:
    """Whether no retry of its turns anything round."""
    return not producer.retries or producer.one_in_flight


def _disturbed(case: Case) -> Iterator[tuple[int, int]]:
    """From when to when answers may have failed to come; without end where a fault was never healed."""
    for step in case.steps:
        untouched = step["do"] in _UNTOUCHED or step["do"].startswith("wait_")
        if step["started_ns"] is not None and not untouched:
            ended_ns = step["healed_ns"] or step["ended_ns"]
            yield step["started_ns"], ANY_TIME if ended_ns is None else ended_ns + _AFTERMATH_NS
