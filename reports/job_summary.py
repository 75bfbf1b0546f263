"""The summary of a CI job in Markdown: word, reason, scenarios, incidents, known findings, doubts and a link.

All texts of the evidence are shown as they are: characters with a meaning in Markdown or HTML are written as entities,
which GitHub and GitLab turn back after they have looked for markup.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.evidence.gate import GateSummary, ScenarioResult
from harness.model.verdict import Status, Verdict
from reports.ci_run import run_url
from reports.known import matched_lines, unused_lines
from reports.review.content import doubts, incidents
from reports.summary import availability_lines, counted, headline_lines, score_lines
from reports.terminal import Line, clean
from reports.whole_files import write_text

STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"  # GitHub's variable: the file to append to
SCENARIOS_SHOWN: Final = 250
INCIDENTS_SHOWN: Final = 25
_TEXT_MAX: Final = 500
_MARKS: Final = frozenset("\\`*_{}[]<>&#|~@!\"'^$")
_NOT_JUDGED: Final = "NOT JUDGED"


def markdown(summary: GateSummary, verdicts: Mapping[str, Verdict], evidence: Path, without: Mapping[str, str]) -> str:
    """Returns the document, of less than 1 MiB, which is GitHub's limit. The arguments are those of `summary_lines`."""
    word, *why = _texts(headline_lines(summary, verdicts, without))
    of_figures = counted(summary, verdicts)
    score = _texts([*score_lines(of_figures.values()), *availability_lines(of_figures)])
    parts = [
        [f"# {escaped(word)}"],
        _list(why),
        _scenarios(summary, verdicts),
        _incidents(verdicts),
        _headed("Known findings", [*matched_lines(summary), *(f"not met: {one}" for one in unused_lines(summary))]),
        _headed("Doubts", [_doubt(one.scenario, one.name, one.texts) for one in doubts(verdicts)]),
        _headed("Score", score),
        [*_link(), f"Evidence: {escaped(str(evidence))}"],
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def write_job_summary(text: str, file: Path | None) -> list[str]:
    """Writes the document to a file, and appends it to the one that GitHub names. Returns a sentence for each failure:
    the verdict is known by then, and a summary that cannot be written does not change it."""
    failures = []
    if file is not None:
        try:
            write_text(file, text)
        except OSError as refused:
            failures.append(f"the job summary cannot be written to {file} ({refused.strerror})")
    if named := os.environ.get(STEP_SUMMARY):
        try:
            with Path(named).open("a", encoding="utf-8", errors="backslashreplace") as step:
                step.write(text)
        except OSError as refused:
            failures.append(f"the job summary cannot be written to ${STEP_SUMMARY}, {named} ({refused.strerror})")
    return failures


def escaped(text: str) -> str:
    """A text on one line without a meaning in Markdown, and no longer than a screen."""
    said = clean(text)
    said = said if len(said) <= _TEXT_MAX else f"{said[:_TEXT_MAX]} ..."
    marked = "".join(f"&#{ord(c)};" if c in _MARKS else c for c in said)
    return marked.replace("://", "&#58;//").replace("www.", "www&#46;")  # else they become links


def _texts(lines: Sequence[Line]) -> list[str]:
    return [text.strip() for text, _ in lines if text.strip()]


def _list(texts: Sequence[str]) -> list[str]:
    return [f"- {escaped(text)}" for text in texts[:INCIDENTS_SHOWN]] + _more(len(texts) - INCIDENTS_SHOWN)


def _more(count: int) -> list[str]:
    return [f"- and {count:,} more: see the review page"] if count > 0 else []


def _headed(title: str, texts: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *_list(texts)] if texts else []


def _scenarios(summary: GateSummary, verdicts: Mapping[str, Verdict]) -> list[str]:
    """The table, the worst scenarios first."""
    worst_first = sorted(summary.results, key=lambda r: -(r.status or Status.INCONCLUSIVE).severity)
    rows = [_row(result, summary, verdicts.get(result.name)) for result in worst_first]
    lacking = [(name, why) for name, why in summary.not_run.items()]
    lacking += [(name, "not reached") for name in summary.lacking if name not in summary.not_run]
    rows += [(name, "not run", why, "", "") for name, why in lacking if name not in {r.name for r in summary.results}]
    if not rows:
        return []
    lines = [f"| {' | '.join(escaped(cell) for cell in row)} |" for row in rows[:SCENARIOS_SHOWN]]
    more = [f"\nAnd {len(rows) - SCENARIOS_SHOWN:,} more scenarios."] if len(rows) > SCENARIOS_SHOWN else []
    head = ["| scenario | verdict | findings | doubts | tries |", "|---|---|---|---|---|"]
    return ["## Scenarios", "", *head, *lines, *more]


def _row(result: ScenarioResult, summary: GateSummary, verdict: Verdict | None) -> tuple[str, str, str, str, str]:
    status = _NOT_JUDGED if result.status is None else result.status.value
    known = summary.status_after(result) is not result.status
    found: Counter[str] = Counter()
    for finding in verdict.findings if verdict else ():
        if finding.condemns:
            found[finding.kind.value] += finding.count
    findings = ", ".join(f"{count:,} {kind}" for kind, count in found.items()) or (result.error or "")
    names = dict.fromkeys(doubt.name for doubt in verdict.doubts) if verdict else {}
    return (
        result.name,
        f"{status}, known findings only" if known else status,
        findings,
        ", ".join(names),
        ", ".join("none" if one.status is None else one.status.value for one in result.tries[:10]),
    )


def _incidents(verdicts: Mapping[str, Verdict]) -> list[str]:
    found = incidents(verdicts, condemning=True)
    texts = []
    for one in found:
        place, when = f" of {one.where}" if one.where else "", f", {one.when}" if one.when else ""
        said = "; ".join((*one.details[:1], *one.promises[:1]))
        texts.append(f"{one.kind} in {one.scenario}: {one.amount}{place}{when}{f': {said}' if said else ''}")
    return _headed("Incidents", texts)


def _doubt(scenario: str, name: str, texts: Sequence[str]) -> str:
    more = f" (and {len(texts) - 1} more of this sort)" if len(texts) > 1 else ""
    return f"{scenario}, {name}: {texts[0] if texts else ''}{more}"


def _link() -> list[str]:
    url = run_url()
    return [f"[Run and artifacts](<{url}>)", ""] if url else []
