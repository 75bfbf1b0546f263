"""not_deleted: segments that were due, on a quiet cluster, and the ones that a broker may still have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from suites.verify.edits import contract
from suites.verify.history import MS, Built, History
from suites.verify.judging import HistoryBatch

S = 1000 * MS
FIRST = "log.initial.task.delay.ms"
INTERVAL = "log.retention.check.interval.ms"
QUIET_S = 60


def kept(
    retention: dict[str, int],
    edit: Callable[[Built], object] = lambda _: None,
    *,
    text: str = "AAA/AAA",
    actual: dict[str, int] | None = None,
    interval: str | None = "500",
) -> Built:
    """All brokers have both segments of the log, which are as old as the cluster was quiet."""
    built = History(text, name=f"{text} kept with {retention}").build()
    quiet(built, retention, {} if interval is None else {INTERVAL: interval, FIRST: "500"}, actual)
    edit(built)
    return built


def quiet(
    built: Built, retention: dict[str, Any], of_brokers: dict[str, str], actual: dict[str, int] | None = None
) -> None:
    """The topic has this retention, and nothing happens for QUIET_S. of_brokers: their settings; actual: the retention
    that brokers report, if it is another one."""
    settings = {name: str(value) for name, value in (actual or retention).items()}
    topic = built.run["contract"]["topics"]["t"]
    topic |= {name.replace(".", "_"): value for name, value in retention.items()}
    for snapshot in built.cluster["snapshots"]:
        snapshot["topic_configs"] = {"t": {"retention.ms": "604800000", "retention.bytes": "-1"} | settings}
        snapshot["broker_configs"] = {str(b): of_brokers for b in (1, 2, 3)}
    built.drained["at_ns"] += QUIET_S * S


def only_broker_2(built: Built) -> None:
    """The other brokers deleted the first segment, and so the log begins after it."""
    for broker in (1, 3):
        built.drop("batches", broker=broker, segment=0)
    for log in built.drained["partitions"][0]["logs"]:
        log["log_start"] = 0 if log["broker"] == 2 else 3
    for read in built.reads:
        read["start"] = 0 if read["replica"] == 2 else 3
    for offset in range(3):
        for replica in (1, 3):
            built.drop("observations", replica=replica, offset=offset)


def step(**fact: Any) -> Callable[[Built], None]:
    """Another step, with this fact."""

    def add(built: Built) -> None:
        built.steps[0]["facts"] = [{"from_ns": built.run["started_ns"], **fact}]

    return add


def late(built: Built) -> None:
    step(kind="leaders_moved", to_ns=built.drained["at_ns"] - 20 * S)(built)


def down(built: Built) -> None:
    built.run["recovered"] = {"ok": False, "waited_s": 90.0, "last_seen": "node 2 is down", "pending": "nodes_down"}


def first_is_younger(built: Built) -> None:
    built.change("batches", {"max_timestamp_ms": built.drained["at_ns"] // MS}, base_offset=1)


def deleted_below(offset: int, *, log_start: int | None = None, late_s: float = 0) -> Callable[[Built], None]:
    """DeleteRecords, which every replica knows of; late_s: so long after the run's start."""

    def edit(built: Built) -> None:
        at_ns = built.run["started_ns"] + int(late_s * S)
        contract(built, delete_records=True).event("delete_records", before_offset=offset, at_ns=at_ns)
        begin_at(built, offset if log_start is None else log_start)

    return edit


def begin_at(built: Built, start: int) -> None:
    """Every replica reports this log start, and is read from there."""
    for log in built.drained["partitions"][0]["logs"]:
        log["log_start"] = start
    for read in built.reads:
        read["start"] = start
    built.tables["observations"] = [
        row for row in built.tables["observations"] if row["kind"] == "live" or row["offset"] >= start
    ]


SHORT = {"retention.ms": 5_000}
SMALL = {"retention.bytes": 300}
LAWFUL = {
    "not due": kept({"retention.ms": 27_604}),
    "older than the run": kept({"retention.ms": 40_000}),
    "the newest segment": kept(SHORT, text="AAAAAA"),
    "not the oldest": kept(SHORT, first_is_younger),
    "a step at the end": kept(SHORT, late),
    "a fault that never ended": kept(SHORT, step(kind="links_cut")),
    "a wrong clock": kept(SHORT, step(kind="clock_changed", to_ns=1)),
    "a setting of the cluster that is longer": kept(SHORT, actual={"retention.ms": 50_000}),
    "an unknown interval": kept(SHORT, interval=None),
    "a long interval": kept(SHORT, interval="10000"),
    "a node that is down": kept(SHORT, down),
    "as many bytes as are kept": kept({"retention.bytes": 301}),
    "only compacted": kept(
        SHORT, lambda built: built.run["contract"]["topics"]["t"].update(compacted=True, deletes=False)
    ),
    "not deleted": kept(SHORT, lambda built: built.run["contract"]["topics"]["t"].update(deletes=False)),
    "tiered": kept(SHORT, lambda built: built.run["contract"]["topics"]["t"].update(tiered=True)),
    "records deleted up to the middle of a segment": kept({}, deleted_below(2)),
    "records deleted just now": kept({}, deleted_below(3, late_s=40)),
    "a replica that knows of no deletion": kept({}, deleted_below(3, log_start=2)),
}
BROKEN = [
    kept({"retention.ms": 27_603}),
    kept(SMALL),
    kept(SMALL, only_broker_2),
    kept(SHORT, text="AA/A/AAA"),
    kept({}, deleted_below(3)),
    kept({}, deleted_below(6)),
    kept(SHORT, lambda built: built.run["contract"]["topics"]["t"].update(compacted=True)),
]
BATCH = HistoryBatch([*BROKEN, *LAWFUL.values()])


def found(spark: SparkSession) -> list[list[tuple[str | None, int | None, int | None]]]:
    return [
        [(f.reader, f.offset_first, f.offset_last) for f in verdict.findings if f.kind.value == "not_deleted"]
        for verdict in BATCH.verdicts(spark)
    ]


def test_each_replica_that_keeps_what_was_due_is_found(spark: SparkSession) -> None:
    by_age, by_size, one, two_segments, deleted, all_deleted, compacted = found(spark)[: len(BROKEN)]
    every = [("broker 1", 0, 2), ("broker 2", 0, 2), ("broker 3", 0, 2)]
    assert by_age == by_size == two_segments == deleted == all_deleted == compacted == every
    assert one == [("broker 2", 0, 2)]
    (finding,) = BATCH.verdicts(spark)[2].findings
    assert "1 of 2 segments that were due for deletion more than 32 s before" in finding.detail


def test_what_a_broker_may_still_have_is_no_finding(spark: SparkSession) -> None:
    assert dict(zip(LAWFUL, found(spark)[len(BROKEN) :], strict=True)) == {name: [] for name in LAWFUL}
