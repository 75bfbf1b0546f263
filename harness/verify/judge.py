"""From evidence to verdicts, without a broker: all bundles in one Spark session, one scan for many of them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.evidence import Bundle
from harness.evidence.verdicts import write_verdict
from harness.model.errors import BadEvidence
from harness.model.schemas import TABLES
from harness.model.scratch import scratch
from harness.model.verdict import Verdict
from harness.verify.conclude import conclude
from harness.verify.engine.case import Case, case_of, lacking
from harness.verify.engine.counts import Counts, counts
from harness.verify.engine.deduplicate import (
    deduplicate,
    once_for_all_readers,
    reclassify_aborted,
    unpermitted,
    with_sends,
)
from harness.verify.engine.findings_table import write_records
from harness.verify.engine.inputs import Inputs, side_by_side
from harness.verify.engine.kept import is_empty, kept
from harness.verify.engine.known import Known
from harness.verify.engine.prepared import Prepared, prepare
from harness.verify.engine.rows import NOT_FINDINGS, in_form, union
from harness.verify.engine.runs import RecordRange, collected, runs_of
from harness.verify.engine.session import java_runs, open_session
from harness.verify.engine.tables import BUNDLE, Frames, read_tables
from harness.verify.excuses.client_faults import attributed
from harness.verify.excusing import excused
from harness.verify.promise import declared
from harness.verify.registry import Ask, additions, in_one_line, on_driver, queries, read_on_driver

log = logging.getLogger(__name__)
Progress = Callable[[str], object]
# Many bundles share the cost of planning. What differs in them is in memory at the same time, more for each bundle than
# for each record, so a night's worth of bundles is judged in several parts. A gate has 7 MB.
AT_ONCE_BYTES: Final = 40 << 20


def judge(
    bundles: Sequence[Bundle],
    *,
    master: str | None = None,
    progress: Progress = lambda _: None,
    write: bool = True,
    at_once_bytes: int = AT_ONCE_BYTES,
    java_flags: Callable[[], Sequence[str]] = tuple,
) -> list[Verdict]:
    """The verdict on each bundle, in order. Writes verdict.json and findings.parquet into each, unless `write` is
    False. at_once_bytes: of tables of several bundles that are judged at the same time. java_flags: see
    `open_session`.

    JAVA_HOME must name a Java that Spark runs on. Raises BadEvidence for a bundle with documents that cannot be judged.
    """
    cases = [case_of(bundle) for bundle in bundles]
    if not cases:
        return []
    sizes = [_size_bytes(bundle) for bundle in bundles]
    progress("starting Spark")
    spark = open_session(master, size_bytes=sum(sizes), java_flags=java_flags)
    verdicts: list[Verdict] = []
    for some in _batches(sizes, at_once_bytes):
        with java_runs(spark):
            verdicts += _judge_at_once(spark, bundles[some], cases[some], progress, write)
    return verdicts


def _size_bytes(bundle: Bundle) -> int:
    return sum(part.stat().st_size for table in TABLES for part in bundle.table_files(table))


def _batches(sizes: Sequence[int], at_once_bytes: int) -> Iterator[slice]:
    """Ranges of neighbouring bundles, each of at most this size, or of a single bundle."""
    first, total = 0, 0
    for n, size in enumerate(sizes):
        if n > first and total + size > at_once_bytes:
            yield slice(first, n)
            first, total = n, 0
        total += size
    yield slice(first, len(sizes))


def _judge_at_once(
    spark: SparkSession, bundles: Sequence[Bundle], cases: Sequence[Case], progress: Progress, write: bool
) -> list[Verdict]:
    files = {table: {n: b.table_files(table) for n, b in enumerate(bundles)} for table in TABLES}
    with scratch("judge") as folder:
        judged = judge_tables(spark, cases, read_tables(spark, files, Path(folder)), progress=progress)
        if write:
            progress("writing verdicts")
            write_records(judged.records, [bundle.path for bundle in bundles])
            for bundle, verdict in zip(bundles, judged.verdicts, strict=True):
                write_verdict(bundle.path, verdict)
    return judged.verdicts


@dataclass(slots=True)
class Judged:
    """Verdicts in the order of the cases. records: one row for each record of a finding; None when there is no
    finding."""

    verdicts: list[Verdict]
    records: DataFrame | None


def judge_tables(
    spark: SparkSession, cases: Sequence[Case], frames: Frames, *, progress: Progress = lambda _: None
) -> Judged:
    """The verdict on each case from its tables; `bundle` in every frame is the number of the case."""
    given = prepare(spark, cases, frames)
    failed: dict[str, str] = {}
    with side_by_side(spark) as pool:
        inputs = Inputs(given, pool)
        counted = pool.submit(counts, inputs)
        read = {rows.name: pool.submit(read_on_driver, rows, inputs) for rows in on_driver()}
        of_check = _checked(inputs, pool, failed, progress)
        progress("putting findings together")
        rows, runs = _deduplicated(of_check, given, failed)
        progress("counting")
        figures = counted.result()
        of_case = _collected(read, len(cases), failed)
    by_bundle: dict[int, list[RecordRange]] = defaultdict(list)
    for run in runs:
        by_bundle[run.bundle].append(run)
    verdicts = [_concluded(case, by_bundle[n], figures[n], of_case[n], dict(failed)) for n, case in enumerate(cases)]
    return Judged(verdicts, rows if runs else None)


def _collected(
    read: Mapping[str, Future[Sequence[object]]], cases: int, failed: dict[str, str]
) -> list[dict[str, object]]:
    """The rows on the driver of each case, by their name. Rows that cannot be read are noted in `failed`."""
    found: list[dict[str, object]] = [{} for _ in range(cases)]
    for rows in on_driver():
        try:
            each = read[rows.name].result()
            if len(each) != cases:
                raise ValueError(f"it read {len(each)} results for {cases} bundles")
        except Exception as error:  # after any error here the checks are still valid
            log.exception("the rows of %s could not be read", rows.name)
            failed[rows.name] = in_one_line(error)
            each = [rows.none() for _ in found]
        for of_case, own in zip(found, each, strict=True):
            of_case[rows.name] = own
    return found


def _concluded(
    case: Case,
    runs: Sequence[RecordRange],
    figures: Counts,
    rows: Mapping[str, object],
    failed: dict[str, str],
) -> Verdict:
    known = Known(case=case, runs=runs, counts=figures, failed=failed, on_driver=rows)
    try:
        return conclude(known, additions(known, failed))
    except (KeyError, TypeError, AttributeError) as foreign:
        if case.manifest.by_harness:
            raise  # a defect of the harness
        raise BadEvidence(f"{case.name}: {lacking(foreign)}") from foreign


def _checked(inputs: Inputs, pool: Executor, failed: dict[str, str], progress: Progress) -> dict[str, DataFrame]:
    """The rows of every check that found something. A check that fails is noted in `failed`, and makes a doubt.

    Each check is computed separately and its plan is cut off: Spark takes minutes to plan twenty checks as one query.
    """

    def rows_of(name: str, ask: Ask) -> DataFrame | None:
        progress(f"checking {name}")
        asked = ask(inputs)
        if asked is None:
            return None
        rows = kept(in_form(asked))
        return None if is_empty(rows) else rows

    checking = {name: pool.submit(rows_of, name, ask) for name, ask in queries().items()}
    found: dict[str, DataFrame] = {}
    for name, checked in checking.items():
        try:
            rows = checked.result()
        except Exception as error:  # after any error here the other checks are still valid
            log.exception("check %s failed", name)
            failed[name] = in_one_line(error)
            continue
        if rows is not None:
            found[name] = rows
    return found


def _deduplicated(
    of_check: dict[str, DataFrame], given: Prepared, failed: dict[str, str]
) -> tuple[DataFrame | None, list[RecordRange]]:
    if not of_check:
        return None, []
    try:
        rows = deduplicated_rows(union(list(of_check.values())), given, failed)
        return rows, _of_known_kinds(collected(runs_of(rows)), failed)
    except Exception as error:  # the checks succeeded, so the combination failed
        log.exception("the findings could not be put together")
        failed["deduplicate"] = f"the findings could not be put together, so some stand twice: {in_one_line(error)}"
        return _each_by_itself(of_check, given, failed)


def _each_by_itself(
    of_check: dict[str, DataFrame], given: Prepared, failed: dict[str, str]
) -> tuple[DataFrame | None, list[RecordRange]]:
    """The rows of each check about each bundle as they stand, also those that another row makes redundant: what was
    found must not be lost because it could not be put together."""
    standing: list[DataFrame] = []
    runs: list[RecordRange] = []
    for name, rows in of_check.items():
        for number in sorted(row[BUNDLE] for row in rows.select(BUNDLE).distinct().collect()):
            try:
                mine, ranges = _standing(rows.where(F.col(BUNDLE) == number), given, failed)
            except Exception as error:  # after any error here the rows of the others are still valid
                log.exception("the findings of %s could not be read", name)
                failed[name] = f"its findings could not be read: {in_one_line(error)}"
                continue
            standing.append(mine)
            runs += ranges
    return union(standing) if standing else None, _of_known_kinds(runs, failed)


def _standing(rows: DataFrame, given: Prepared, failed: dict[str, str]) -> tuple[DataFrame, list[RecordRange]]:
    """Rows with their sends and what permits them. If even that fails, nothing is known to permit them, so they
    condemn, as those of an excuse that fails do."""
    try:
        whole = kept(_permitted(rows, given, failed))
        return whole, collected(runs_of(whole))
    except Exception:
        log.exception("what permits findings could not be read")
        bare = kept(unpermitted(rows))
        return bare, collected(runs_of(bare))


def _of_known_kinds(runs: list[RecordRange], failed: dict[str, str]) -> list[RecordRange]:
    """The ranges without those of a kind that no check introduces, which nothing could be said about."""
    known = {*NOT_FINDINGS, *(kind for check in declared().values() for kind in check.kinds)}
    for kind in sorted({run.kind for run in runs} - known):
        failed[kind] = "a check reported findings of this kind, and none introduces it in its `kinds`"
    return [run for run in runs if run.kind in known]


def deduplicated_rows(rows: DataFrame, given: Prepared, failed: dict[str, str]) -> DataFrame:
    """Rows of all checks as the verdict reports them: joined with their sends, excused or not, each defect once. An
    excuse that fails is noted in `failed`."""
    return kept(once_for_all_readers(deduplicate(kept(_permitted(rows, given, failed)))))


def _permitted(rows: DataFrame, given: Prepared, failed: dict[str, str]) -> DataFrame:
    """Rows joined with their sends, excused or not, and explained or not."""
    named = kept(reclassify_aborted(with_sends(kept(rows), given)))
    return attributed(excused(named, given, failed), given)
