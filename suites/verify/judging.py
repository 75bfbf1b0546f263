"""Judges many histories at once: helpers for tests of the verifier."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import ClassVar, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from harness.evidence.columns import arrow_schema
from harness.evidence.documents import plain
from harness.evidence.parsing import parse
from harness.evidence.seen_in import kinds_shown_with
from harness.model.documents.cluster import ClusterReports
from harness.model.documents.manifest import Manifest
from harness.model.documents.reads import Reads
from harness.model.documents.run import Run
from harness.model.documents.scenario import PlayedScenario
from harness.model.documents.steps import Steps
from harness.model.finding import Kind
from harness.model.sample import Sample
from harness.model.schemas import FORMAT_VERSION, TABLES
from harness.model.verdict import Verdict
from harness.verify.engine.case import Case
from harness.verify.engine.tables import BUNDLE, Frames
from harness.verify.judge import judge_tables
from suites.differential.facts_of_steps import facts_of_step
from suites.verify.history import Built, Row

log = logging.getLogger(__name__)
# The package hands out the function of the same name.
JUDGE: Final = import_module("harness.verify.judge")


class HistoryBatch:
    """Histories that are judged together with those of all other modules that pytest has collected, because most of
    the cost of a judgement does not depend on their number. Create it at import; do not change the histories
    afterwards."""

    _waiting: ClassVar[list[HistoryBatch]] = []

    def __init__(self, histories: Iterable[Built]) -> None:
        self._histories = list(histories)
        self._found: list[Verdict] | None = None
        self._waiting.append(self)

    def verdicts(self, spark: SparkSession) -> list[Verdict]:
        """The verdict on each of these, in their order. The first call judges all waiting batches."""
        if self in self._waiting:
            together = self._waiting.copy()
            self._waiting.clear()
            _judge_together(spark, together)
        if self._found is None:
            self._found = verdicts(spark, self._histories)
        return self._found


def _judge_together(spark: SparkSession, waiting: Sequence[HistoryBatch]) -> None:
    """Leaves all batches without a verdict if a history breaks the judge or a check: then each batch is judged
    separately, and only that one fails."""
    try:
        found = verdicts(spark, [history for one in waiting for history in one._histories])
    except Exception:
        log.exception("the histories cannot be judged together")
        return
    if any(doubt.name.startswith("check_failed") for verdict in found for doubt in verdict.doubts):
        return
    each = iter(found)
    for one in waiting:
        one._found = list(islice(each, len(one._histories)))


def verdicts(spark: SparkSession, histories: Sequence[Built]) -> list[Verdict]:
    """The verdict on each, all judged together."""
    cases = [case_of_history(history) for history in histories]
    judged = judge_tables(spark, cases, frames_of(spark, histories))
    for history, verdict in zip(histories, judged.verdicts, strict=True):
        _check_evidence(history, verdict)
    return judged.verdicts


def _check_evidence(history: Built, verdict: Verdict) -> None:
    """Fails if a finding is of a kind that, by its own declaration, this evidence cannot show: pages would call it
    not tested."""
    documents: dict[str, object] = {
        "run": history.run,
        "cluster": history.cluster,
        "reads": history.reads,
        "steps": history.steps,
    }
    documents |= {"history": history.metadata}

    def has(part: str) -> bool:
        name, _, key = part.partition(": ")
        if not name.endswith(".json"):
            return bool(history.tables.get(name))
        document = documents[name.removesuffix(".json")]
        return document is not None and (not key or (isinstance(document, dict) and document.get(key) is not None))

    shown = kinds_shown_with(has)
    wrong = {str(f.kind) for f in verdict.findings if isinstance(f.kind, Kind)} - {*map(str, shown)}
    assert not wrong, f"{history.name}: correct `seen_in` of {', '.join(sorted(wrong))} in harness/model/finding.py"


def few_queries(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Leaves only these of the harness's own queries, for tests of what the judge does with any query: planning all of
    them takes most of the time of a judgement."""
    every = JUDGE.queries
    others = every().keys() - {*names}
    monkeypatch.setattr(JUDGE, "queries", lambda: {name: ask for name, ask in every().items() if name not in others})


def case_of_history(history: Built) -> Case:
    """A history's documents."""
    manifest = {"format_version": FORMAT_VERSION, "files": {}} | history.manifest
    return Case(
        name=history.name,
        complete=history.complete,
        manifest=parse(Path("manifest.json"), manifest, Manifest),
        scenario=parse(Path("scenario.json"), history.scenario, PlayedScenario),
        run=parse(Path("run.json"), history.run, Run),
        steps=steps_of(history.steps),
        cluster=parse(Path("cluster.json"), history.cluster, ClusterReports),
        reads=parse(Path("reads.json"), history.reads, Reads),
        history=history.metadata,
        samples=lambda: [Sample(**{name: row[name] for name in Sample._fields}) for row in history.tables["positions"]],
    )


def steps_of(rows: Sequence[Row]) -> Steps:
    """The steps of a history, each with its own facts, or those of its word."""
    return parse(Path("steps.json"), [{"facts": _facts_of(row), **row} for row in rows], Steps)


def _facts_of(row: Row) -> list[dict[str, object]]:
    return [] if "facts" in row else [plain(fact) for fact in facts_of_step(row)]


def frames_of(spark: SparkSession, histories: Sequence[Built]) -> Frames:
    """The tables of all histories as one frame each."""
    frames: Frames = {}
    for table in TABLES:
        fields = [pa.field(BUNDLE, pa.int32()), *[pa.field(f.name, f.type) for f in arrow_schema(table)]]
        rows = [{BUNDLE: n, **row} for n, history in enumerate(histories) for row in history.tables[table]]
        frames[table] = spark.createDataFrame(pa.Table.from_pylist(rows, schema=pa.schema(fields)))
    return frames


def reported(verdict: Verdict) -> list[str]:
    """Findings that condemn, as short texts: kind and number of records."""
    return sorted(f"{f.kind.value} {f.count}" for f in verdict.findings if f.condemns)
