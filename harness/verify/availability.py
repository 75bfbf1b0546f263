"""How available a release was: how long acknowledgements and reads took, and for how long partitions gave none.

Figures alone: no promise of Kafka's is a time, so nothing here decides a verdict. Times are the client's, from the call
to the report: what waited in its own queue is part of them. Of reads they are from the call to when a live reader was
given the record, which it asks for a few times a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.model.outcome import Outcome
from harness.verify.engine.case import Case, Place
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, frame

STALL_S: Final = 0.5  # without acks of a partition that somebody waits for: shorter ones are a client's batches
_BUCKET_NS: Final = 10**8
_NS: Final = 10**9
BETWEEN: Final = "between faults"
WINDOWS: Final = ("before", "during", "after")


@dataclass(frozen=True, slots=True)
class Stall:
    """A partition that had unanswered records, and acknowledged none between two moments."""

    place: Place
    from_ns: int
    to_ns: int

    @property
    def seconds(self) -> float:
        return (self.to_ns - self.from_ns) / _NS


@dataclass(slots=True)
class Waits:
    """Of one bundle. acks, reads: by window, how many and their 50th and 99th percentile in ns; stalls: of STALL_S or
    more; commits: the same of groups, between two commits that were acknowledged."""

    acks: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    reads: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    stalls: list[Stall] = field(default_factory=list)
    commits: list[Stall] = field(default_factory=list)


def waits(given: Prepared, windows: DataFrame) -> list[Waits]:
    """One for each bundle. `windows`: arrays of spans (from_ns, to_ns) by name, one row a bundle."""
    found = [Waits() for _ in given.cases]
    acked = given.ledger.where(F.col("outcome") == Outcome.ACKED.value)
    for number, latencies in _latencies(acked.join(windows, BUNDLE)):
        found[number].acks = latencies
    for number, latencies in _latencies(_reads(given).join(windows, BUNDLE)):
        found[number].reads = latencies
    for row in _stalls(given.ledger).collect():
        found[row[BUNDLE]].stalls.append(_stall(row))
    for row in _commits(given).collect() if any(case.contract.readers for case in given.cases) else ():
        found[row[BUNDLE]].commits.append(_stall(row))
    return found


def _stall(row: Any) -> Stall:
    return Stall((row["topic"], row["topic_id"], row["partition"]), row["from_ns"], row["to_ns"])


def figures(case: Case, known: Waits, places: Iterable[Place]) -> dict[str, Any]:
    """As they stand in a verdict: milliseconds, seconds, and each stall with its fault. places: that records were sent
    to; what had no stall during a fault stands there with 0."""
    none = dict.fromkeys(sorted({_named(place) for place in places}), 0.0)
    faults = {step["name"]: none for step in case.steps if step["is_fault"] and step["started_ns"] is not None}
    without_acks = faults | _by_fault(known.stalls, case.steps)
    longest = max(known.stalls, key=lambda stall: stall.seconds, default=None)
    return {
        "ack_ms": _in_ms("acks", known.acks),
        "read_ms": _in_ms("records", known.reads),
        "longest_stall": longest
        and {
            "place": _named(longest.place),
            "s": round(longest.seconds, 3),
            "fault": _fault_of(longest, case.steps),
            "also_open": _also_open([longest], case.steps),
        },
        "without_acks_s": {fault: dict(sorted((none | by).items())) for fault, by in without_acks.items()},
        "also_open": _shared(known.stalls, case.steps),
        "without_commits_s": _by_fault(known.commits, case.steps),
        "tier_caught_up_s": dict(_caught_up(case.steps)),
    }


def _by_fault(stalls: Sequence[Stall], steps: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Their seconds, by fault and by "topic/partition"."""
    by_fault: dict[str, dict[str, float]] = defaultdict(dict)
    for stall in stalls:
        silent = by_fault[_fault_of(stall, steps) or BETWEEN]
        silent[_named(stall.place)] = round(silent.get(_named(stall.place), 0.0) + stall.seconds, 3)
    return {fault: dict(sorted(by.items())) for fault, by in by_fault.items()}


