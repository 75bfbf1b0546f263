"""Many histories, one judgement: what tests of the verifier call."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from harness.evidence.columns import arrow_schema
from harness.model.contract import contract_from_dict
from harness.model.schemas import TABLES
from harness.model.verdict import Verdict
from harness.verify.case import Case
from harness.verify.judge import judge_tables
from harness.verify.tables import BUNDLE, Frames
from suites.verify.history import Built


def verdicts(spark: SparkSession, histories: Sequence[Built]) -> list[Verdict]:
    """The verdict on each, all judged together."""
    cases = [case_of_history(history) for history in histories]
    judged = judge_tables(spark, cases, frames_of(spark, histories))
    return judged.verdicts


def case_of_history(history: Built) -> Case:
    """A history's documents."""
    return Case(
        name=history.name,
        complete=history.complete,
        manifest=history.manifest,
        scenario=history.scenario,
        run=history.run,
        steps=history.steps,
        cluster=history.cluster,
        reads=history.reads,
        contract=contract_from_dict(history.run["contract"]),
    )


def frames_of(spark: SparkSession, histories: Sequence[Built]) -> Frames:
    """The tables of all histories as one frame each."""
    frames: Frames = {}
    for table in TABLES:
        fields = [pa.field(BUNDLE, pa.int32()), *[pa.field(f.name, f.type) for f in arrow_schema(table)]]
        rows = [{BUNDLE: n, **row} for n, history in enumerate(histories) for row in history.tables[table]]
        frames[table] = spark.createDataFrame(pa.Table.from_pylist(rows, schema=pa.schema(fields)))
    return frames


def told(verdict: Verdict) -> list[str]:
    """What condemns, as short texts: kind, and how many records."""
    return sorted(f"{f.kind.value} {f.count}" for f in verdict.findings if f.condemns)
