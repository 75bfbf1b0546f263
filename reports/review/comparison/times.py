"""Times of two gates side by side: of all scenarios together, and of each.

Nothing within noise is called a change. A scenario ran once in each gate, so a pair of runs has no spread of its own:

- All scenarios together: the interval is that of the mean ratio over scenarios. It does not contain what shifts a whole
  gate, such as a busier machine. Earlier gates on one release show that; without them a ratio must also be beyond
  the noise that the figure declares.
- One scenario: earlier runs of it on one release show how far it varies. Without them its ratio must be an outlier
  among those of the other scenarios, and differ from their mean by a factor of SINGLE_RATIO_LEAST.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median, stdev
from typing import Final

from harness.evidence.figures import FIGURES, Figure
from harness.evidence.past_runs import PastGate, PastRun
from reports.review.comparison.spread import (
    Interval,
    interval_of,
    largest_by_chance,
    log_ratio,
    pooled,
    t_quantile,
    tail_of,
)

SCENARIOS_LEAST: Final = 8  # with fewer, the spread over scenarios is too uncertain
FREEDOM_LEAST: Final = 4  # of an estimate from earlier runs: five runs on one release
SINGLE_RATIO_LEAST: Final = 3.0
KNOWN_RATIO_LEAST: Final = 1.5  # with earlier runs: those of a steady scenario may have no spread at all

Figures = Mapping[str, float]  # the figures of one run, by name


class Reading(StrEnum):
    """How a difference is to be read."""

    HIGHER = "higher"
    LOWER = "lower"
    NOISE = "within noise"
    UNKNOWN = "no spread known"

    @property
    def is_change(self) -> bool:
        return self in (Reading.HIGHER, Reading.LOWER)


class Basis(StrEnum):
    """The spread that a reading rests on."""

    SCENARIOS = "spread over scenarios"
    GATES = "spread over earlier gates"
    RUNS = "spread of earlier runs of the scenario"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """One figure over all scenarios that have it in both gates.

    before, after: the medians. interval: of the ratio after / before; None = too few scenarios.
    """

    figure: Figure
    before: float | None
    after: float | None
    interval: Interval | None
    reading: Reading
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """One figure of one scenario. limits: ratios between them are within noise; None = nothing is known of that."""

    figure: Figure
    before: float | None
    after: float | None
    limits: tuple[float, float] | None
    reading: Reading
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """singles: by scenario, a value for each compared figure."""

    overall: tuple[Overall, ...]
    singles: Mapping[str, tuple[Single, ...]]

    @property
    def changed(self) -> tuple[tuple[str, Single], ...]:
        """The figures of single scenarios that are beyond noise."""
        return tuple((name, one) for name, found in self.singles.items() for one in found if one.reading.is_change)


def times_of(a: Mapping[str, Figures], b: Mapping[str, Figures], past: Sequence[PastGate] = ()) -> Times:
    """Compares the figures of two gates, by scenario. past: earlier gates, of which those on one release show noise.

    The gates that are compared may be among the earlier ones: only differences within one release count there.
    """
    compared = [figure for figure in FIGURES if figure.compared]
    names = [name for name in a if name in b]
    runs = [run for gate in past for run in gate.runs if run.decides]
    overall: list[Overall] = []
    singles: defaultdict[str, list[Single]] = defaultdict(list)
    for figure in compared:
        pairs = {name: (a[name].get(figure.name), b[name].get(figure.name)) for name in names}
        logs = _logs(figure, pairs)
        overall.append(_overall(figure, pairs, logs, runs, len(compared)))
        for name, (before, after) in pairs.items():
            questions = len(compared) * max(1, len(logs))
            singles[name].append(_single(figure, before, after, name, logs, runs, questions))
    return Times(overall=tuple(overall), singles={name: tuple(found) for name, found in singles.items()})


def _logs(figure: Figure, pairs: Mapping[str, tuple[float | None, float | None]]) -> dict[str, float]:
    """The log ratio of each scenario that has one."""
    logs: dict[str, float] = {}
    for name, (before, after) in pairs.items():
        if before is not None and after is not None:
            ratio = log_ratio(before, after, figure.resolution)
            if ratio is not None:
                logs[name] = ratio
    return logs


def _overall(
    figure: Figure,
    pairs: Mapping[str, tuple[float | None, float | None]],
    logs: Mapping[str, float],
    runs: Sequence[PastRun],
    questions: int,
) -> Overall:
    both = [(before, after) for before, after in pairs.values() if before is not None and after is not None]
    interval, basis = None, Basis.NONE
    if len(logs) >= SCENARIOS_LEAST:
        interval, basis = interval_of([*logs.values()], questions), Basis.SCENARIOS
        gates = _of_gates(figure, runs)
        if gates is not None:
            chance = largest_by_chance(*gates, questions)
            wider = Interval(
                ratio=interval.ratio,
                low=min(interval.low, interval.ratio * math.exp(-chance)),
                high=max(interval.high, interval.ratio * math.exp(chance)),
                pairs=interval.pairs,
            )
            interval, basis = wider, Basis.GATES
    return Overall(
        figure=figure,
        before=median(before for before, _ in both) if both else None,
        after=median(after for _, after in both) if both else None,
        interval=interval,
        reading=_read_overall(figure, interval, basis),
        basis=basis,
    )


def _read_overall(figure: Figure, interval: Interval | None, basis: Basis) -> Reading:
    if interval is None:
        return Reading.UNKNOWN
    beyond = basis is Basis.GATES or max(interval.ratio, 1 / interval.ratio) >= figure.noise
    if not interval.excludes_one or not beyond:
        return Reading.NOISE
    return Reading.HIGHER if interval.ratio > 1 else Reading.LOWER


def _of_gates(figure: Figure, runs: Sequence[PastRun]) -> tuple[float, int] | None:
    """The deviation of whole gates on one release, as log ratio, and its degrees of freedom; None if too few ran.

    The value of a gate is the mean over scenarios of how far each is from its mean on that release.
    """
    groups: defaultdict[object, defaultdict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        value = run.figures.get(figure.name)
        if value is not None:
            groups[run.build, run.backend][run.scenario][run.gate] = math.log(max(value, figure.resolution))
    shifts: list[list[float]] = []
    for by_scenario in groups.values():
        by_gate: defaultdict[int, list[float]] = defaultdict(list)
        for values in by_scenario.values():
            centre = fmean(values.values())
            for gate, value in values.items():
                by_gate[gate].append(value - centre)
        shifts.append([fmean(found) for found in by_gate.values() if len(found) >= SCENARIOS_LEAST])
    estimate = pooled(shifts)
    return estimate if estimate is not None and estimate[1] >= FREEDOM_LEAST else None


def _single(
    figure: Figure,
    before: float | None,
    after: float | None,
    name: str,
    logs: Mapping[str, float],
    runs: Sequence[PastRun],
    questions: int,
) -> Single:
    limits, basis = _limits(figure, name, logs, runs, questions)
    reading = Reading.UNKNOWN
    if limits is not None and before is not None and after is not None:
        low, high = limits
        log = logs.get(name, 0.0)
        reading = Reading.HIGHER if log > high else Reading.LOWER if log < low else Reading.NOISE
    return Single(
        figure=figure,
        before=before,
        after=after,
        limits=None if limits is None else (math.exp(limits[0]), math.exp(limits[1])),
        reading=reading,
        basis=basis,
    )


def _limits(
    figure: Figure, name: str, logs: Mapping[str, float], runs: Sequence[PastRun], questions: int
) -> tuple[tuple[float, float] | None, Basis]:
    """The log ratios between which a difference of this scenario is within noise; None = nothing is known of that."""
    groups: defaultdict[object, list[float]] = defaultdict(list)
    for run in runs:
        value = run.figures.get(figure.name)
        if run.scenario == name and value is not None:
            groups[run.build, run.backend].append(math.log(max(value, figure.resolution)))
    estimate = pooled([*groups.values()])
    if estimate is not None and estimate[1] >= FREEDOM_LEAST:
        reach = max(largest_by_chance(*estimate, questions), math.log(KNOWN_RATIO_LEAST))
        return (-reach, reach), Basis.RUNS
    others = [log for other, log in logs.items() if other != name]
    if len(others) < SCENARIOS_LEAST:
        return None, Basis.NONE
    # The chance of one more value that far from these, if all come from one distribution.
    reach = t_quantile(tail_of(questions), len(others) - 1) * stdev(others) * math.sqrt(1 + 1 / len(others))
    reach, centre = max(reach, math.log(SINGLE_RATIO_LEAST)), fmean(others)
    # A shift of all scenarios is no difference of this one, nor is the return to the former value.
    return (min(centre, 0.0) - reach, max(centre, 0.0) + reach), Basis.SCENARIOS
