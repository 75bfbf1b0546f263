"""not_deleted with a remote tier: copies that were due, on a quiet cluster, and copied segments on brokers."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from suites.verify.checks.test_not_deleted import FIRST, begin_at, quiet, step
from suites.verify.checks.tier.tiered_history import DELETED, DELETING, FINISHED, STARTED, Edit, tiered, wrote
from suites.verify.edits import contract
from suites.verify.history import MS, START_NS, Built
from suites.verify.judging import HistoryBatch

DISKS: Final = "log.retention.check.interval.ms"
INTERVAL: Final = "remote.log.manager.task.interval.ms"
SHORT: Final = {"retention.ms": 20_000}


def kept(retention: dict[str, int], edit: Edit = lambda _: None, *, interval: str | None = "500") -> Built:
    """All three copies are as old as the cluster was quiet."""
    built = tiered()
    built.name = f"kept in the tier with {retention}"
    built.change("tier_metadata", {"max_timestamp_ms": START_NS // MS + 10}, kind="segment")
    quiet(built, retention, {} if interval is None else {INTERVAL: interval, FIRST: "500"})
    edit(built)
    return built


def _at(seconds_before_the_end: int, segment: str, *states: str) -> Edit:
    """Metadata records so long before the end."""

    def edit(built: Built) -> None:
        for state in states:
            wrote(built, segment, state)
            at_ms = built.drained["at_ns"] // MS - seconds_before_the_end * 1000
            built.tables["tier_metadata"][-1]["timestamp_ms"] = at_ms

    return edit


def _copied_late(built: Built) -> None:
    """The first copy was finished ten seconds before the end."""
    at_ms = built.drained["at_ns"] // MS - 10_000
    built.change("tier_metadata", {"timestamp_ms": at_ms}, segment_id="first", state=FINISHED)


def _second_is_younger(built: Built) -> None:
    built.change("tier_metadata", {"max_timestamp_ms": built.drained["at_ns"] // MS}, segment_id="second")


def _another_leaders_copy(built: Built) -> None:
    """It is all that is left of the first segment."""
    built.change("tier_metadata", {"epochs": "7:0"}, segment_id="first", state=STARTED)
    _second_is_younger(built)


def _twice(built: Built) -> None:
    wrote(built, "twin", STARTED, 3, "1:3")
    wrote(built, "twin", FINISHED)


def _without_metadata(built: Built) -> None:
    built.drop("tier_metadata")


def _records_deleted(offset: int, epochs: str = "1:3") -> Edit:
    """DeleteRecords, after which no replica has the epochs below."""

    def edit(built: Built) -> None:
        contract(built, delete_records=True).event("delete_records", before_offset=offset)
        built.change("tier_replicas", {"log_start": offset, "epochs": epochs})
        begin_at(built, offset)

    return edit


def _later_copy_deleted(built: Built) -> None:
    _records_deleted(3)(built)
    built.change("tier_metadata", {"epochs": "2:0"}, segment_id="first", state=STARTED)


LAWFUL: Final = {
    "not due": kept({"retention.ms": 40_000}),
    "no limit": kept({}),
    "the oldest was copied late": kept(SHORT, _copied_late),
    "the oldest was copied by another leader": kept(SHORT, _another_leaders_copy),
    "deleted meanwhile": kept(SHORT, _at(10, "first", DELETING, DELETED)),
    "objects were deleted by hand": kept(SHORT, step(kind="tier_objects_changed", to_ns=START_NS)),
    "a step that never ended": kept(SHORT, step(kind="tier_slow")),
    "an unknown interval": kept(SHORT, interval=None),
    "as many bytes as are kept": kept({"retention.bytes": 601}),
    "as many bytes as are kept, and a second copy": kept({"retention.bytes": 601}, _twice),
    "no metadata": kept(SHORT, _without_metadata),
    "records deleted up to the middle of a copy": kept({}, _records_deleted(2, "0:2,1:3")),
    "records deleted, and a copy of a later leader": kept({}, _later_copy_deleted),
}


def on_disks(local: dict[str, Any], edit: Edit = lambda _: None, *, disks: str = "500") -> Built:
    """All brokers still have the segments that they copied long before, and a newer one."""
    built = tiered(text="AAA|/AAA/AAA/A")
    built.name = f"on disks with {local}"
    quiet(built, local, {INTERVAL: "500", DISKS: disks, FIRST: "500"})
    edit(built)
    return built


LOCAL: Final[dict[str, Any]] = {"local.retention.bytes": 1}
ON_DISKS_LAWFUL: Final = {
    "no local limit": on_disks({}),
    "a local limit like that of the topic": on_disks({"local.retention.bytes": -2, "local.retention.ms": -2}),
    "every local byte may stay": on_disks({"local.retention.bytes": -1}),
    "as many local bytes as are kept": on_disks({"local.retention.bytes": 701}),
    "locally not due": on_disks({"local.retention.ms": 40_000}),
    "the oldest copy was finished late": on_disks(LOCAL, _copied_late),
    "nothing was copied": on_disks(LOCAL, _without_metadata),
    "copies are switched off": on_disks(LOCAL | {"remote.log.copy.disable": "true"}),
    "brokers look seldom": on_disks(LOCAL, disks="20000"),
}
ON_DISKS_BROKEN: Final = [
    on_disks(LOCAL),
    on_disks({"local.retention.bytes": 401}),
    on_disks({"local.retention.ms": 5_000}),
    on_disks({}, _records_deleted(3)),
]
BROKEN: Final = [
    kept({}, _records_deleted(3)),
    kept(SHORT),
    kept(SHORT, _second_is_younger),
    kept({"retention.bytes": 600}),
    kept({"retention.bytes": 300}, _twice),
]
BATCH: Final = HistoryBatch([*BROKEN, *ON_DISKS_BROKEN, *LAWFUL.values(), *ON_DISKS_LAWFUL.values()])


def _found(spark: SparkSession) -> list[list[tuple[Any, ...]]]:
    return [
        [(f.reader, f.offset_first, f.offset_last) for f in verdict.findings if f.kind.value == "not_deleted"]
        for verdict in BATCH.verdicts(spark)
    ]


def test_a_tier_that_keeps_what_was_due_is_found(spark: SparkSession) -> None:
    deleted, every, first, by_size, two_by_size = _found(spark)[: len(BROKEN)]
    assert every == [("the remote tier", 0, 8)]
    assert deleted == first == by_size == [("the remote tier", 0, 2)]
    assert two_by_size == [("the remote tier", 0, 5)]
    finding = next(f for f in BATCH.verdicts(spark)[3].findings if f.kind.value == "not_deleted")
    assert "1 of 3 segments that were due for deletion more than 32 s before" in finding.detail


def test_a_broker_that_keeps_what_is_in_the_tier_is_found(spark: SparkSession) -> None:
    all_copied, by_size, by_age, deleted = _found(spark)[len(BROKEN) :][: len(ON_DISKS_BROKEN)]
    assert all_copied == by_age == [(f"broker {n}", 0, 8) for n in (1, 2, 3)]
    assert by_size == [(f"broker {n}", 0, 2) for n in (1, 2, 3)]
    assert deleted == [*by_size, ("the remote tier", 0, 2)]


def test_what_the_tier_and_brokers_may_still_have_is_no_finding(spark: SparkSession) -> None:
    lawful = {**LAWFUL, **ON_DISKS_LAWFUL}
    assert dict(zip(lawful, _found(spark)[-len(lawful) :], strict=True)) == {name: [] for name in lawful}
