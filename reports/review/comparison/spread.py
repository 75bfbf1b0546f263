"""How far figures of runs vary by chance, and which differences are beyond that.

Times differ by ratios and not by seconds: a scenario with stalls of 8 s varies by more seconds than one with stalls of
0.5 s. So all of this works on logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev
from typing import Final

import numpy as np

CONFIDENCE: Final = 0.95
_POINTS: Final = 4001  # of the numeric integral; its error is below 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The geometric mean of ratios, and the interval that contains the true one with the demanded confidence.

    pairs: how many ratios there were.
    """

    ratio: float
    low: float
    high: float
    pairs: int

    @property
    def excludes_one(self) -> bool:
        """Whether chance alone does not explain the ratio."""
        return self.low > 1 or self.high < 1


def log_ratio(before: float, after: float, resolution: float) -> float | None:
    """The logarithm of after / before; a value below the resolution counts as the resolution. None if both are."""
    if before < resolution and after < resolution:
        return None
    return math.log(max(after, resolution) / max(before, resolution))


def interval_of(logs: Sequence[float], questions: int) -> Interval:
    """Student's t interval of the mean of log ratios, of which there are at least two.

    questions: how many intervals are asked for at once; all of them together have the confidence (Bonferroni).
    """
    mean = fmean(logs)
    error = stdev(logs) / math.sqrt(len(logs))
    reach = t_quantile(tail_of(questions), len(logs) - 1) * error
    return Interval(ratio=math.exp(mean), low=math.exp(mean - reach), high=math.exp(mean + reach), pairs=len(logs))


def largest_by_chance(deviation: float, freedom: int, questions: int) -> float:
    """The largest log ratio of two single runs that chance explains.

    deviation: the standard deviation of one log value, estimated with so many degrees of freedom. questions: how many
    ratios are looked at, of which with the confidence none is beyond the limit by chance.
    """
    return t_quantile(tail_of(questions), freedom) * math.sqrt(2) * deviation


def pooled(groups: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    """The standard deviation within groups and its degrees of freedom; None if no group has two values."""
    freedom = sum(len(group) - 1 for group in groups if group)
    if freedom < 1:
        return None
    squares = sum((value - fmean(group)) ** 2 for group in groups if group for value in group)
    return math.sqrt(squares / freedom), freedom


def tail_of(questions: int) -> float:
    """The chance above the upper end of each of so many two-sided intervals."""
    return (1 - CONFIDENCE) / (2 * max(1, questions))


@cache
def t_quantile(tail: float, freedom: int) -> float:
    """The value that Student's t with so many degrees of freedom exceeds with the chance `tail`, below one half."""
    low, high = 0.0, 1.0
    while _upper_tail(high, freedom) > tail:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        if _upper_tail(middle, freedom) > tail:
            low = middle
        else:
            high = middle
    return high


def _upper_tail(t: float, freedom: int) -> float:
    """The chance of more than `t`. With t = sqrt(freedom) * tan(angle), the density becomes a power of the cosine."""
    angles = np.linspace(math.atan(t / math.sqrt(freedom)), math.pi / 2, _POINTS)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    return float(scale * np.trapezoid(np.clip(np.cos(angles), 0, None) ** (freedom - 1), angles))
