"""Decisions that are drawn from hashes of their names.

Decisions share no random stream: each has the same result on every machine and with every Python, and no decision
changes another. Among choices the one with the lowest hash wins, so that a new choice changes only those
decisions that it wins, and a removed one only those that it had won.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Draw:
    """A place for decisions, such as "7/episode 12/round 1". Their names are unique within it."""

    place: str

    def within(self, name: str) -> Draw:
        """The place for the decisions about one part of it."""
        return Draw(f"{self.place}/{name}")

    def number(self, name: str) -> int:
        """A number below 2**64."""
        return int.from_bytes(blake2b(f"{self.place}/{name}".encode(), digest_size=8).digest(), "big")

    def chance(self, name: str, percent: int) -> bool:
        """True in so many of 100 cases."""
        return self.number(name) % 100 < percent

    def order(
        self,
        name: str,
        choices: Iterable[_T],
        *,
        weight: Callable[[_T], int] | None = None,
        key: Callable[[_T], str] = repr,
    ) -> list[_T]:
        """The choices in the order in which they are tried. A weight is a number of lots; with 0 it is left out.

        A choice that is listed twice has two lots.
        """
        given: Counter[str] = Counter()  # lots, by the text of a choice
        drawn: list[tuple[int, str, _T]] = []
        for one in choices:
            text, lots = key(one), weight(one) if weight else 1
            if lots:
                numbers = (self.number(f"{name}={text}#{lot}") for lot in range(given[text], given[text] + lots))
                drawn.append((min(numbers), text, one))
            given[text] += lots
        return [one for _, _, one in sorted(drawn, key=lambda lot: (lot[0], lot[1]))]

    def one(
        self,
        name: str,
        choices: Sequence[_T],
        *,
        weight: Callable[[_T], int] | None = None,
        key: Callable[[_T], str] = repr,
    ) -> _T:
        """One of the choices; at least one has a weight above 0."""
        return self.order(name, choices, weight=weight, key=key)[0]
