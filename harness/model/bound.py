"""Exact binomial bounds on the chance of loss that remain after a run."""

from __future__ import annotations

from math import comb, exp, fsum, lgamma, log, log1p
from typing import Final

CONFIDENCE: Final = 0.95
_EXACT_MAX: Final = 1_000  # above it, the number of combinations may not fit into a float


def loss_bound(losses: int, episodes: int, confidence: float = CONFIDENCE) -> float:
    """Exact one-sided upper bound (Clopper and Pearson 1934) on the chance of loss in one fault episode.

    It is the chance at which `losses` or fewer of `episodes` would be seen with probability 1 - confidence. Without an
    episode it is 1.0.
    """
    if losses >= episodes:
        return 1.0
    low, high = losses / episodes, 1.0
    for _ in range(60):  # each halving gains a bit; a float has 53
        middle = (low + high) / 2
        if _at_most(losses, episodes, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(losses: int, episodes: int, chance: float) -> float:
    if episodes > _EXACT_MAX:
        return fsum(exp(_logarithm(k, episodes, chance)) for k in range(losses + 1))
    return sum(comb(episodes, k) * chance**k * (1 - chance) ** (episodes - k) for k in range(losses + 1))


def _logarithm(k: int, episodes: int, chance: float) -> float:
    """The logarithm of one term of the sum: the numbers of combinations are too large for a float."""
    combinations = lgamma(episodes + 1) - lgamma(k + 1) - lgamma(episodes - k + 1)
    return combinations + k * log(chance) + (episodes - k) * log1p(-chance)
