"""Asks all excuses (excuse.py), in the order of `Turn`, and names for each finding the first that permits it."""

from __future__ import annotations

from collections.abc import Sequence, Set

from msgspec.structs import replace
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.excuse import Excused
from harness.model.finding import Finding, Kind
from harness.model.plugin import active
from harness.verify.engine.kept import kept
from harness.verify.engine.known import Known
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, frame
from harness.verify.excuse import REFERENCE, Turn, with_reference
from harness.verify.excuses.clauses import Clause, excuse_of, with_holding
from harness.verify.excuses.late_acks import late_acks
from harness.verify.promise import excuses
from harness.verify.registry import clauses_of_excuses, in_one_line, late_clauses


def excused(rows: DataFrame, given: Prepared, failed: dict[str, str]) -> DataFrame:
    """Rows, a kept result, with `excused_by`, the sentence of the excuse, and `excuse`, the reference to it. Of several
    clauses the first sentence in the order of the alphabet counts. An excuse that fails is noted in `failed`.

    Excuses of kinds that no row has are left out: each of them costs time to plan.
    """
    kinds = {row["kind"] for row in rows.select("kind").distinct().collect()}
    clauses = [clause for clause in clauses_of_excuses(given, failed) if clause.kind in kinds]
    rows = _by_clauses(rows, given, clauses)
    rows = _asked(rows, given, Turn.COUNTED, kinds, failed)
    rows = _within_exact_numbers(rows, given)
    rows = _asked(rows, given, Turn.BY_RECORDS, kinds, failed)
    rows = _asked(rows, given, Turn.LAST, kinds, failed)
    # The end: it makes doubts of what may be the loss of a deposed leader, if nothing else permits it.
    return late_acks(rows, given, late_clauses(given.cases, failed))


def excused_findings(known: Known, findings: Sequence[Finding]) -> list[Finding]:
    """Findings without records, with what permits them."""
    found = list(findings)
    for _, excuse in excuses():
        if excuse.of_findings is not None and any(finding.kind in excuse.kinds for finding in found):
            permit = excuse.of_findings(known)
            for n, finding in enumerate(found):
                permitted = permit(finding) if finding.kind in excuse.kinds and finding.excused_by is None else None
                if permitted is not None:
                    reference = Excused(name=excuse.name, evidence=permitted.evidence)
                    found[n] = replace(finding, excused_by=permitted.why, excuse=reference)
    return found


def _by_clauses(rows: DataFrame, given: Prepared, clauses: Sequence[Clause]) -> DataFrame:
    if not clauses:
        nothing = {"excused_by": F.lit(None).cast("string"), "excuse": F.lit(None).cast(REFERENCE)}
        return rows.withColumns(nothing)
    joined = with_holding(rows, given.spark, clauses)
    least = F.when(F.size("holding") > 0, F.array_min(F.transform("holding", excuse_of)))
    joined = joined.withColumn("permitted", least).drop("holding")
    named = {"excused_by": F.col("permitted.why"), "excuse": F.col("permitted.excuse").cast(REFERENCE)}
    return joined.withColumns(named).drop("permitted")


def _asked(rows: DataFrame, given: Prepared, turn: Turn, kinds: Set[str], failed: dict[str, str]) -> DataFrame:
    of_plugins = {name for plugin in active() for name in plugin.checks}
    for check, excuse in excuses():
        if excuse.rows is None or excuse.turn is not turn or kinds.isdisjoint(map(str, excuse.kinds)):
            continue
        if check not in of_plugins:
            found = excuse.rows(rows, given)
            rows = rows if found is rows else with_reference(found, excuse)
            continue
        try:  # computed now, so that it costs the findings of no other check if it fails, and of its own kinds only
            mine = F.col("kind").isin([str(kind) for kind in excuse.kinds]) | F.col("excuse").isNotNull()
            found = excuse.rows(rows, given).withColumn("excused_by", F.when(mine, F.col("excused_by")))
            rows = kept(with_reference(found, excuse).select(*rows.columns))
        except Exception as error:
            failed[check] = in_one_line(error)
    return rows


def _within_exact_numbers(rows: DataFrame, given: Prepared) -> DataFrame:
    """Where the exact number of losses is known, no more than that number is excused; the surplus condemns."""
    numbers = [
        (n, Kind.LOST.value, exact.topic, exact.partition, exact.count)
        for n, case in enumerate(given.cases)
        for exact in case.contract.exact_losses
    ]
    if not numbers:
        return rows
    columns = {"kind": "string", "topic": "string", "partition": "int32", "exact": "int64"}
    exact = F.broadcast(frame(given.spark, columns, numbers))
    place = [BUNDLE, "kind", "topic", "partition"]
    order = Window.partitionBy(*place, F.col("excused_by").isNull()).orderBy("offset", "stream", "seq")
    counted = rows.join(exact, place, "left").withColumn("nth", F.row_number().over(order))
    surplus = F.coalesce(F.col("nth") > F.col("exact"), F.lit(False))
    still = {name: F.when(~surplus, F.col(name)) for name in ("excused_by", "excuse")}
    return counted.withColumns(still).drop("nth", "exact")
