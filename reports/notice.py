"""The body of the webhook: what a chat, a dashboard or a script needs of a verdict, as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from harness.evidence.gate import GateSummary
from harness.model.documents.manifest import NamedRelease
from harness.model.documents.record import Record, meaning
from harness.model.exits import Exit
from harness.model.verdict import Status, Verdict
from reports.ci_run import run_url
from reports.known import matched_lines
from reports.review.content import doubts, incidents
from reports.summary import counted, headline_lines, score_lines, status_of
from reports.terminal import clean

ITEMS_MAX: Final = 20
_TEXT_MAX: Final = 1_000


class NoticedIncident(Record, frozen=True, kw_only=True):
    """Findings of one kind in one partition during one step."""

    scenario: Annotated[str, meaning("name of the scenario")]
    kind: Annotated[str, meaning("the kind of finding")]
    count: Annotated[int, meaning("how many records, operations, nodes or differences")]
    text: Annotated[str, meaning("amount, place and time, in one sentence")]


class Notice(Record, frozen=True, kw_only=True):
    """The body. Texts are on one line and have at most 1,000 characters; lists have at most 20 items."""

    format: Annotated[str, meaning("`kafka-durability/1`; a change that breaks readers has another number")] = (
        "kafka-durability/1"
    )
    word: Annotated[str, meaning("`PASS`, `PASS WITH KNOWN FINDINGS`, `INCONCLUSIVE` or `FAIL`")]
    verdict: Annotated[Status, meaning("the verdict of the evidence; known findings do not change it")]
    exit: Annotated[int, meaning("the exit code of the command")]
    headline: Annotated[str, meaning("word, number of scenarios and release, as on the terminal")]
    why: Annotated[str, meaning("the reason in one sentence")]
    release: Annotated[NamedRelease, meaning("version, commit and source, each null if it is not known")]
    seed: Annotated[int | None, meaning("from which all random choices follow; null = not known")]
    scenarios: Annotated[
        Mapping[str, int],
        meaning(
            "how many are `required`, and how many are `PASS`, `INCONCLUSIVE`, `FAIL` and without a verdict (`none`)"
        ),
    ]
    score: Annotated[str | None, meaning("fault episodes with a loss and their bound; null without a verdict")]
    incidents: Annotated[
        tuple[NoticedIncident, ...], meaning("the worst first, each with `scenario`, `kind`, `count`, `text`")
    ]
    incident_count: Annotated[int, meaning("how many incidents there are, also beyond the list")]
    doubts: Annotated[tuple[str, ...], meaning("one sentence for each sort of doubt in a scenario")]
    known: Annotated[tuple[str, ...], meaning("known findings that were met, each with its entry")]
    evidence: Annotated[str, meaning("the folder of the evidence on the machine that ran")]
    run: Annotated[str | None, meaning("the address of the CI run; null outside of GitHub Actions, GitLab and Jenkins")]


def notice_of(
    summary: GateSummary, verdicts: Mapping[str, Verdict], evidence: Path, without: Mapping[str, str], code: Exit
) -> Notice:
    """The body for a judgement. The first arguments are those of `summary_lines`; code: of the command."""
    texts = [_one(text) for text, _ in headline_lines(summary, verdicts, without)]
    found = incidents(verdicts, condemning=True)
    score = score_lines(counted(summary, verdicts).values())
    status = status_of(summary, without)
    counts = [result.status for result in summary.results]
    return Notice(
        word=summary.word if status is summary.outcome else status.value,
        verdict=summary.status,
        exit=int(code),
        headline=texts[0],
        why=texts[1] if len(texts) > 1 else "",
        release=summary.release,
        seed=summary.seed,
        scenarios={
            "required": len(summary.required),
            **{one.value: counts.count(one) for one in Status},
            "none": counts.count(None) + len(without),
        },
        score=_one(score[0][0]) if score else None,
        incidents=tuple(
            NoticedIncident(
                scenario=one.scenario,
                kind=one.kind,
                count=one.count,
                text=_one(
                    f"{one.amount}{f' of {one.where}' if one.where else ''}{f', {one.when}' if one.when else ''}"
                ),
            )
            for one in found[:ITEMS_MAX]
        ),
        incident_count=len(found),
        doubts=tuple(_one(f"{d.scenario}: {d.name}: {d.texts[0]}") for d in doubts(verdicts)[:ITEMS_MAX]),
        known=tuple(_one(text) for text in matched_lines(summary)[:ITEMS_MAX]),
        evidence=_one(str(evidence)),
        run=run_url(),
    )


def _one(text: str) -> str:
    said = clean(text).strip()
    return said if len(said) <= _TEXT_MAX else f"{said[:_TEXT_MAX]} ..."
