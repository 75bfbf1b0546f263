"""Earlier gates in their order, and how steady the verdict on each scenario is on one release."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median
from typing import Final

from harness.evidence.figures import FIGURES
from harness.evidence.past_runs import PastGate, PastRun
from harness.model.verdict import Status
from reports.summary import FLAKY

LAST: Final = 20  # gates that the page shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One gate, or one try of a scenario. covers: such as "32 of 32". figures: by name; of a gate the medians.

    took_s: how long the whole gate took, judging included.
    """

    when: str
    release: str
    verdict: str
    covers: str
    episodes: str
    figures: Mapping[str, float]
    took_s: float | None
    evidence: str

    def cells(self) -> tuple[str, ...]:
        """The texts of `HEADING`."""
        took = "-" if self.took_s is None else f"{self.took_s / 60:.1f} min"
        return (self.when, self.release, self.verdict, self.covers, self.episodes, took, *shown_figures(self.figures))


HEADING: Final = (
    "began",
    "release",
    "verdict",
    "scenarios",
    "with loss",
    "took",
    *(figure.short for figure in FIGURES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steadiness:
    """The verdicts on all runs of one scenario on one release. counts: by verdict, tries included."""

    scenario: str
    release: str
    commit: str
    source: str
    counts: Mapping[str, int]

    @property
    def flaky(self) -> bool:
        """Whether runs on this release had different verdicts."""
        return len(self.counts) > 1

    @property
    def runs(self) -> int:
        return sum(self.counts.values())

    @property
    def word(self) -> str:
        """FLAKY, or the verdict that all runs had."""
        return FLAKY if self.flaky else next(iter(self.counts))

    @property
    def detail(self) -> str:
        """Such as "18 PASS, 2 INCONCLUSIVE"."""
        return ", ".join(f"{self.counts[status.value]} {status}" for status in Status if status.value in self.counts)


def chosen(gates: Sequence[PastGate], release: str | None = None, scenario: str | None = None) -> tuple[PastGate, ...]:
    """The gates on a release, by its version or the begin of its commit, with the runs of one scenario alone."""
    wanted = [g for g in gates if release is None or release == g.release or _is_commit(release, g.commit)]
    if scenario is None:
        return tuple(wanted)
    parts = [replace(gate, runs=tuple(r for r in gate.runs if r.scenario == scenario)) for gate in wanted]
    return tuple(part for part in parts if part.runs)


def _is_commit(text: str, commit: str) -> bool:
    return len(text) >= 7 and commit.startswith(text)


def points(gates: Sequence[PastGate], *, by_run: bool = False) -> tuple[Point, ...]:
    """A point for each gate, the oldest first; by_run: for each try in them, as for the runs of one scenario."""
    if by_run:
        return tuple(_of_run(gate, run) for gate in gates for run in gate.runs)
    return tuple(_of_gate(gate) for gate in gates)


def _of_gate(gate: PastGate) -> Point:
    deciding = [run for run in gate.runs if run.decides]
    values: defaultdict[str, list[float]] = defaultdict(list)
    for run in deciding:
        for name, value in run.figures.items():
            values[name].append(value)
    lost, episodes = sum(r.episodes_with_loss for r in deciding), sum(r.episodes for r in deciding)
    return Point(
        when=_clock(gate.started_ns),
        release=gate.release or "unknown",
        verdict=gate.verdict.value,
        covers=f"{gate.with_verdict} of {gate.required}",
        episodes=f"{lost} of {episodes}",
        figures={name: median(found) for name, found in values.items()},
        took_s=gate.took_s,
        evidence=gate.evidence,
    )


def _of_run(gate: PastGate, run: PastRun) -> Point:
    attempt = "" if run.attempt == 1 else f", try {run.attempt}"
    return Point(
        when=_clock(run.started_ns),
        release=run.release or gate.release or "unknown",
        verdict=run.status.value,
        covers=f"{run.scenario}{attempt}",
        episodes=f"{run.episodes_with_loss} of {run.episodes}",
        figures=run.figures,
        took_s=None,
        evidence=gate.evidence,
    )


def shown_figures(figures: Mapping[str, float]) -> tuple[str, ...]:
    """The values with their units, in the order of `FIGURES`; "-" for those that are not known."""
    return tuple(figure.shown(figures.get(figure.name)) for figure in FIGURES)


def steadiness(gates: Sequence[PastGate]) -> tuple[Steadiness, ...]:
    """The verdicts on each scenario by release: flaky ones first, then by name.

    Another commit or another source of the jars is another release.
    """
    counts: defaultdict[tuple[str, str, str, str], Counter[str]] = defaultdict(Counter)
    for gate in gates:
        for run in gate.runs:
            counts[(run.scenario, *run.build)][run.status.value] += 1
    found = [
        Steadiness(scenario=name, release=release or "unknown", commit=commit, source=source, counts=by_status)
        for (name, release, commit, source), by_status in counts.items()
    ]
    return tuple(sorted(found, key=lambda one: (not one.flaky, one.scenario, one.release, one.commit)))


def history_document(gates: Sequence[PastGate]) -> dict[str, object]:
    """The gates with their runs, and the verdicts on each scenario by release, in plain JSON types."""
    return {
        "gates": [
            {
                "began": _clock(gate.started_ns),
                "release": gate.release,
                "commit": gate.commit,
                "source": gate.source,
                "seed": gate.seed,
                "backends": [*gate.backends],
                "verdict": gate.verdict.value,
                "required": gate.required,
                "with_verdict": gate.with_verdict,
                "took_s": gate.took_s,
                "evidence": gate.evidence,
                "runs": [_run_document(run) for run in gate.runs],
            }
            for gate in gates
        ],
        "scenarios": [
            {
                "scenario": one.scenario,
                "release": one.release,
                "commit": one.commit,
                "source": one.source,
                "runs": one.runs,
                "verdicts": dict(one.counts),
                "flaky": one.flaky,
            }
            for one in steadiness(gates)
        ],
    }


def chart_document(gates: Sequence[PastGate]) -> dict[str, object]:
    """The data of the chart: the figures of each gate and of the runs that decide in it, in plain JSON types."""
    return {
        "figures": [{"name": one.name, "title": one.title, "unit": one.unit} for one in FIGURES],
        "scenarios": sorted({run.scenario for gate in gates for run in gate.runs}),
        "gates": [
            {
                "when": point.when,
                "release": point.release,
                "verdict": point.verdict,
                "figures": dict(point.figures),
                "runs": {
                    run.scenario: {"verdict": run.status.value, "figures": dict(run.figures)}
                    for run in gate.runs
                    if run.decides
                },
            }
            for gate, point in zip(gates, points(gates), strict=True)
        ],
    }


def _run_document(run: PastRun) -> dict[str, object]:
    return {
        "scenario": run.scenario,
        "try": run.attempt,
        "decides": run.decides,
        "verdict": run.status.value,
        "backend": run.backend,
        "episodes": run.episodes,
        "episodes_with_loss": run.episodes_with_loss,
        "findings": run.findings,
        "doubts": [*run.doubts],
        **run.figures,
    }


def _clock(at_ns: int) -> str:
    """UTC, to a second; "unknown" for evidence without times."""
    return f"{datetime.fromtimestamp(at_ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S}" if at_ns else "unknown"
