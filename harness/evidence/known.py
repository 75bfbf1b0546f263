"""Applies known findings to a gate. Verdicts stay as they are: only the word and the exit code of the gate may change.

An entry covers findings of a try when scenario, kind, topic and release match, it has not expired, and the sum of all
findings that it names is within its limit. Generated scenarios of a night have one entry for all of them: it needs a
line in a log of the brokers that shows the cause, and that names the partition of the finding.

A FAIL of which each condemning finding is covered counts as PASS; with a doubt beside it, as INCONCLUSIVE, because a
doubt is never covered. The rule for tries then decides as always, see `evidence.gate.decided`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from harness.evidence.gate import (
    GateSummary,
    KnownApplied,
    KnownMatch,
    KnownUnused,
    ScenarioResult,
    Try,
    decided,
    origins_of,
)
from harness.evidence.layout import LOGS
from harness.evidence.verdicts import VERDICT, read_verdict
from harness.model.doubt_names import DoubtOrigin
from harness.model.errors import BadEvidence
from harness.model.finding import GROUP, Finding
from harness.model.known_findings import EPISODES, KnownFile, KnownFinding
from harness.model.own_names import without_prefix
from harness.model.verdict import Status, Verdict


@dataclass(slots=True)
class _Findings:
    """The matches so far, and why entries did not match findings of their scenario and kind."""

    matched: list[KnownMatch] = field(default_factory=list)
    refused: dict[KnownFinding, str] = field(default_factory=dict)


def with_known(
    summary: GateSummary, evidence: Path, known: KnownFile | None, without: Collection[str] = ()
) -> GateSummary:
    """The summary with the known findings of a file; those of an earlier judgement are dropped.

    evidence: the --out folder, or the one bundle. without: bundles that could not be judged; nothing in them is known.
    """
    if known is None:
        return replace(summary, known=None)
    noted = _Findings()
    results: dict[str, Status] = {}
    for result in summary.results:
        after = _after(result, summary, _Folder(evidence, frozenset(without)), known, noted)
        if after is not None:
            results[result.name] = after
    used = {match.entry for match in noted.matched}
    unused = [
        KnownUnused(entry=entry, why=noted.refused.get(entry) or _why_unused(entry, summary, known))
        for entry in known.entries
        if entry not in used or entry in noted.refused
    ]
    applied = KnownApplied(
        file=known.file,
        sha256=known.sha256,
        day=known.day.isoformat(),
        matched=tuple(noted.matched),
        unused=tuple(unused),
        results=results,
    )
    return replace(summary, known=applied)


@dataclass(frozen=True, slots=True)
class _Folder:
    """Where the verdicts of the tries are."""

    evidence: Path
    without: frozenset[str]

    def verdict(self, one: Try, scenario: str) -> Verdict | None:
        """The verdict of a try as gate.json has it; None if there is none, or another one."""
        if one.status is None or one.bundle in self.without:
            return None
        inside = self.evidence / one.bundle
        try:
            verdict = read_verdict(inside if (inside / VERDICT).is_file() else self._itself(one))
        except BadEvidence:
            return None
        return verdict if verdict.status is one.status and verdict.scenario == scenario else None

    def says(self, bundle: str, text: str, finding: Finding) -> bool:
        """Whether a line in a log of the brokers matches a text, and names the partition or the group of a finding."""
        subject = _subject(finding)
        if subject is None:
            return False
        cause, about = re.compile(text), re.compile(rf"(?<![\w.-]){re.escape(subject)}(?![\w-])")
        lines = (line for log in (self.evidence / bundle / LOGS).glob("*") for line in _lines(log))
        return any(cause.search(line) and about.search(line) for line in lines)

    def _itself(self, one: Try) -> Path:
        """The evidence, where it is that bundle."""
        return self.evidence if self.evidence.absolute().name == one.bundle else self.evidence / one.bundle


def _subject(finding: Finding) -> str | None:
    """What a broker's log calls the partition or the group of a finding; None if it is about neither."""
    if finding.topic is not None and finding.partition is not None:
        return f"{finding.topic}-{finding.partition}"
    kind, _, name = (finding.reader or "").partition(" ")
    return f"[GroupId {name}]" if kind == GROUP else None


def _lines(log: Path) -> Iterator[str]:
    with log.open(encoding="utf-8", errors="replace") as lines:
        yield from lines


