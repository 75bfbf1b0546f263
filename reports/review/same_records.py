"""Incidents about the same records: one broken transaction may be a loss and a torn transaction, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from reports.review.content import Incident

_Lane: TypeAlias = tuple[object, ...]  # a partition with offsets, or a stream with sequence numbers
_Ranges: TypeAlias = dict[_Lane, list[tuple[int, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Same:
    """Another incident about the same records. whole: about all of them, and no others. text: a sentence of the
    incident that has it, and `short` a part of one."""

    other: Incident
    whole: bool
    text: str

    @property
    def short(self) -> str:
        """Such as "the same records as lost"."""
        return f"{'the same records as' if self.whole else 'some of the records of'} {self.other.kind}"


def same_records(found: Sequence[Incident]) -> Mapping[str, tuple[Same, ...]]:
    """For each incident, by its stem, the others of its scenario about the same records; only those that have some.

    Ranges of verdict.json are compared. Where a verdict does not list every range, only the listed ones are known.
    """
    by_scenario: defaultdict[str, list[tuple[Incident, _Ranges]]] = defaultdict(list)
    for one in found:
        if ranges := _ranges(one):
            by_scenario[one.scenario].append((one, ranges))
    return {
        one.stem: same
        for of_scenario in by_scenario.values()
        for one, ranges in of_scenario
        if (same := tuple(_of_others(one, ranges, of_scenario)))
    }


def _of_others(one: Incident, ranges: _Ranges, others: Sequence[tuple[Incident, _Ranges]]) -> Iterator[Same]:
    for other, theirs in others:
        if other is not one and _overlap(ranges, theirs):
            whole = ranges == theirs
            what = (
                f"The same {one.amount} {'is' if one.count == 1 else 'are'}" if whole else "Some of these records are"
            )
            yield Same(other=other, whole=whole, text=f"{what} also reported as {other.kind}")


def _ranges(incident: Incident) -> _Ranges:
    """The records of an incident as ranges that do not touch, by partition or stream."""
    found: defaultdict[_Lane, list[tuple[int, int]]] = defaultdict(list)
    for one in incident.members:
        if one.topic is None or one.partition is None:
            continue
        place = one.topic, one.topic_id, one.partition
        if one.offset_first is not None:
            found[place].append((one.offset_first, one.offset_first if one.offset_last is None else one.offset_last))
        elif one.stream is not None and one.seq_first is not None:
            found[(*place, one.stream)].append((one.seq_first, one.seq_first if one.seq_last is None else one.seq_last))
    return {lane: _merged(ranges) for lane, ranges in found.items()}


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged


def _overlap(ours: _Ranges, theirs: _Ranges) -> bool:
    return any(_meet(ours[lane], theirs[lane]) for lane in ours.keys() & theirs.keys())


def _meet(ours: Sequence[tuple[int, int]], theirs: Sequence[tuple[int, int]]) -> bool:
    """Whether two sorted lists of ranges have a number in common."""
    left = right = 0
    while left < len(ours) and right < len(theirs):
        if max(ours[left][0], theirs[right][0]) <= min(ours[left][1], theirs[right][1]):
            return True
        if ours[left][1] < theirs[right][1]:
            left += 1
        else:
            right += 1
    return False
