"""Log starts in the samples: those that fall, and those that followers do not learn; each with near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.model.finding import Kind
from harness.model.history.changes import PartitionChange
from harness.verify.checks.log_start.sampled import sampled_log_starts
from suites.verify.history import BROKERS, START_NS, Built, Row
from suites.verify.judging import case_of_history
from suites.verify.metadata import Metadata
from suites.verify.samples import S, sample, sampled, with_fact


def at(second: float) -> int:
    return START_NS + int(second * S)


def fell(*more: Row, metadata: Metadata | None = None, known_s: float = 40, **topic: Any) -> Built:
    """The log of broker 2 starts at 5, and at 60 s at 0 again. The log of its leader starts at 5."""
    rows = [sample(2, known_s, 9, start=5), sample(2, 50, 9, start=5), sample(2, 60, 9, start=0), *more]
    built = sampled(*rows, metadata=metadata)
    built.run["contract"]["topics"]["t"] |= topic
    return built


def stopped(built: Built, from_s: float, to_s: float, how: str = "killed", node: int = 2) -> Built:
    return with_fact(built, "stopped", node, from_s, to_s, how=how)


def moved(*replicas: int) -> Metadata:
    """Broker 2 has no replica for a while."""
    of = Metadata()
    for second, now in ((52, replicas), (56, BROKERS)):
        last = of.in_sync(at(second), *now).rows.pop()
        assert isinstance(last, PartitionChange)
        of.rows.append(replace(last, replicas=now))
    return of


def followed(*marks: int, start: int = 5, settled_s: float = 43, epoch: int = 0, **last: Any) -> Built:
    """The leader reports the log start 5 with the high watermarks 10 and 11. Then broker 2 has these marks."""
    rows = [sample(1, 45, 10, start=5), sample(1, 46, 11, start=5), sample(2, 40, 9), sample(2, settled_s, 9, mark=8)]
    rows += [sample(2, 50 + nth, 20, mark=mark, start=start) for nth, mark in enumerate(marks)]
    rows[-1] |= last | {"leader_epoch": epoch}
    return sampled(*rows)


FALLEN: dict[str, Built] = {
    "without a restart": fell(),
    "after a controlled shutdown": stopped(fell(), 52, 54, "cleanly"),
    "killed when it had been written long before": stopped(fell(known_s=-80), 52, 54),
    "another broker was killed": stopped(fell(), 52, 54, node=3),
    "killed before it knew": stopped(fell(), 30, 39),
    "killed afterwards": stopped(fell(), 61, 62),
    "frozen": with_fact(fell(), "frozen", 2, 52, 58),
    "after a silence": stopped(fell(sample(2, 61, 9, start=0, after_silence=True)), 52, 54, "cleanly"),
}
KEPT: dict[str, Built] = {
    "it rises": sampled(sample(2, 40, 9, start=0), sample(2, 60, 9, start=5)),
    "killed within the interval of checkpoints": stopped(fell(), 52, 54),
    "killed within the interval, earlier": stopped(fell(known_s=10), 30, 31),
    "killed at some time until healing": stopped(fell(), 52, 52),
    "its machine lost its power": stopped(fell(known_s=-80), 52, 54, "power"),
    "the disk of its leader was damaged": with_fact(fell(), "disk_damaged", 1, 52, 54, what="all"),
    "the replica was moved away and back": fell(metadata=moved(1, 3)),
    "an unclean election": fell(metadata=Metadata().in_sync(at(45), 1, 2).led(3, at(52), isr=(3,))),
    "a topic of the remote tier": fell(tiered=True),
    "a topic without a contract": sampled(
        *(sample(2, second, 9, start=start) | {"topic": "u"} for second, start in ((40, 5), (60, 0)))
    ),
    "the topic was deleted": fell(metadata=Metadata().deleted(at(61))),
    "an unknown start": sampled(sample(2, 40, 9, start=5), sample(2, 60, 9, start=None)),
}
NOT_LEARNED: dict[str, Built] = {
    "a later high watermark without the log start": followed(12, 12, start=0),
    "a lower log start": followed(12, 13, start=3),
}
LEARNED: dict[str, Built] = {
    "the log start with the high watermark": followed(12, 12),
    "a higher log start": followed(12, 12, start=7),
    "the high watermark of that answer": followed(11, 11, start=0),
    "an earlier high watermark": followed(10, 10, start=0),
    "the log start came between the two values": followed(12, start=0),
    "a silence": followed(12, 12, start=0, after_silence=True),
    "the epoch ended": followed(12, 12, start=0, epoch=1),
    "it has just begun to follow": followed(12, 12, start=0, settled_s=41.9),
}


@pytest.mark.parametrize("name", FALLEN)
def test_a_log_start_that_falls_is_a_finding(name: str) -> None:
    (found,) = sampled_log_starts(case_of_history(FALLEN[name]))
    assert (found.kind, found.offset_first, found.offset_last, found.count) == (Kind.LOG_START, 0, 4, 5)
    assert (found.reader, found.topic, found.partition) == ("broker 2", "t", 0)
    assert found.detail.startswith("the log of broker 2 started at 5, and later at 0")


@pytest.mark.parametrize("name", NOT_LEARNED)
def test_a_log_start_that_a_follower_does_not_learn_is_a_finding(name: str) -> None:
    (found,) = sampled_log_starts(case_of_history(NOT_LEARNED[name]))
    assert (found.kind, found.offset_last, found.reader) == (Kind.LOG_START, 4, "broker 2")
    assert found.detail.endswith("that its leader, broker 1, reported after the log start 5")


@pytest.mark.parametrize("name", KEPT | LEARNED)
def test_no_correct_log_start_is_a_finding(name: str) -> None:
    assert list(sampled_log_starts(case_of_history((KEPT | LEARNED)[name]))) == []
