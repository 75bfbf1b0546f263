"""Two gates side by side, read from their evidence: the one description that terminal, page and JSON show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.evidence.comparison import Comparison, Found, Side, compared
from harness.evidence.figures import figures_of
from harness.evidence.past_runs import PastGate
from harness.model.exits import Exit
from harness.model.verdict import Status
from reports.review.comparison.times import Figures, Overall, Single, Times, times_of
from reports.review.loaded import Loaded
from reports.summary import covered_by_none, headline_lines, release_name, score_lines

WITHOUT: Final = "no verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One of the two gates in words. score: how many fault episodes lost records, with its bound."""

    release: str
    verdict: str
    score: tuple[str, ...]
    evidence: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One scenario in both gates. new, gone: kinds of its findings. less, more: entries that only B, or A, lacks."""

    scenario: str
    before: str
    after: str
    flaky: bool
    new: tuple[str, ...]
    gone: tuple[str, ...]
    score: tuple[str, str]
    less: tuple[str, ...]
    more: tuple[str, ...]
    times: tuple[Single, ...]

    @property
    def differs(self) -> bool:
        """Whether anything but times within noise differs."""
        beyond = any(one.reading.is_change for one in self.times)
        return bool(self.before != self.after or self.new or self.gone or self.less or self.more or beyond)


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """Gate B compared with gate A.

    word: the result in capitals with its reason. notes: what makes the two unequal. uncovered: what no scenario of B
    covers, and some scenario of A does; covered: the other way round.
    """

    word: str
    exit: Exit
    a: Origin
    b: Origin
    notes: tuple[str, ...]
    findings: Comparison
    uncovered: tuple[str, ...]
    covered: tuple[str, ...]
    times: Times
    rows: tuple[Row, ...]

    @property
    def look(self) -> str:
        """The style class of the word."""
        return {Exit.FAIL: "fail", Exit.INCONCLUSIVE: "inconclusive"}.get(self.exit, "pass")


def against(a: Loaded, b: Loaded, past: Sequence[PastGate] = ()) -> Against:
    """Compares two gates. a: before, b: after. past: earlier gates, which show how far times vary by chance."""
    findings = compared(_side(a), _side(b))
    none_a, none_b = (covered_by_none([*one.verdicts.values()]) for one in (a, b))
    times = times_of(_figures(a), _figures(b), past) if _same_backends(a, b) else Times(overall=(), singles={})
    return Against(
        word=_word(findings, times),
        exit=findings.exit,
        a=_origin(a),
        b=_origin(b),
        notes=tuple(_notes(a, b)),
        findings=findings,
        uncovered=tuple(what for what in none_b if what not in none_a),
        covered=tuple(what for what in none_a if what not in none_b),
        times=times,
        rows=_rows(findings, times),
    )


def _side(loaded: Loaded) -> Side:
    unproved = (r.name for r in loaded.summary.results if r.bundle in loaded.without)
    return Side(summary=loaded.summary, verdicts=loaded.verdicts, unproved=frozenset(unproved))


def _figures(loaded: Loaded) -> dict[str, Figures]:
    return {name: figures_of(loaded.bundles[name], verdict) for name, verdict in loaded.verdicts.items()}


def _origin(loaded: Loaded) -> Origin:
    (word, _), *_ = headline_lines(loaded.summary, loaded.verdicts, loaded.without)
    name = release_name(loaded.summary, loaded.verdicts)
    return Origin(
        release=name,
        verdict=word.removesuffix(f": {name}"),
        score=tuple(text.strip() for text, _ in score_lines(loaded.verdicts.values())[:1]),
        evidence=loaded.evidence,
    )


def _same_backends(a: Loaded, b: Loaded) -> bool:
    return not a.summary.backends or not b.summary.backends or a.summary.backends == b.summary.backends


def _notes(a: Loaded, b: Loaded) -> Iterable[str]:
    """Differences between the two gates that are not of the releases, and what follows from them."""
    if a.evidence.resolve() == b.evidence.resolve():
        yield "both are the same folder"
    for when, loaded in (("before", a), ("now", b)):
        yield from (f"{when}: {sentence}" for sentence in loaded.without.values())
    seeds = [_seeds(one) for one in (a, b)]
    if all(seeds) and seeds[0] != seeds[1]:
        yield f"the seeds differ ({_listed(seeds[0])} and {_listed(seeds[1])}), so the plans differ"
    if not _same_backends(a, b):
        words = [" and ".join(one.summary.backends) for one in (a, b)]
        yield f"the backends differ ({words[0]} before, {words[1]} now), so times are not compared"
    elif not a.verdicts.keys() & b.verdicts.keys():
        yield "no scenario has a verdict in both"


def _seeds(loaded: Loaded) -> set[int]:
    of_runs = {v.facts.seed for v in loaded.verdicts.values() if v.facts.seed is not None}
    return of_runs if loaded.summary.seed is None else {loaded.summary.seed}


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(str(seed) for seed in sorted(seeds))


def _word(findings: Comparison, times: Times) -> str:
    if findings.new or findings.new_fails:
        names = dict.fromkeys([f.defect.scenario for f in findings.new] + [c.scenario for c in findings.new_fails])
        return f"WORSE: a promise is broken that was not broken before, in {some([*names])}"
    if findings.proves_less:
        return f"LESS PROVED: PASS before, and not now: {some([one.scenario for one in findings.proves_less])}"
    changes = [f"{one.figure.title} is {one.reading.value}" for one in times.overall if one.reading.is_change]
    longer = f"; beyond noise: {', '.join(changes)}" if changes else ""
    if findings.gone:
        where = some([one.defect.scenario for one in findings.gone])
        return f"BETTER: no new finding, and some of before are no longer found, in {where}{longer}"
    return f"NOTHING NEW: no new finding, and nothing that was PASS is in doubt or missing{longer}"


def some(names: Sequence[str], most: int = 5) -> str:
    """The first of these names, each once, and how many more there are."""
    unique = [*dict.fromkeys(names)]
    more = f" and {len(unique) - most} more" if len(unique) > most else ""
    return ", ".join(unique[:most]) + more


def _rows(findings: Comparison, times: Times) -> tuple[Row, ...]:
    was, now = findings.a.statuses, findings.b.statuses
    names = dict.fromkeys([*now, *was, *findings.b.verdicts, *findings.a.verdicts])
    flaky = {*findings.a.flaky, *findings.b.flaky}
    rows = [
        Row(
            scenario=name,
            before=_status(was.get(name)),
            after=_status(now.get(name)),
            flaky=name in flaky,
            new=_kinds(findings.new, name),
            gone=_kinds(findings.gone, name),
            score=(_score(findings.a, name), _score(findings.b, name)),
            less=_entries(findings.less_covered, name),
            more=_entries(findings.more_covered, name),
            times=times.singles.get(name, ()),
        )
        for name in names
    ]
    return tuple(sorted(rows, key=lambda row: not row.differs))


def _status(status: Status | None) -> str:
    return WITHOUT if status is None else status.value


def _kinds(found: Sequence[Found], scenario: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.defect.kind for one in found if one.defect.scenario == scenario))


def _entries(by_entry: Mapping[str, Sequence[str]], scenario: str) -> tuple[str, ...]:
    return tuple(what for what, names in by_entry.items() if scenario in names)


def _score(side: Side, scenario: str) -> str:
    verdict = side.verdicts.get(scenario)
    if verdict is None or verdict.score is None:
        return "-"
    unknown = f", {verdict.score.episodes_unknown} unknown" if verdict.score.episodes_unknown else ""
    return f"{verdict.score.episodes_with_loss} of {verdict.score.episodes}{unknown}"


def document_of(compared_gates: Against) -> dict[str, object]:
    """The comparison in plain JSON types."""
    found = compared_gates.findings
    return {
        "result": compared_gates.word,
        "exit": int(compared_gates.exit),
        "before": _origin_document(compared_gates.a),
        "after": _origin_document(compared_gates.b),
        "notes": [*compared_gates.notes],
        "new_findings": [_found_document(one) for one in found.new],
        "findings_gone": [_found_document(one) for one in found.gone],
        "findings_not_decided_now": [_found_document(one) for one in found.undecided],
        "findings_in_both": [_found_document(one) for one in found.in_both],
        "covered_by_none_now": [*compared_gates.uncovered],
        "covered_by_none_before": [*compared_gates.covered],
        "times": [_overall_document(one) for one in compared_gates.times.overall],
        "scenarios": [_row_document(row) for row in compared_gates.rows],
    }


def _origin_document(origin: Origin) -> dict[str, object]:
    return {
        "release": origin.release,
        "verdict": origin.verdict,
        "score": [*origin.score],
        "evidence": str(origin.evidence),
    }


def _found_document(one: Found) -> dict[str, object]:
    defect = one.defect
    place = {"scenario": defect.scenario, "kind": defect.kind, "topic": defect.topic or None, "place": defect.place}
    return {**place, "before": one.before, "after": one.after}


def _overall_document(one: Overall) -> dict[str, object]:
    interval = one.interval
    return {
        "figure": one.figure.name,
        "meaning": one.figure.meaning,
        "median_before": one.before,
        "median_after": one.after,
        "ratio": interval.ratio if interval else None,
        "interval": [interval.low, interval.high] if interval else None,
        "scenarios": interval.pairs if interval else None,
        "reading": one.reading.value,
        "spread": one.basis.value,
    }


def _row_document(row: Row) -> dict[str, object]:
    return {
        "scenario": row.scenario,
        "before": row.before,
        "after": row.after,
        "flaky": row.flaky,
        "new_findings": [*row.new],
        "findings_gone": [*row.gone],
        "episodes_with_loss": {"before": row.score[0], "after": row.score[1]},
        "not_covered_now": [*row.less],
        "not_covered_before": [*row.more],
        "times": {
            one.figure.name: {
                "before": one.before,
                "after": one.after,
                "within_noise": None if one.limits is None else [*one.limits],
                "reading": one.reading.value,
                "spread": one.basis.value,
            }
            for one in row.times
        },
    }
