"""ack_limit: a record was acknowledged later than our customers wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.facts import FactKind
from harness.model.finding import OwnKind
from harness.model.outcome import Outcome
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import Only, found
from harness.verify.excuse import Excuse, of_fact
from harness.verify.excuses.clauses import Clause, clauses
from harness.verify.promise import Check, Introduced

LIMIT_S: Final = 12
LATE_ACK: Final = OwnKind("late_ack", "A record was acknowledged more than 12 s after its send.")


def late_acks(given: Prepared) -> DataFrame:
    """Acknowledged records with more than LIMIT_S from the call to the report."""
    waited_ns = F.col("returned_ns") - F.col("called_ns")
    late = given.ledger.where((F.col("outcome") == Outcome.ACKED.value) & (waited_ns > LIMIT_S * 10**9))
    return found(late, LATE_ACK, other=F.floor(waited_ns / 10**6))


def _while_slow(number: int, case: Case) -> Iterator[Clause]:
    """Records that were acknowledged while a step slowed connections."""
    for step in case.steps:
        for fact in step.facts:
            if fact.kind is FactKind.LINKS_SLOW and fact.to_ns is not None:
                why, acked_ns = f"{step.name} slowed connections", (fact.from_ns, fact.to_ns)
                yield from clauses(number, [LATE_ACK], why, evidence=of_fact(fact, step), acked_ns=acked_ns)


SLOW_LINKS: Final = Excuse(
    name="slow_links",
    permits="A step slowed connections when the record was acknowledged; our service level excludes slow networks.",
    kinds=(LATE_ACK,),
    clauses=_while_slow,
)
CHECK: Final = Check(
    promise="Every record is acknowledged within 12 s.",
    kinds={LATE_ACK: Introduced(promise="a record is acknowledged within 12 s (our service level)")},
    seen={(LATE_ACK, Only.ONE): lambda run: f"its acknowledgement took up to {run.other_last} ms"},
    queries={"late_acks": late_acks},
    excuses=(SLOW_LINKS,),
)
