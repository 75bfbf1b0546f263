"""The parts that a check adds to a verdict besides the findings of its queries, and their place in the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from harness.model.documents.verdict_facts import VerdictFacts
from harness.model.finding import Finding
from harness.model.verdict import Doubt, Score
from harness.verify.engine.runs import RecordRange

_LAST: Final = 1000
_One = TypeVar("_One")


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """The parts that one check adds to the verdict on one case.

    findings: those without records. doubts: why the evidence proves too little; those about a run that did not finish
    are left out, because that is a doubt itself. notes: observations that never make a verdict FAIL. not_covered: what
    the run did not test. details: further observations about ranges of `known.reported`. counts: figures by what they
    count, for people. facts: figures with a field of their own; all other fields are left out. score: figures of
    the score, by the names of their fields.
    """

    findings: Sequence[Finding] = ()
    doubts: Sequence[Doubt] = ()
    notes: Sequence[str] = ()
    not_covered: Sequence[str] = ()
    details: Mapping[RecordRange, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    facts: VerdictFacts = field(default_factory=VerdictFacts)
    score: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """TypeError or ValueError for parts of another form, which a check without a type checker may add: then that
        check fails, and not the verdict."""
        for name, kind in (("findings", Finding), ("doubts", Doubt), ("notes", str), ("not_covered", str)):
            part = tuple(getattr(self, name))
            object.__setattr__(self, name, part)  # it may have been a generator, which can be read once only
            if strange := [one for one in part if not isinstance(one, kind)]:
                raise TypeError(f"it adds {strange[0]!r} to the {name} of a verdict, which is no {kind.__name__}")
        for name, figures in (("counts", self.counts), ("score", self.score)):
            if strange := [word for word, figure in figures.items() if not isinstance(figure, int)]:
                raise TypeError(f"it adds {figures[strange[0]]!r} to the {name} of a verdict, which is no int")
        if unknown := sorted(self.score.keys() - {*Score.__struct_fields__}):
            raise ValueError(f"it adds {unknown[0]!r} to the score of a verdict, which has no such figure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Where the parts of an addition stand among the same parts of others, and among those of conclude.py and
    doubts.py, which have multiples of 10: low numbers first, and for one number in the order of the checks."""

    findings: int = _LAST
    doubts: int = _LAST
    notes: int = _LAST
    not_covered: int = _LAST


class Added(NamedTuple):
    """The addition of one check."""

    check: str
    order: Order
    what: Addition


def in_order(parts: Iterable[tuple[int, Iterable[_One]]]) -> list[_One]:
    """Everything in these parts, each with its number, in the order of the numbers."""
    return [one for _, some in sorted(parts, key=lambda part: part[0]) for one in some]