def _caught_up(steps: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """By fault of the remote tier, how long after its healing all was there that had been rolled when the next wait for
    that began; of one that nothing waited for, nothing."""
    waited = [(step["started_ns"], step["ended_ns"]) for step in steps if step["do"] == "wait_tiered"]
    for step in steps:
        if step["is_fault"] and step["do"].startswith("tier_") and step["healed_ns"] is not None:
            ended = [end for begin, end in waited if None not in (begin, end) and begin >= step["healed_ns"]]
            if ended:
                yield step["name"], round((min(ended) - step["healed_ns"]) / _NS, 3)


def _in_ms(what: str, latencies: Mapping[str, tuple[int, int, int]]) -> dict[str, dict[str, float]]:
    return {
        window: {what: n, "p50": round(p50 / 1e6, 3), "p99": round(p99 / 1e6, 3)}
        for window, (n, p50, p99) in latencies.items()
    }


def _named(place: Place) -> str:
    return f"{place[0]}/{place[2]}"


def _fault_of(stall: Stall, steps: Sequence[Mapping[str, Any]]) -> str | None:
    """Of the faults that were open for most of it the latest: what had been broken long before did not stop acks."""
    shared = _open_during(stall, steps)
    most = max(shared.values(), default=0)
    return max((of for of, ns in shared.items() if 2 * ns >= most), default=(0, None))[1]


def _open_during(stall: Stall, steps: Sequence[Mapping[str, Any]]) -> dict[tuple[int, str], int]:
    """By when it began and its name, for how long each fault was open while a partition stalled, in ns."""
    shared = {
        (step["started_ns"], step["name"]): min(stall.to_ns, step["healed_ns"] or step["ended_ns"] or stall.to_ns)
        - max(stall.from_ns, step["started_ns"])
        for step in steps
        if step["is_fault"] and step["started_ns"] is not None
    }
    return {of: ns for of, ns in shared.items() if ns > 0}


def _also_open(stalls: Iterable[Stall], steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Other faults than the one that stalls are put down to, which were open during any of them, in order."""
    others = {of: None for stall in stalls for of in _open_during(stall, steps) if of[1] != _fault_of(stall, steps)}
    return list(dict.fromkeys(name for _, name in sorted(others)))


def _shared(stalls: Sequence[Stall], steps: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """By fault that stalls are put down to, which others were open as well."""
    by_fault: dict[str, list[Stall]] = defaultdict(list)
    for stall in stalls:
        if fault := _fault_of(stall, steps):
            by_fault[fault].append(stall)
    reported = {fault: _also_open(its, steps) for fault, its in by_fault.items()}
    return {fault: others for fault, others in reported.items() if others}


def _reads(given: Prepared) -> DataFrame:
    """Records that live readers were given, with when they were sent: their timestamp says it, where clients set it."""
    sent = [
        (n, name)
        for n, case in enumerate(given.cases)
        for name, topic in case.contract.topics.items()
        if topic.timestamp_type == "create" and case.run.get("timestamps") == "send"
        if not any(producer.backdated_ms for producer in case.contract.producers.values())
    ]
    rows = given.observations.where("given_ns IS NOT NULL AND intact")
    rows = rows.join(F.broadcast(frame(given.spark, {"topic": "string"}, sent)), [BUNDLE, "topic"], "left_semi")
    called_ns = F.col("timestamp_ms") * 10**6
    return rows.select(BUNDLE, called_ns.alias("called_ns"), F.col("given_ns").alias("returned_ns"))


def _latencies(rows: DataFrame) -> Iterator[tuple[int, dict[str, tuple[int, int, int]]]]:
    """By bundle and window. What waited while anything was broken was answered `during`, whenever its answer came."""
    during = F.exists("during", lambda w: (F.col("called_ns") <= w["to_ns"]) & (F.col("returned_ns") >= w["from_ns"]))
    during = F.coalesce(during, F.lit(False))
    in_window = {"during": during, "before": _inside("before") & ~during, "after": _inside("after") & ~during}
    took = F.col("returned_ns") - F.col("called_ns")
    of_window = [
        figure
        for window in WINDOWS
        for figure in (
            F.count_if(in_window[window]).alias(window),
            F.percentile_approx(F.when(in_window[window], took), [0.5, 0.99], 1000).alias(f"{window}_ns"),
        )
    ]
    for row in rows.groupBy(BUNDLE).agg(*of_window).collect():
        yield row[BUNDLE], {window: (row[window], *row[f"{window}_ns"]) for window in WINDOWS if row[window]}


def _inside(window: str) -> Column:
    inside = F.exists(window, lambda w: (F.col("called_ns") >= w["from_ns"]) & (F.col("returned_ns") <= w["to_ns"]))
    return F.coalesce(inside, F.lit(False))


def _stalls(ledger: DataFrame) -> DataFrame:
    """Gaps between acks, from when somebody began to wait for the one that ended them: with it, or with a record that
    was given up on before it. And what came of no ack any more.

    By tenths of a second: gaps within one are none, so few rows are sorted.
    """
    acked = F.col("outcome") == Outcome.ACKED.value
    acked_ns = F.when(acked, F.col("returned_ns"))
    buckets = (
        ledger.where("returned_ns IS NOT NULL")
        .groupBy(*PLACE, F.floor(F.col("returned_ns") / _BUCKET_NS).alias("bucket"))
        .agg(F.min(acked_ns).alias("to_ns"), F.max(acked_ns).alias("last"), F.min("called_ns").alias("called"))
    )
    in_order = Window.partitionBy(*PLACE).orderBy("bucket")
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    buckets = buckets.withColumn("gap", F.coalesce(F.count("last").over(earlier), F.lit(0)))
    waited = F.min("called").over(Window.partitionBy(*PLACE, "gap"))
    before = F.last("last", ignorenulls=True).over(earlier)
    between = buckets.select(*PLACE, F.greatest(before, waited).alias("from_ns"), "to_ns").where("to_ns IS NOT NULL")
    ends = ledger.groupBy(*PLACE).agg(
        F.coalesce(F.max(F.when(acked, F.col("returned_ns"))), F.min("called_ns")).alias("from_ns"),
        F.max(F.when(~acked, F.col("returned_ns"))).alias("to_ns"),
    )
    columns = [*PLACE, "from_ns", "to_ns"]
    gaps = between.select(*columns).unionByName(ends.select(*columns))
    return gaps.where(F.col("to_ns") - F.col("from_ns") >= int(STALL_S * _NS))


def _commits(given: Prepared) -> DataFrame:
    """Gaps between two commits of a group that were acknowledged, from when there was something to commit: a record was
    acknowledged at the offset that the first of them tells."""
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
