"""Records that were acknowledged after an election, and are missing: a deposed leader may have acknowledged them.

A leader that is cut off or frozen does not know that it was deposed. It acknowledges records of acks=1, and where it
was alone in the ISR those of acks=all, until it learns of the election. It truncates all of them afterwards. The
contract permits their loss if it permits it before the election. The new leader acknowledges records at the same time,
and must not lose any of these. The evidence does not name the leader that acknowledged a record, so the log decides:

- Another record that was written after the election, or a transaction marker, is at the same offset. One leader gives
  an offset once, so the missing record came from the deposed leader: it is excused. Where the log has nothing of an
  epoch (`engine/lineages.py`), an older record shows the same: the missing one came from the leader of that epoch.
- Nothing is at the offset, or something from before the election. Which leader acknowledged it is unknown: a doubt.

After the deposed leader learned of the election, a missing record condemns (`LeaderChange.late_ns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.verify.engine.case import Case
from harness.verify.engine.kept import kept
from harness.verify.engine.lineages import Replaced
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import LEADER_UNKNOWN
from harness.verify.engine.tables import BUNDLE, PLACE
from harness.verify.excuses.clauses import Clause, clauses, excuse_of, with_holding

_AT = [*PLACE, "offset", "stream", "seq"]


class _Elected(Protocol):
    """An election of a leader of a partition. For the times see LeaderChange."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def sure_ns(self) -> int: ...
    @property
    def late_ns(self) -> int: ...


def late_times(case: Case, elected: _Elected) -> Iterator[tuple[int, int]]:
    """When acknowledgements after an election may be those of a deposed leader; never where the exact number of losses
    is known, because every loss must be certain there."""
    exact = {(one.topic, one.partition) for one in case.contract.exact_losses}
    if elected.late_ns > elected.sure_ns and (elected.topic, elected.partition) not in exact:
        yield elected.sure_ns + 1, elected.late_ns


def of_replaced(
    number: int, case: Case, replaced: Replaced, kinds: Iterable[Kind], why: str, producer: str | None = None
) -> Iterator[Clause]:
    """Clauses for what a leader acknowledged that left nothing in the lineage: any other record there counts."""
    for acked_ns in late_times(case, replaced):
        yield from clauses(
            number,
            kinds,
            why,
            evidence=replaced.next.evidence,
            topic=replaced.topic,
            topic_id=replaced.topic_id,
            partition=replaced.partition,
            producer=producer,
            offsets=(replaced.start, replaced.end),
            acked_ns=acked_ns,
            others_ns=0,
        )


def late_acks(rows: DataFrame, given: Prepared, late: Sequence[Clause]) -> DataFrame:
    """Rows with `excused_by` set where a deposed leader acknowledged the record, and with the kind LEADER_UNKNOWN where
    that is unknown. late: clauses for acknowledgements after an election."""
    if not late:
        return rows
    latest = F.array_max(F.transform("holding", _of_clause))
    one = F.when(F.col("excused_by").isNull() & (F.size("holding") > 0), latest)
    joined = with_holding(rows, given.spark, late).withColumn("late", one).drop("holding")
    named = {"others_ns": F.col("late.others_ns"), "why": F.col("late.of.why"), "late_excuse": F.col("late.of.excuse")}
    joined = kept(joined.withColumns(named).drop("late"))
    perhaps = joined.where("why IS NOT NULL")
    replaced = _replaced(perhaps, given).withColumn("replaced", F.lit(True))
    decided = perhaps.join(replaced, _AT, "left").withColumns(
        {
            "excused_by": F.col("why"),
            "excuse": F.col("late_excuse"),
            "kind": F.when(F.col("replaced"), F.col("kind")).otherwise(F.lit(LEADER_UNKNOWN)),
        }
    )
    return joined.where("why IS NULL").select(*rows.columns).unionByName(decided.select(*rows.columns))


def _of_clause(clause: Column) -> Column:
    return F.struct(clause["since_ns"], clause["others_ns"], excuse_of(clause).alias("of"))


def _replaced(perhaps: DataFrame, given: Prepared) -> DataFrame:
    """The places of records at whose offset the log has something else that was written from `others_ns` on."""
    wanted = F.broadcast(perhaps.where("offset IS NOT NULL").select(*_AT, "others_ns").distinct())
    stands = given.observations.where(given.drained).select(
        *PLACE, "offset", F.col("stream").alias("other_stream"), F.col("seq").alias("other_seq")
    )
    others = stands.join(wanted, [*PLACE, "offset"]).where("other_stream <> stream OR other_seq <> seq")
    sends = given.ledger.select(
        BUNDLE,
        F.col("stream").alias("other_stream"),
        F.col("seq").alias("other_seq"),
        F.when(F.col("outcome") == Outcome.ACKED.value, F.col("returned_ns")).alias("other_ns"),
    )
    others = others.join(sends, [BUNDLE, "other_stream", "other_seq"], "left")
    others = others.where("other_ns IS NULL OR other_ns >= others_ns").select(*_AT)
    markers = given.batches.where("control IN ('commit', 'abort')").select(
        *PLACE, F.col("base_offset").alias("offset"), "max_timestamp_ms"
    )
    under = markers.join(wanted, [*PLACE, "offset"]).where("max_timestamp_ms >= others_ns DIV 1000000").select(*_AT)
    return others.unionByName(under).distinct()
