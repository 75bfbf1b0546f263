"""Offsets that no reader can get any more, and holes that reads met in the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.model.doubt_names import DoubtName
from harness.model.excuse import Evidence
from harness.model.verdict import Doubt
from harness.verify.engine.case import Case, Place
from harness.verify.engine.known import Known
from harness.verify.promise import excuses


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Offsets [low, high) of records that were acknowledged by `until_ns`, and why no reader can get them."""

    place: Place
    low: int
    high: int
    until_ns: int
    why: str
    evidence: Evidence


def unreadable(known: Known) -> list[Unreadable]:
    """Offsets that no reader can get, because of permitted events."""
    return [span for _, excuse in excuses() for span in excuse.unreadable(known)]


def holes(case: Case, spans: Sequence[Unreadable]) -> Iterator[Doubt]:
    """Doubts about holes in a drain that are not excused completely: no reader returned these offsets."""
    for read in case.reads:
        for hole in read.holes or ():
            low, high = hole.from_offset, hole.to_offset
            if not covering([span for span in spans if span.place == read.place], low, high):
                where = f"offsets {low} to {high - 1} of {read.topic}/{read.partition}"
                yield Doubt(DoubtName.HOLE, f"{where} could not be read as {read.isolation}, and no excuse covers them")


def covering(spans: Sequence[Unreadable], low: int, high: int) -> list[Unreadable]:
    """The spans of one partition that together cover [low, high); empty if they do not."""
    used = []
    for span in sorted(spans, key=lambda span: span.low):
        if span.low <= low < span.high and low < high:
            low = span.high
            used.append(span)
    return used if low >= high else []
