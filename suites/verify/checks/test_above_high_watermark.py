"""Records that a reader received and that were not below the high watermark; each with near misses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.model.finding import Kind
from harness.verify.checks.above_high_watermark import Received, read_above
from suites.verify.history import BROKERS, START_NS, Built
from suites.verify.judging import case_of_history
from suites.verify.metadata import Metadata
from suites.verify.samples import S, sample, sampled, with_fact

PLACE = ("t", "T", 0)


def at(second: float) -> int:
    return START_NS + int(second * S)


def stuck(*, mark: int = 7, metadata: Metadata | None = None, second: float = 57) -> Built:
    """Broker 1 leads, and reports a high watermark below the end of its log."""
    return sampled(sample(1, 54, 5), sample(1, second, 12, mark=mark), metadata=metadata)


def got(offset: int = 9, second: float = 55) -> list[Received]:
    """A reader received offset 3 long before, and this one now."""
    return [Received(at(45), 3, "committed"), Received(at(second), offset, "committed")]


def elected(leader: int, second: float, *isr: int, unclean: bool = False) -> Metadata:
    """Another leader, after these were in sync."""
    metadata = Metadata().in_sync(at(20), *(isr or BROKERS))
    return metadata.led(leader, at(second), isr=(leader,)) if unclean else metadata.led(leader, at(second))


DEFECTS: dict[str, tuple[Built, list[Received]]] = {
    "the mark is lower later": (stuck(), got()),
    "the mark is that offset": (stuck(mark=9), got()),
    "received just before the report": (stuck(), got(second=56.9)),
    "the mark has not changed for long": (
        sampled(sample(1, 40, 5), sample(1, 50, 12, mark=7), sample(1, 61, 13, mark=13)),
        got(),
    ),
    "in the epoch of the next leader": (
        sampled(sample(3, 54, 5, epoch=1), sample(3, 57, 12, mark=7, epoch=1), metadata=elected(3, 46)),
        got(),
    ),
    "a follower restarts": (with_fact(stuck(), "stopped", 2, 52, 55, how="killed"), got()),
}
LEGAL: dict[str, tuple[Built, list[Received]]] = {
    "just below the mark": (stuck(mark=10), got()),
    "the report came before": (stuck(second=54.9), got()),
    "the mark of a follower": (sampled(sample(1, 54, 5), sample(2, 57, 12, mark=7)), got()),
    "written before the first sample of the epoch": (
        sampled(sample(3, 56, 10, epoch=1), sample(3, 57, 12, mark=7, epoch=1), metadata=elected(3, 46)),
        got(),
    ),
    "of the leader before": (stuck(metadata=elected(3, 55.5)), got()),
    "the leader has not led for long": (stuck(metadata=elected(1, 56.8)), got()),
    "a leader that does not know its successor": (stuck(metadata=elected(3, 50)), got()),
    "an unclean election": (
        sampled(
            sample(2, 54, 5, epoch=1),
            sample(2, 57, 12, mark=7, epoch=1),
            metadata=elected(2, 30, 1, 3, unclean=True),
        ),
        got(),
    ),
    "the leader restarts in its epoch": (with_fact(stuck(), "stopped", 1, 52, 54, how="killed"), got()),
    "nothing was received": (stuck(), []),
    "several clocks": (sampled(sample(1, 54, 5), sample(1, 57, 12, mark=7), timestamps=None), got()),
    "a record of an unknown type": (stuck(metadata=Metadata().unknown()), got()),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_record_above_the_high_watermark_is_a_finding(name: str) -> None:
    built, polls = DEFECTS[name]
    (found,) = read_above(case_of_history(built), {PLACE: polls})
    assert (found.kind, found.topic, found.topic_id, found.partition) == (Kind.ABOVE_HIGH_WATERMARK, "t", "T", 0)
    assert (found.offset_last, found.reader) == (9, "committed")
    assert found.count == 10 - (found.offset_first or 0)


@pytest.mark.parametrize("name", LEGAL)
def test_what_a_correct_broker_may_give_is_none(name: str) -> None:
    built, polls = LEGAL[name]
    assert list(read_above(case_of_history(built), {PLACE: polls} if polls else {})) == []


def test_without_a_history_nothing_is_judged() -> None:
    assert list(read_above(replace(case_of_history(stuck()), history=None), {PLACE: got()})) == []
