"""The terminal summary: at most 25 lines that say what broke, where, why, where to look and how to play it again."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from harness.evidence.gate import GateSummary, ScenarioResult
from harness.model.finding import Finding
from harness.model.plugin import active
from harness.model.verdict import Status, Verdict
from reports.known import terminal_lines
from reports.notation import kafka_notation
from reports.review.content import DoubtLine, Incident, doubts, incidents
from reports.review.same_records import Same, same_records
from reports.summary import (
    amount_of,
    availability_lines,
    began_lines,
    counted,
    covered_by_none,
    headline_lines,
    place_of,
    reason_of,
    replay_command,
    score_lines,
    try_lines,
)
from reports.terminal import Line

LINES_MAX: Final = 25  # with the line about the review page, which is printed after the summary
_HEAD_MAX: Final = 6
_SCORE_MAX: Final = 3  # where there is more than fits
_NOTES_SHOWN: Final = 3
_NOT_COVERED_SHOWN: Final = 3
_WHOLE: Final = 2  # incidents that are shown with their details and the promise; one where there are many
_MANY: Final = 4
_TEXT_MAX: Final = 300
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Section:
    """Items of one sort, each of one or more lines.

    one, many: what the items are, for a line that counts those which are not shown. least: how many are shown before
    any section gets more; 0 = the section may be left out whole.
    """

    one: str
    many: str
    items: Sequence[Sequence[Line]]
    least: int = 1

    def lines(self, shown: int) -> list[Line]:
        """The first items, and a line that counts the others."""
        if not shown and not self.least:
            return []
        rest = len(self.items) - shown
        counted = (
            f"  {'and ' if shown else ''}{rest:,}{' more' if shown else ''} {self.one if rest == 1 else self.many}"
        )
        return [*chain.from_iterable(self.items[:shown]), *([(counted, "dim")] if rest else [])]


def summary_lines(
    summary: GateSummary, verdicts: Mapping[str, Verdict], evidence: Path, without: Mapping[str, str] = _NOTHING
) -> list[Line]:
    """Returns the lines of the summary with their styles.

    verdicts: by scenario. evidence: the folder to judge again. without: bundles that could not be judged, with reasons.
    """
    head = _capped(headline_lines(summary, verdicts, without), _HEAD_MAX)
    tail = [*_not_covered(verdicts), *_where(summary, verdicts, evidence, without)]
    sections = [section for section in _sections(summary, verdicts) if section.items]
    of_figures = counted(summary, verdicts)
    score = score_lines(of_figures.values())
    score = [("", ""), *score, *availability_lines(of_figures)] if score else []
    lines_left = LINES_MAX - 2 - len(head) - len(tail)
    if sum(len(one.lines(len(one.items))) for one in sections) + 1 > lines_left - len(score):
        score = score[:_SCORE_MAX]
    return [("", ""), *head, *_fitted(sections, lines_left - len(score)), *score, *tail]


def quiet_lines(
    summary: GateSummary, verdicts: Mapping[str, Verdict], evidence: Path, without: Mapping[str, str] = _NOTHING
) -> list[Line]:
    """The word, the reason in one sentence, and where the evidence is."""
    (word, style), *why = headline_lines(summary, verdicts, without)
    return [(word, style), *why[:1], (f"evidence: {evidence}", "")]


def _sections(summary: GateSummary, verdicts: Mapping[str, Verdict]) -> list[_Section]:
    """The sections below the headline, the most important first."""
    several = len(summary.results) > 1
    condemning = incidents(verdicts, condemning=True)
    same = same_records(condemning)
    failed = [
        [(f"  {r.name}: harness error", "bold magenta"), (f"    {r.error}", "")]
        for r in summary.results
        if r.status is None
    ]
    worst_first = sorted(summary.results, key=lambda r: -(r.status or Status.INCONCLUSIVE).severity)
    notes = [
        [(_short(f"  note{_of(name, several)}: {kafka_notation(note)}"), "dim")]
        for name, verdict in verdicts.items()
        if verdict.status is not Status.PASS
        for note in verdict.notes[:_NOTES_SHOWN]
    ]
    upgrades = dict.fromkeys(chain.from_iterable(began_lines(verdict) for verdict in verdicts.values()))
    whole = _WHOLE if len(condemning) <= _MANY else 1
    tries = [_tries(one, several) for one in worst_first if try_lines(one)]
    return [
        _Section(
            "incident",
            "incidents",
            [_incident(one, several, n < whole, same.get(one.stem, ())) for n, one in enumerate(condemning)],
            least=3,
        ),
        _Section("error of the harness", "errors of the harness", failed),
        _Section("doubt", "doubts", [[_doubt(one, several)] for one in doubts(verdicts)]),
        _Section("known finding", "known findings", [[line] for line in terminal_lines(summary)], least=3),
        _Section("upgrade", "upgrades", [[line] for line in upgrades]),
        _Section("scenario with several tries", "scenarios with several tries", tries),
        _Section(
            "permitted finding", "permitted findings", [[line] for line in _permitted(verdicts, several)], least=0
        ),
        _Section("note", "notes", notes, least=0),
    ]


def _of(scenario: str, several: bool) -> str:
    return f" in {scenario}" if several else ""


def _short(text: str) -> str:
    """A text that is not longer than three lines of a terminal; the review page has the whole."""
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]} ..."


def _incident(one: Incident, several: bool, whole: bool, same: Sequence[Same]) -> list[Line]:
    where = f" of {one.where}" if one.where else ""
    count = f" ({one.findings:,} findings)" if one.findings > 1 else ""
    when = f", {one.when}" if one.when else ""
    also = f"; {', '.join(other.short for other in same)}" if same else ""
    head: Line = (f"  {one.kind}: {one.amount}{where}{when}{_of(one.scenario, several)}{count}{also}", "bold")
    return [head, *((_short(f"    {text}"), "") for text in (*one.details[:1], *one.promises[:1]) if whole)]


def _permitted(verdicts: Mapping[str, Verdict], several: bool) -> list[Line]:
    """A line for each kind and reason in a scenario, with the number of its partitions."""
    groups: defaultdict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for name, verdict in verdicts.items():
        for one in verdict.findings:
            if not one.condemns:
                groups[name, one.kind.value, reason_of(one)].append(one)
    lines: list[Line] = []
    for (name, kind, why), found in groups.items():
        whole = replace(found[0], count=sum(one.count for one in found))
        places = {(one.topic, one.partition) for one in found}
        where = place_of(whole) if len(found) == 1 else f" of {len(places):,} partitions" if len(places) > 1 else ""
        lines.append((_short(f"  {kind}: {amount_of(whole)}{where}{_of(name, several)}; {why}"), "dim"))
    return lines


def _doubt(one: DoubtLine, several: bool) -> Line:
    first, *others = [_short(text) for text in one.texts]
    more = f" (and {len(others)} more of this sort: {one.name})" if others else ""
    return (f"  doubt{_of(one.scenario, several)}: {first}{more}", "yellow")


def _tries(result: ScenarioResult, several: bool) -> list[Line]:
    name: list[Line] = [(f"  {result.name}:", "dim")] if several else []
    return [*name, *try_lines(result)]


def _fitted(present: Sequence[_Section], lines_left: int) -> list[Line]:
    """Each section with as many items as there is room for: first one of each, then more of the most important."""
    shown = [0 for _ in present]

    def fits() -> bool:
        return sum(len(one.lines(n)) for one, n in zip(present, shown, strict=True)) <= lines_left - 1

    for least_only in (True, False):
        for at, section in enumerate(present):
            most = min(section.least, len(section.items)) if least_only else len(section.items)
            while shown[at] < most:
                shown[at] += 1
                if not fits():
                    shown[at] -= 1
                    break
    lines = list(chain.from_iterable(one.lines(n) for one, n in zip(present, shown, strict=True)))
    return [("", ""), *lines] if lines else []


def _capped(lines: list[Line], most: int) -> list[Line]:
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], (f"  and {len(lines) - most + 1:,} more lines of this sort on the review page", "dim")]


def _not_covered(verdicts: Mapping[str, Verdict]) -> list[Line]:
    uncovered = covered_by_none(list(verdicts.values()))
    more = len(uncovered) - _NOT_COVERED_SHOWN
    named = [*uncovered[:_NOT_COVERED_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    return [(f"not covered: {'; '.join(named)}", "dim")] if named else []


def _where(
    summary: GateSummary, verdicts: Mapping[str, Verdict], evidence: Path, without: Mapping[str, str]
) -> list[Line]:
    """How to play the worst scenario again, where the evidence is, and how to judge it again."""
    worst = [one.scenario for one in incidents(verdicts, condemning=True)] + [d.scenario for d in doubts(verdicts)]
    replay = next((command for name in worst if (command := replay_command(summary, verdicts[name]))), "")
    lines: list[Line] = [(f"play again:  {replay}", "")] if replay else []
    lines.append((f"evidence:    {evidence}", ""))
    if without or verdicts or any(result.bundle for result in summary.results):  # there is something to judge
        plugins = "".join(f" --plugins {shlex.quote(str(plugin.folder))}" for plugin in active())
        lines.append((f"judge again: durability verify {evidence}{plugins}", ""))
    return lines
