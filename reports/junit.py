"""junit.xml with one test case for each scenario.

FAIL is a failure. INCONCLUSIVE, an error of the harness and a scenario that a whole gate lacks are errors. The output
of a case names its known findings; a FAIL without any other finding or doubt is no failure. A scenario
that does not apply to the release is skipped.

The time of a case is how long all its tries ran, in seconds, without the start of the cluster and the reads after
healing. That of the suite is how long the gate took, if it is known, else the sum. What is not known has no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from harness.evidence.figures import run_of
from harness.evidence.gate import GateSummary, ScenarioResult
from harness.model.documents.run import Run
from harness.model.verdict import Status, Verdict
from reports.known import scenario_lines
from reports.notation import kafka_notation
from reports.summary import FLAKY, began_lines, excused_lines, finding_lines, release_name, try_lines
from reports.terminal import clean

JUNIT: Final = "junit.xml"
_FINDINGS_MAX: Final = 50


def write_junit(path: Path, summary: GateSummary, verdicts: Mapping[str, Verdict], without: Mapping[str, str]) -> None:
    """Writes junit.xml atomically. Scenarios that this run was not asked for are not in it.

    Bundles `without` a verdict are errors under the names of their folders: the scenario of a damaged one is unknown.
    """
    suite = TestSuite(f"durability of {release_name(summary, verdicts)}")
    for name, value in (("seed", summary.seed), ("subset", summary.subset), (FLAKY, ", ".join(summary.flaky) or None)):
        if value is not None:
            suite.add_property(name, str(value))
    if summary.known is not None:
        suite.add_property("word", summary.word)
        suite.add_property("known findings", clean(f"{summary.known.file}, SHA-256 {summary.known.sha256}"))
    runs = {name: _run_of(path.parent, name) for result in summary.results for name in result.bundles}
    for result in summary.results:
        case = _case(summary, result, verdicts.get(result.name))
        if times := [one.lasted_s for name in result.bundles if (one := runs[name]) and one.lasted_s is not None]:
            case.time = round(sum(times), 3)
        suite.add_testcase(case)
    reached = {result.name for result in summary.results}
    unreached = {name: "not reached: the gate ended before it" for name in summary.lacking if name not in reached}
    for name, reason in {**unreached, **summary.not_run, **summary.not_applicable}.items():
        suite.add_testcase(_not_run(name, reason, lacking=name in summary.lacking))
    for bundle, sentence in without.items():
        suite.add_testcase(_not_judged(bundle, sentence))
    suite.update_statistics()  # type: ignore[no-untyped-call]
    if summary.took_s is not None:
        suite.time = summary.took_s
    document = JUnitXml("durability")
    document.add_testsuite(suite)
    for name in ("tests", "failures", "errors", "time"):  # the schema of Jenkins' xUnit plugin permits no others here
        setattr(document, name, getattr(suite, name))
    began_ns = [one.started_ns for one in runs.values() if one and one.started_ns is not None]
    if began_ns:
        suite.timestamp = f"{datetime.fromtimestamp(min(began_ns) // 10**9, UTC):%Y-%m-%dT%H:%M:%S}"
    unfinished = path.with_name(path.name + ".tmp")
    document.write(str(unfinished), pretty=True)
    unfinished.replace(path)


def _run_of(folder: Path, name: str) -> Run | None:
    """The run.json of a bundle of the folder, or of the folder itself; None if it cannot be read."""
    return run_of(folder if name == folder.name and not (folder / name).is_dir() else folder / name)


def _case(summary: GateSummary, result: ScenarioResult, verdict: Verdict | None) -> TestCase:
    case = TestCase(result.name, classname="durability.gate")
    status = summary.status_after(result)
    if status is None:
        case.result = [Error(clean(result.error or "the harness failed"), type_="HarnessFailure")]
    elif status is Status.FAIL:
        case.result = [_with_text(Failure(headline(verdict, "a promise was broken"), type_="FAIL"), verdict)]
    elif status is Status.INCONCLUSIVE:
        case.result = [_with_text(Error(doubt_text(verdict), type_="INCONCLUSIVE"), verdict)]
    head = [f"{FLAKY}: tries on one release have different verdicts"] if result.flaky else []
    if said := [*head, *(text for text, _ in try_lines(result)), *scenario_lines(summary, result.name)]:
        case.system_out = "\n".join(clean(text) for text in said)
    return case


def _not_run(name: str, reason: str, *, lacking: bool) -> TestCase:
    """lacking: the gate is INCONCLUSIVE because of it. It is an error then: a skipped test would hide that."""
    case = TestCase(name, classname="durability.gate")
    case.result = [(Error if lacking else Skipped)(clean(reason), type_="NotRun")]
    return case


def _not_judged(bundle: str, sentence: str) -> TestCase:
    case = TestCase(bundle, classname="durability.gate")
    case.result = [Error(clean(sentence), type_="NotJudged")]
    return case


def _with_text(entry: Failure | Error, verdict: Verdict | None) -> Failure | Error:
    if verdict is not None:
        entry.text = "\n".join(story(verdict))
    return entry


def story(verdict: Verdict) -> list[str]:
    """The text of a verdict for a test report: condemning findings, permitted ones, and every doubt."""
    condemning = [f for f in verdict.findings if f.condemns]
    lines = [clean(text) for finding in condemning[:_FINDINGS_MAX] for text, _ in finding_lines(finding)]
    if len(condemning) > _FINDINGS_MAX:
        lines.append(f"  and {len(condemning) - _FINDINGS_MAX} more findings in verdict.json")
    lines += [clean(text) for text, _ in (*began_lines(verdict), *excused_lines(verdict))]
    return [*lines, *(f"  doubt: {clean(kafka_notation(d.text))}" for d in verdict.doubts)]


def headline(verdict: Verdict | None, otherwise: str) -> str:
    """The condemning findings by kind, such as "50 lost, 2 duplicated"; `otherwise` if there is none."""
    condemning = [f for f in verdict.findings if f.condemns] if verdict else []
    counts: dict[str, int] = {}
    for finding in condemning:
        counts[finding.kind.value] = counts.get(finding.kind.value, 0) + finding.count
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or otherwise


def doubt_text(verdict: Verdict | None) -> str:
    """The doubts of a verdict on one line."""
    if not verdict or not verdict.doubts:
        return "proved too little"
    return clean("; ".join(kafka_notation(d.text) for d in verdict.doubts))
