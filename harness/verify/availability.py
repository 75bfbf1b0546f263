"""Availability figures: latencies of acknowledgements and reads, and how long partitions acknowledged nothing.

Kafka promises no times, so nothing here decides a verdict. Times are the client's, from the call to the report, and
include the time in its own queue. The latency of a read is the time from the send to when a live reader received the
record; a live reader polls a few times a second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from harness.model.documents.steps import Step
from harness.model.documents.verdict_facts import AckTimes, Availability, LongestStall, ReadTimes
from harness.model.facts import FactKind
from harness.model.outcome import Outcome
from harness.verify.engine.case import Case, Place
from harness.verify.engine.kept import kept
from harness.verify.engine.numbered import LANE, named
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import union
from harness.verify.engine.steps import facts_in
from harness.verify.engine.tables import BUNDLE, PLACE, frame
from harness.verify.engine.windows import WINDOWS, within

STALL_S: Final = 0.5  # shorter gaps are a client's batches
_NS: Final = 10**9
BETWEEN: Final = "between faults"
_CLASS: Final = 0.005  # width of a class of latencies, as a share
_OF_TIER: Final = (FactKind.TIER_UNAVAILABLE, FactKind.TIER_SLOW, FactKind.TIER_LEFT)


Latencies = dict[str, tuple[int, int, int]]  # by window: the count, and the 50th and 99th percentile in ns


@dataclass(frozen=True, slots=True)
class Stall:
    """A partition that had unanswered records and acknowledged none between two times."""

    place: Place
    from_ns: int
    to_ns: int

    @property
    def seconds(self) -> float:
        return (self.to_ns - self.from_ns) / _NS


@dataclass(slots=True)
class Waits:
    """Waiting times of one bundle. stalls: those of STALL_S or longer. commits: the same between two acknowledged
    commits of a group."""

    acks: Latencies = field(default_factory=dict)
    reads: Latencies = field(default_factory=dict)
    stalls: list[Stall] = field(default_factory=list)
    commits: list[Stall] = field(default_factory=list)


def waits(given: Prepared, ack_times: DataFrame) -> list[Waits]:
    """The waiting times of each bundle. ack_times: of the ledger."""
    found = [Waits() for _ in given.cases]
    latencies = _latencies(given)
    for number, waited in enumerate(found):
        waited.acks, waited.reads = latencies.get((number, "acks"), {}), latencies.get((number, "reads"), {})
    for row in _stalls(given, ack_times).collect():
        found[row[BUNDLE]].stalls.append(_stall(row))
    for row in _commits(given).collect() if any(case.contract.readers for case in given.cases) else ():
        found[row[BUNDLE]].commits.append(_stall(row))
    return found


def _stall(row: Row) -> Stall:
    return Stall((row["topic"], row["topic_id"], row["partition"]), row["from_ns"], row["to_ns"])


def figures(case: Case, known: Waits, places: Iterable[Place]) -> Availability:
    """The figures of a verdict, in ms and s, with the fault of each stall. places: where records were sent to; a
    place without a stall during a fault has 0."""
    none = dict.fromkeys(sorted({_named(place) for place in places}), 0.0)
    faults = {step.name: none for step in case.steps if step.is_fault and step.started_ns is not None}
    without_acks = faults | _by_fault(known.stalls, case.steps)
    longest = max(known.stalls, key=lambda stall: stall.seconds, default=None)
    acks = {window: AckTimes(acks=n, p50=_ms(p50), p99=_ms(p99)) for window, (n, p50, p99) in known.acks.items()}
    reads = {window: ReadTimes(records=n, p50=_ms(p50), p99=_ms(p99)) for window, (n, p50, p99) in known.reads.items()}
    return Availability(
        ack_ms=acks,
        read_ms=reads,
        longest_stall=None if longest is None else _longest(longest, case.steps),
        without_acks_s={fault: dict(sorted((none | by).items())) for fault, by in without_acks.items()},
        also_open=_shared(known.stalls, case.steps),
        without_commits_s=_by_fault(known.commits, case.steps),
        tier_caught_up_s=dict(_caught_up(case.steps)),
    )


def _longest(stall: Stall, steps: Sequence[Step]) -> LongestStall:
    return LongestStall(
        place=_named(stall.place),
        s=round(stall.seconds, 3),
        fault=_fault_of(stall, steps),
        also_open=_also_open([stall], steps),
    )


def _by_fault(stalls: Sequence[Stall], steps: Sequence[Step]) -> dict[str, dict[str, float]]:
    """Seconds of stalls, by fault and "topic/partition"."""
    by_fault: dict[str, dict[str, float]] = defaultdict(dict)
    for stall in stalls:
        silent = by_fault[_fault_of(stall, steps) or BETWEEN]
        silent[_named(stall.place)] = round(silent.get(_named(stall.place), 0.0) + stall.seconds, 3)
    return {fault: dict(sorted(by.items())) for fault, by in by_fault.items()}


def _caught_up(steps: Sequence[Step]) -> Iterator[tuple[str, float]]:
    """By fault of the remote tier: the time from its healing until the next step that waits for it saw everything
    copied. Faults without such a wait are left out."""
    waited = [(fact.from_ns, fact.to_ns) for fact in facts_in(steps, FactKind.TIER_CAUGHT_UP)]
    for step in steps:
        if step.is_fault and any(facts_in([step], *_OF_TIER)) and step.healed_ns is not None:
            ended = [end for begin, end in waited if end is not None and begin >= step.healed_ns]
            if ended:
                yield step.name, round((min(ended) - step.healed_ns) / _NS, 3)


def _ms(ns: int) -> float:
    return round(ns / 1e6, 3)


def _named(place: Place) -> str:
    return f"{place[0]}/{place[2]}"


def _fault_of(stall: Stall, steps: Sequence[Step]) -> str | None:
    """The most recent fault that was active for most of the stall."""
    shared = _open_during(stall, steps)
    most = max(shared.values(), default=0)
    return max((of for of, ns in shared.items() if 2 * ns >= most), default=(0, None))[1]


def _open_during(stall: Stall, steps: Sequence[Step]) -> dict[tuple[int, str], int]:
    """For each fault (start, name) that was active during a stall: for how long, in ns."""
    shared = {
        (step.started_ns, step.name): min(stall.to_ns, step.healed_ns or step.ended_ns or stall.to_ns)
        - max(stall.from_ns, step.started_ns)
        for step in steps
        if step.is_fault and step.started_ns is not None
    }
    return {of: ns for of, ns in shared.items() if ns > 0}


def _also_open(stalls: Iterable[Stall], steps: Sequence[Step]) -> tuple[str, ...]:
    """Other faults that were active during any of these stalls, in order."""
    others = {of: None for stall in stalls for of in _open_during(stall, steps) if of[1] != _fault_of(stall, steps)}
    return tuple(dict.fromkeys(name for _, name in sorted(others)))


def _shared(stalls: Sequence[Stall], steps: Sequence[Step]) -> dict[str, tuple[str, ...]]:
    """For each fault that stalls are attributed to: other faults that were active during them."""
    by_fault: dict[str, list[Stall]] = defaultdict(list)
    for stall in stalls:
        if fault := _fault_of(stall, steps):
            by_fault[fault].append(stall)
    reported = {fault: _also_open(its, steps) for fault, its in by_fault.items()}
    return {fault: others for fault, others in reported.items() if others}


def _reads(given: Prepared) -> DataFrame:
    """Records that live readers received, with their send time, which is their timestamp where clients set it."""
    sent = [
        (n, name)
        for n, case in enumerate(given.cases)
        for name, topic in case.contract.topics.items()
        if topic.timestamp_type == "create" and case.run.timestamps == "send"
        if not any(producer.backdated_ms for producer in case.contract.producers.values())
    ]
    rows = given.observations.where("given_ns IS NOT NULL AND intact")
    rows = rows.join(F.broadcast(frame(given.spark, {"topic": "string"}, sent)), [BUNDLE, "topic"], "left_semi")
    called_ns = F.col("timestamp_ms") * 10**6
    return rows.select(BUNDLE, called_ns.alias("called_ns"), F.col("given_ns").alias("returned_ns"))


def _latencies(given: Prepared) -> dict[tuple[int, str], Latencies]:
    """Latencies by bundle and by what was waited for (`acks`, `reads`). A request that was open during any fault counts
    as `during`.

    The times are counted in classes that are 0.5 % wide. The exact percentiles of millions of records cost more than
    all comparisons of the records.
    """
    acked = given.ledger.where(F.col("outcome") == Outcome.ACKED.value)
    waited_for = {"acks": acked, "reads": _reads(given)}
    spans = [
        rows.select(BUNDLE, F.lit(number).alias("what"), "called_ns", "returned_ns")
        for number, rows in enumerate(waited_for.values())
    ]
    took = F.greatest(F.col("returned_ns") - F.col("called_ns"), F.lit(1))
    timed = union(spans).where("called_ns IS NOT NULL AND returned_ns IS NOT NULL").join(given.windows, BUNDLE)
    classes = timed.groupBy(BUNDLE, "what", _window().alias("window"), F.floor(F.log(took) / _CLASS).alias("class"))
    found: dict[tuple[int, str], dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for row in classes.agg(F.max(took).alias("ns"), F.count("*").alias("n")).where("window IS NOT NULL").collect():
        found[row[BUNDLE], list(waited_for)[row["what"]]][WINDOWS[row["window"]]].append((row["ns"], row["n"]))
    return {
        of: {window: _percentiles(sorted(by_window[window])) for window in WINDOWS if window in by_window}
        for of, by_window in found.items()
    }


def _window() -> Column:
    """The window of a request, as its place in WINDOWS; null in none of them."""
    during = F.exists("during", lambda w: (F.col("called_ns") <= w["to_ns"]) & (F.col("returned_ns") >= w["from_ns"]))
    window = F.when(F.coalesce(during, F.lit(False)), WINDOWS.index("during"))
    for name in ("before", "after"):
        window = window.when(within(name, "called_ns", "returned_ns"), WINDOWS.index(name))
    return window


def _percentiles(classes: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
    """How many latencies there are, and their 50th and 99th percentile, from classes (longest latency, count)."""
    upto = list(accumulate(n for _, n in classes))
    p50, p99 = (classes[bisect_left(upto, share * upto[-1])][0] for share in (0.5, 0.99))
    return upto[-1], p50, p99


def _stalls(given: Prepared, ack_times: DataFrame) -> DataFrame:
    """Gaps between acknowledgements, counted from when a client began to wait: with the record that ended the gap
    with its acknowledgement, or with one that the client gave up on before. Also the time after the last
    acknowledgement, if a record waited then.

    Records are grouped by tenths of a second, so that few rows have to be sorted; gaps within a tenth do not count.
    """
    tenths = ack_times.groupBy(BUNDLE, LANE, F.col("tenth").alias("bucket")).agg(
        F.min("first_ns").alias("to_ns"),
        F.max("last_ns").alias("last"),
        F.min("called_ns").alias("called"),
        F.max("gave_up_ns").alias("gave_up"),
    )
    every = named(kept(tenths), LANE, PLACE[1:], given.numbered_places, given.ledger)
    buckets = every.where("bucket IS NOT NULL")
    in_order = Window.partitionBy(*PLACE).orderBy("bucket")
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    buckets = buckets.withColumn("gap", F.coalesce(F.count("last").over(earlier), F.lit(0)))
    waited = F.min("called").over(Window.partitionBy(*PLACE, "gap"))
    before = F.last("last", ignorenulls=True).over(earlier)
    between = buckets.select(*PLACE, F.greatest(before, waited).alias("from_ns"), "to_ns").where("to_ns IS NOT NULL")
    ends = every.groupBy(*PLACE).agg(
        F.coalesce(F.max("last"), F.min("called")).alias("from_ns"), F.max("gave_up").alias("to_ns")
    )
    columns = [*PLACE, "from_ns", "to_ns"]
    gaps = between.select(*columns).unionByName(ends.select(*columns))
    return gaps.where(F.col("to_ns") - F.col("from_ns") >= int(STALL_S * _NS))


def _commits(given: Prepared) -> DataFrame:
    """Gaps between two acknowledged commits of a group, from when there was something to commit: a record had been
    acknowledged at the offset of the first commit."""
    acked = given.offset_commits.where((F.col("outcome") == Outcome.ACKED.value) & F.col("txn_id").isNull())
    in_order = Window.partitionBy(*PLACE, "group").orderBy("returned_ns")
    gaps = acked.select(
        *PLACE,
        F.lag("offset").over(in_order).alias("offset"),
        F.lag("returned_ns").over(in_order).alias("committed_ns"),
        F.col("returned_ns").alias("to_ns"),
    ).where(F.col("to_ns") - F.col("committed_ns") >= int(STALL_S * _NS))
    records = given.ledger.where(F.col("outcome") == Outcome.ACKED.value)
    first = records.select(*PLACE, "offset", F.col("returned_ns").alias("acked_ns"))
    since = gaps.join(first, [*PLACE, "offset"]).withColumn("from_ns", F.greatest("committed_ns", "acked_ns"))
    return since.select(*PLACE, "from_ns", "to_ns").where(F.col("to_ns") - F.col("from_ns") >= int(STALL_S * _NS))
