"""Leaders whose high watermark stands still, or rises with too few replicas in sync; each with near misses."""

from __future__ import annotations

import pytest

from harness.model.contract.contract import MIN_INSYNC
from harness.model.finding import Kind
from harness.verify.checks.acked_below_min_isr import raised_marks
from harness.verify.checks.still_high_watermark import still_leaders
from suites.verify.history import BROKERS, START_NS, Built, Row
from suites.verify.judging import case_of_history
from suites.verify.metadata import Metadata
from suites.verify.samples import S, sample, sampled, with_fact


def at(second: float) -> int:
    return START_NS + int(second * S)


def least(built: Built, number: str | None = "2") -> Built:
    """min.insync.replicas of the topic, and a release that refuses what is below it."""
    built.cluster["snapshots"][0]["topic_configs"]["t"] = {MIN_INSYNC: number} if number else {}
    built.manifest["release"] = {"version": "4.4.0"}
    return built


def alone(since_s: float = 40, until_s: float = 150) -> Metadata:
    return Metadata().in_sync(at(since_s), 1).in_sync(at(until_s), *BROKERS)


def waiting(*more: Row, metadata: Metadata | None = None, seconds: float = 30, ends: tuple[int, int] = (9, 9)) -> Built:
    """All replicas have 9 records since 50 s, and for so long the leader, broker 1, reports the high watermark 7."""
    first = [sample(1, 50, 9, mark=7), *(sample(b, 50, end, mark=7) for b, end in zip((2, 3), ends, strict=True))]
    last = [sample(1, 50 + seconds, 9, mark=7), *(sample(b, 50 + seconds, 9, mark=7) for b in (2, 3))]
    return least(sampled(*first, *last, *more, metadata=metadata))


def frozen(built: Built, *nodes: int, kind: str = "frozen") -> Built:
    for node in nodes:
        with_fact(built, kind, node, 30, 140)
    return built


STILL: dict[str, Built] = {
    "all are in sync": waiting(),
    "it is alone in the ISR, and may be": frozen(least(waiting(metadata=alone(), ends=(7, 7)), "1"), 2, 3),
    "two of three are in sync": frozen(waiting(metadata=Metadata().in_sync(at(40), 1, 2), ends=(9, 7)), 3),
}
MOVING: dict[str, Built] = {
    "for a moment": waiting(seconds=9),
    "a follower lacks it": waiting(ends=(9, 7)),
    "it is alone in the ISR, and may not be": frozen(waiting(metadata=alone(), ends=(7, 7)), 2, 3),
    "how many must be in sync is not known": least(waiting(), None),
    "the ISR shrank just before": frozen(least(waiting(metadata=alone(since_s=72), ends=(7, 7)), "1"), 2, 3),
    "the leader was elected just before": waiting(metadata=Metadata().led(1, at(72))),
    "it led in an earlier epoch": waiting(metadata=Metadata().led(2, at(20))),
    "a member of the ISR is frozen": frozen(waiting(), 2),
    "links are cut": frozen(waiting(metadata=Metadata().in_sync(at(40), 1, 2), ends=(9, 7)), 3, kind="links_cut"),
    "a follower says nothing": least(sampled(sample(1, 50, 9, mark=7), sample(1, 80, 9, mark=7))),
    "it has risen": waiting(sample(1, 61, 9), seconds=9),
}


@pytest.mark.parametrize("name", STILL)
def test_a_mark_that_stands_still_below_what_all_in_sync_have_is_a_finding(name: str) -> None:
    (found,) = still_leaders(case_of_history(STILL[name]))
    assert (found.kind, found.offset_first, found.offset_last, found.reader) == (Kind.UNSERVED, 7, 8, "broker 1")


@pytest.mark.parametrize("name", MOVING)
def test_a_mark_that_moves_or_has_to_wait_is_none(name: str) -> None:
    assert list(still_leaders(case_of_history(MOVING[name]))) == []


def rising(first_s: float = 60, last_s: float = 70, *, number: str = "2", metadata: Metadata | None = None) -> Built:
    """The leader reports the high watermark 7 and later 9; it is alone in the ISR from 40 s to 150 s."""
    rows = sample(1, first_s, 7), sample(1, last_s, 9)
    return least(sampled(*rows, metadata=metadata or alone()), number)


RAISED: dict[str, Built] = {"too few in sync": rising(), "followers are frozen": frozen(rising(), 2, 3)}
RIGHT: dict[str, Built] = {
    "one has to be in sync": rising(number="1"),
    "enough in sync": rising(metadata=Metadata().in_sync(at(40), 1, 2)),
    "the first report is from before": rising(first_s=41),
    "the last report is from afterwards": rising(last_s=160),
    "it is the same": least(sampled(sample(1, 60, 9), sample(1, 70, 9), metadata=alone())),
    "the mark of a follower": least(sampled(sample(2, 60, 7), sample(2, 70, 9), metadata=alone())),
    "the leader is frozen": frozen(rising(), 1),
}


@pytest.mark.parametrize("name", RAISED)
def test_a_mark_that_rises_with_too_few_in_sync_is_a_finding(name: str) -> None:
    (found,) = raised_marks(case_of_history(RAISED[name]))
    assert (found.kind, found.reader) == (Kind.ACKED_BELOW_MIN_ISR, "broker 1")


@pytest.mark.parametrize("name", RIGHT)
def test_a_mark_that_may_rise_is_none(name: str) -> None:
    assert list(raised_marks(case_of_history(RIGHT[name]))) == []
