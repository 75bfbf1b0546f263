"""above_high_watermark: a reader received a record that was not below the high watermark of its leader yet.

A broker gives consumers only what every member of the ISR has. The high watermark of a leader never falls within its
leader epoch. So a leader that reports it after a reader was given a record has had none that was higher before. That is
judged for records that were written in the epoch of the report: others may be from an earlier leader, which knew more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Finding, Kind
from harness.model.history.history import History
from harness.model.sample import Sample
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case, Place
from harness.verify.engine.known import Known
from harness.verify.engine.numbered import LANE, named
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.steps import step_at
from harness.verify.engine.tables import BUNDLE, PLACE
from harness.verify.engine.timelines import (
    CLEAN,
    LATE_NS,
    States,
    any_interrupted,
    held,
    timed_partitions,
    timelines,
)
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

# Polls are looked at together for half the time between two samples.
_TOGETHER_NS: Final = 250_000_000


class Received(NamedTuple):
    """The highest offset of some polls, its reader, and when the last of these polls was received."""

    given_ns: int
    offset: int
    reader: str


class _Early(NamedTuple):
    """The highest record that was received before a leader reported the high watermark of a sample."""

    received: Received
    sample: Sample
    high_watermark: int
    reported_ns: int

    @property
    def records(self) -> int:
        return self.received.offset - self.high_watermark + 1


ReceivedBy = dict[Place, list[Received]]


def received(given: Prepared, shown: DataFrame) -> list[ReceivedBy]:
    """The polls of live readers in each bundle with samples, in the order of time."""
    found: list[ReceivedBy] = [{} for _ in given.cases]
    sampled = [n for n, case in enumerate(given.cases) if case.history is not None and timelines(case)]
    if not sampled:
        return found
    polls = shown.where(F.col(BUNDLE).isin(sampled) & (F.col("kind") == "live") & F.col("given_ns").isNotNull())
    together = polls.groupBy(BUNDLE, LANE, F.expr(f"given_ns DIV {_TOGETHER_NS}").alias("together"))
    highest = together.agg(F.max("given_ns").alias("given_ns"), F.max(F.struct("at_max", "reader")).alias("highest"))
    for row in named(highest, LANE, PLACE[1:], given.numbered_places, given.observations).collect():
        place = row["topic"], row["topic_id"], row["partition"]
        found[row[BUNDLE]].setdefault(place, []).append(Received(row["given_ns"], *row["highest"]))
    for of_places in found:
        for each in of_places.values():
            each.sort()
    return found


def read_above(case: Case, of_readers: ReceivedBy) -> Iterator[Finding]:
    """One finding for each partition: the one with most records."""
    history = case.history
    if history is None:
        return
    for place, states, of_brokers in timed_partitions(case, history):
        clean = all(one.elected_from in CLEAN for one in history.elections(*place[1:]))
        if clean and place in of_readers:
            early = _early(case, history, states, of_brokers, of_readers[place])
            worst = max(early, key=lambda one: one.records, default=None)
            if worst is not None:
                yield _finding(case, worst)


def _early(
    case: Case, history: History, states: States, of_brokers: Mapping[int, Sequence[Sample]], given: Sequence[Received]
) -> Iterator[_Early]:
    highest = list(accumulate(given, _higher))
    for broker, samples in sorted(of_brokers.items()):
        first_of: dict[int, Sample] = {}  # by leader epoch
        for sample, from_ns, to_ns in held(samples, LATE_NS):
            led = states.mark_of_leader(sample)
            if led is None:
                continue
            epoch, mark = led
            first = first_of.setdefault(epoch, sample)
            before = bisect_right(given, from_ns, key=lambda polls: polls.given_ns)
            if not before or highest[before - 1].offset < max(mark, first.log_end):
                continue
            if _led_all_the_time(case, history, states, broker, epoch, first.asked_ns, to_ns):
                yield _Early(highest[before - 1], sample, mark, from_ns)


def _led_all_the_time(
    case: Case, history: History, states: States, broker: int, epoch: int, from_ns: int, to_ns: int
) -> bool:
    """Whether one process of the broker led the partition in this epoch, from one disk."""
    away = any_interrupted(case, history, (broker,), from_ns, to_ns)
    epochs = {states.rows[number].leader_epoch for number in states.during(from_ns, to_ns)}
    return not away and epochs == {epoch} and states.on_one_disk(broker, from_ns, to_ns)


def _higher(one: Received, other: Received) -> Received:
    return other if other.offset > one.offset else one


def _finding(case: Case, early: _Early) -> Finding:
    sample, got = early.sample, early.received
    after_s = (early.reported_ns - got.given_ns) / 10**9
    return Finding(
        kind=Kind.ABOVE_HIGH_WATERMARK,
        topic=sample.topic,
        topic_id=sample.topic_id,
        partition=sample.partition,
        offset_first=early.high_watermark,
        offset_last=got.offset,
        count=early.records,
        first_ns=got.given_ns,
        last_ns=got.given_ns,
        step=step_at(case.steps, got.given_ns),
        reader=got.reader,
        detail=(
            f"{got.reader} received offset {got.offset}; {after_s:.1f} s later broker {sample.broker}, the leader of "
            f"epoch {sample.leader_epoch}, reported the high watermark {early.high_watermark}"
        ),
        contract=promise(Kind.ABOVE_HIGH_WATERMARK, sample.topic, None, case.contract),
    )


def _read_above(known: Known) -> Addition:
    return Addition(findings=[*read_above(known.case, known.of(RECEIVED))])


RECEIVED: Final[OnDriver[ReceivedBy]] = OnDriver(name="received_polls", read=received, none=dict)
CHECK: Final = Check(
    promise="A reader receives only records below the high watermark.",
    kinds={
        Kind.ABOVE_HIGH_WATERMARK: Introduced(
            promise="a consumer receives only records below the high watermark, from leaders and followers (KIP-392)"
        )
    },
    on_driver=(RECEIVED,),
    adds=_read_above,
    order=Order(findings=20),
    planted=(
        "above_high_watermark",
        "near_above_high_watermark_received_just_below",
        "near_above_high_watermark_reported_before",
        "near_above_high_watermark_of_a_follower",
    ),
)
