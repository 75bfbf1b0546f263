"""The matrix of promises and faults: what was found of each kind while each fault acted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.evidence.seen_in import kinds_shown_by
from harness.model.finding import Finding, FindingKind, Kind, OwnKind
from harness.model.verdict import Status, Verdict

NO_FAULT: Final = "no fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """look: `fail`, `permitted`, `inconclusive`, `pass` or `not-run`. scenario: the one to look at; None = none."""

    look: str
    text: str
    scenario: str | None
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One kind of findings. quiet: nothing was found and nothing is in doubt."""

    kind: str
    meaning: str
    cells: tuple[Cell, ...]

    @property
    def quiet(self) -> bool:
        """Whether no cell says more than that nothing was found."""
        return all(cell.look in ("pass", "not-run") for cell in self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The matrix. faults: the columns."""

    faults: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """One scenario with its faults. able: the kinds of findings that its evidence can show, also those of plugins."""

    name: str
    verdict: Verdict
    faults: frozenset[str]
    able: frozenset[FindingKind]

    def of(self, kind: FindingKind, fault: str) -> list[Finding]:
        """Its findings of one kind while one fault acted."""
        return [f for f in self.verdict.findings if f.kind == kind and self.fault_of(f) == fault]

    def fault_of(self, finding: Finding) -> str:
        """The fault during which records were acked; if no step is named, the only fault of the scenario."""
        by_name = {step.name: step.do for step in self.verdict.facts.steps if step.is_fault}
        if finding.step in by_name:
            return by_name[finding.step]
        return next(iter(self.faults)) if len(self.faults) == 1 else NO_FAULT


def coverage_of(verdicts: Mapping[str, Verdict], bundles: Mapping[str, Path]) -> Coverage:
    """The matrix of these verdicts, by scenario. bundles: their folders, by scenario."""
    played = [_played(name, verdict, bundles.get(name)) for name, verdict in verdicts.items()]
    own = {finding.kind for one in played for finding in one.verdict.findings if not isinstance(finding.kind, Kind)}
    found = {one.fault_of(f) for one in played for f in one.verdict.findings}
    faults = sorted({fault for one in played for fault in one.faults if fault != NO_FAULT})
    if NO_FAULT in found or any(NO_FAULT in one.faults for one in played):
        faults.append(NO_FAULT)
    lines = [
        Line(kind=kind.value, meaning=kind.meaning, cells=tuple(_cell(kind, fault, played) for fault in faults))
        for kind in (*Kind, *sorted(own, key=str))
    ]
    return Coverage(faults=tuple(faults), lines=tuple(lines))


def _played(name: str, verdict: Verdict, bundle: Path | None) -> _Played:
    faults = {step.do for step in verdict.facts.steps if step.is_fault}
    able = kinds_shown_by(bundle) if bundle is not None else frozenset[FindingKind]()
    return _Played(name=name, verdict=verdict, faults=frozenset(faults or {NO_FAULT}), able=able | _of_plugins(verdict))


def _of_plugins(verdict: Verdict) -> frozenset[FindingKind]:
    """The kinds of the plugins that judged it. They do not say what evidence they need."""
    own = {word: meaning for plugin in verdict.facts.plugins for word, meaning in plugin.kinds.items()}
    return frozenset(OwnKind(word, meaning) for word, meaning in own.items())


def _cell(kind: FindingKind, fault: str, played: Sequence[_Played]) -> Cell:
    found = [(one, finding) for one in played for finding in one.of(kind, fault)]
    condemning = [(one, finding) for one, finding in found if finding.condemns]
    for look, word, pairs in (("fail", "FAIL", condemning), ("permitted", "permitted", found)):
        if pairs:
            count = sum(finding.count for _, finding in pairs)
            return _made(look, f"{word} {count:,}", pairs[0][0].name, kind, fault)
    saying = [one for one in played if fault in one.faults and kind in one.able]
    if not saying:
        return _made("not-run", "not run", None, kind, fault)
    doubtful = [one for one in saying if one.verdict.doubts or one.verdict.status is Status.INCONCLUSIVE]
    if doubtful:
        return _made("inconclusive", "INCONCLUSIVE", doubtful[0].name, kind, fault)
    return _made("pass", "PASS", saying[0].name, kind, fault)


def _made(look: str, text: str, scenario: str | None, kind: FindingKind, fault: str) -> Cell:
    where = f", in {scenario}" if scenario else ""
    return Cell(look=look, text=text, scenario=scenario, label=f"{kind.value}, {fault}: {text}{where}")