def _after(
    result: ScenarioResult, summary: GateSummary, folder: _Folder, known: KnownFile, noted: _Findings
) -> Status | None:
    """The status of a FAIL without its known findings; None where it stays FAIL, or is none."""
    if result.status is not Status.FAIL:
        return None
    verdicts = [folder.verdict(one, result.name) for one in result.tries]
    there = [verdict for verdict in verdicts if verdict is not None]
    if not there:
        return None
    tries = [
        _try_after(one, verdict, summary, folder, known, noted)
        for one, verdict in zip(result.tries, verdicts, strict=True)
        if verdict is not None
    ]
    if len(there) < len(verdicts):  # nothing is known about what the other try met
        return None
    after = decided(result.name, tries).status
    return None if after is Status.FAIL else after


def _try_after(
    one: Try, verdict: Verdict, summary: GateSummary, folder: _Folder, known: KnownFile, noted: _Findings
) -> Try:
    if verdict.status is not Status.FAIL:
        return replace(one, origins=origins_of(verdict))
    condemning = [finding for finding in verdict.findings if finding.condemns]
    covered = _covered(condemning, one.bundle, verdict, summary, folder, known, noted)
    if not condemning or not covered:
        return one
    if verdict.doubts:  # of whatever origin: with a finding in the same run, its doubts may be about the release
        return replace(one, status=Status.INCONCLUSIVE, origins=(DoubtOrigin.RELEASE,))
    return replace(one, status=Status.PASS, origins=())


def _covered(
    condemning: Sequence[Finding],
    bundle: str,
    verdict: Verdict,
    summary: GateSummary,
    folder: _Folder,
    known: KnownFile,
    noted: _Findings,
) -> bool:
    """Whether entries cover all of these findings. Notes each match, and each entry that was no match."""
    by_entry: defaultdict[KnownFinding | None, list[Finding]] = defaultdict(list)
    for finding in condemning:
        by_entry[_entry_of(finding, bundle, verdict, summary, folder, known)].append(finding)
    whole = None not in by_entry
    for entry, found in by_entry.items():
        if entry is None:
            continue
        amount = sum(one.count for one in found)
        if refusal := _refusal(entry, found, verdict, known):
            noted.refused.setdefault(entry, f"{refusal} ({bundle}: {amount:,} condemn)")
            whole = False
        else:
            noted.matched.append(KnownMatch(entry=entry, bundle=bundle, records=amount, findings=len(found)))
    return whole


def _entry_of(
    finding: Finding, bundle: str, verdict: Verdict, summary: GateSummary, folder: _Folder, known: KnownFile
) -> KnownFinding | None:
    """The first entry for a finding."""
    scenario = EPISODES if summary.night is not None else verdict.scenario
    releases = {summary.release.version, verdict.facts.release.version if verdict.facts.release else None} - {None}
    fitting = (
        entry
        for entry in known.entries
        if (entry.scenario, entry.kind) == (scenario, finding.kind.value)
        and entry.topic in (None, finding.topic and without_prefix(finding.topic))
        and releases
        and all(entry.covers(release) for release in releases)
        and (entry.log is None or folder.says(bundle, entry.log, finding))
    )
    return next(fitting, None)


def _refusal(entry: KnownFinding, found: Sequence[Finding], verdict: Verdict, known: KnownFile) -> str | None:
    """Why an entry does not cover the findings that it names; None if it does."""
    if verdict.facts.negative_control is not None:
        return "a negative control must FAIL"
    if entry.expired(known.day):
        return f"it expired on {entry.expires}"
    if min(one.count for one in found) < 1:
        return "a finding has no count"
    if sum(one.count for one in found) > entry.records:
        return f"more than its {entry.records:,}"
    return None


def _why_unused(entry: KnownFinding, summary: GateSummary, known: KnownFile) -> str:
    """Why no finding needed an entry."""
    of_night = summary.night is not None and entry.scenario == EPISODES
    result = next((one for one in summary.results if of_night or one.name == entry.scenario), None)
    expired = f"; it expired on {entry.expires}" if entry.expired(known.day) else ""
    if not entry.covers(summary.release.version) and summary.release.version:
        return f"Kafka {summary.release.version} is not in its range{expired}"
    if result is None:
        return f"the scenario was not played{expired}"
    return f"the scenario had no such finding{expired}"
