"""Remote segments that an unclean election of __remote_log_metadata orphaned; each with near misses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.contract.internal_topics import TIER_METADATA, metadata_partition
from harness.model.verdict import Status, Verdict
from suites.verify.checks.tier.tiered_history import DELETED, DELETING, FINISHED, STARTED, tiered, wrote
from suites.verify.edits import contract
from suites.verify.history import MS, RC, START_NS, Built
from suites.verify.judging import HistoryBatch, reported

S = 1000 * MS
LOOKED_NS = START_NS + 10**12
UNCLEAN = "unclean.leader.election.enable"
TOPIC_ID = "OCAxFIh0RrOIMLRULInWMQ"


def with_hole(*gone: int) -> Callable[[Built], None]:
    """No read after healing returned these offsets."""

    def edit(built: Built) -> None:
        for kind in ("drain", "replica"):
            for offset in gone:
                if built.rows("observations", kind=kind, offset=offset):
                    built.drop("observations", kind=kind, offset=offset)
        out_of_range(built, min(gone), max(gone) + 1)

    return edit


def out_of_range(built: Built, low: int, high: int) -> None:
    """The drain was answered with OFFSET_OUT_OF_RANGE there, and continued after it."""
    for read in built.reads:
        if read["kind"] == "drain":
            read["holes"] = [{"from_offset": low, "to_offset": high}]


def without_hole(built: Built) -> None:
    """The drain returned everything."""


def seen_in_tier(below: int, after_s: float, **more: Any) -> Callable[[Built], None]:
    """A step saw everything below an offset in the tier, this long after the election."""

    def edit(built: Built) -> None:
        elected_ns = next(e for e in built.steps[0]["events"] if e["kind"] == "internal_leader_change")["at_ns"]
        built.event("tiered_seen", below=below, at_ns=elected_ns + int(after_s * S), **more)

    return edit


def orphaned(
    edit: Callable[[Built], Any] = lambda _: None,
    *,
    gone: tuple[int, ...] = (6, 7, 8),
    partition: int = 0,
    partitions: int = 1,
    min_isr: int = 1,
    unclean: bool = True,
    clean: bool = False,
    leader: int = 2,
    acked: int = 10,
    in_sync_s: int = -1000,
    topic: str = TIER_METADATA,
    seen: int = 9,
) -> Built:
    """The last segment's objects exist without metadata, because of an unclean election after this many
    acknowledgements; the elected replica was last in sync this long after the objects were seen. Just before the
    election a step saw the offsets below `seen` in the tier."""
    built = tiered(with_hole(*gone) if gone else without_hole)
    built.drop("tier_metadata", segment_id="third")
    at_ns = max(row["returned_ns"] for row in built.tables["ledger"][:acked]) + 1
    event = {"topic": topic, "partition": partition, "leader_epoch": 5, "old_leader": 1, "new_leader": leader}
    built.event("internal_leader_change", **event, clean=clean, since_ns=at_ns - 1, at_ns=at_ns)
    built.steps[0]["events"][-1]["in_sync_ns"] = LOOKED_NS + in_sync_s * S
    for below, ago_s in ((6, 10), (seen, 0)):
        seen_in_tier(below, -ago_s)(built)
    settings = {"replicas": 2, "min_insync_replicas": min_isr, "unclean_election": unclean}
    built.run["contract"]["tier"] = {"partitions": partitions, **settings}
    edit(built)
    return built


def set_by_step(built: Built, *, value: bool = True) -> None:
    """A declared step sets unclean.leader.election.enable on the topic, before everything else."""
    config = {UNCLEAN: value}
    step = built.steps[0] | {"name": "set", "do": "alter_topic", "args": {"topic": TIER_METADATA, "config": config}}
    built.steps.append(step | {"is_fault": False, "events": []})
    built.run["contract"]["changes"] = [{"step": "set", "topic": TIER_METADATA, "config": config}]


def of_topic_id(built: Built) -> None:
    """With a topic id as brokers have it."""
    for rows in (*built.tables.values(), built.reads, built.cluster["lineages"]):
        for row in rows:
            if row.get("topic_id") == "T":
                row["topic_id"] = TOPIC_ID
    for snapshot in built.cluster["snapshots"]:
        for row in snapshot["partitions"]:
            row["topic_id"] = TOPIC_ID


def started_copy(built: Built) -> None:
    """The metadata of the end of the copy was lost, that of its start was not."""
    wrote(built, "third", STARTED, 6, "1:6")


def finished_copy(built: Built) -> None:
    """The metadata is complete: it is a broker that does not find the segment."""
    started_copy(built)
    wrote(built, "third", FINISHED)


def kept_by_one_broker(built: Built) -> None:
    """One replica has it locally, and no reader receives it."""
    built.change("tier_replicas", {"local_log_start": 6, "highest_tiered": 5}, broker=1)


def deleting(built: Built) -> None:
    """The metadata has its deletion, so a broker knew the segment."""
    started_copy(built)
    wrote(built, "third", DELETING)


def deleted_other_copy(built: Built) -> None:
    """The objects are of an unneeded copy: another one was finished, and deleted later."""
    wrote(built, "fourth", STARTED, 6, "1:6")
    for state in (FINISHED, DELETING, DELETED):
        wrote(built, "fourth", state)


def other_lineage(built: Built) -> None:
    """One replica has other epochs, and another copy has the epochs of the others."""
    built.change("tier_replicas", {"epochs": "0:0,2:3"}, broker=3)
    wrote(built, "fourth", STARTED, 6, "1:6")
    wrote(built, "fourth", FINISHED)
    for row in [row for row in built.tables["tier_objects"] if row["segment_id"] == "third"]:
        built.tables["tier_objects"].append(row | {"segment_id": "fourth"})


def unknown_lineage(built: Built) -> None:
    built.change("tier_replicas", {"epochs": None}, broker=3)


def incomplete_copy(built: Built) -> None:
    """The copy was not completed."""
    built.drop("tier_objects", segment_id="third", kind="leader_epoch_checkpoint")


def skipped_by_read(built: Built) -> None:
    """A read returned records before it and then records after it."""
    denied(5, 5, 9)(built)
    built.tables["probes"][-1]["reported"] = "enough"


def log_start_after_hole(built: Built) -> None:
    """The leader reports a log start after the hole, so nothing above its start is missing."""
    for snapshot in built.cluster["snapshots"]:
        for log in (log for p in snapshot["partitions"] for log in p["logs"]):
            if log["broker"] == 1 and snapshot["phase"] != "start":
                log["log_start"] = 9
    built.change("tier_replicas", {"log_start": 9}, broker=1)


def no_object(built: Built) -> None:
    built.drop("tier_objects", segment_id="third")


def missing_at_the_end(built: Built) -> None:
    built.drop("tier_objects", segment_id="third", look="end")


def exactly(built: Built, count: int) -> None:
    """The exact number of losses is known."""
    built.run["contract"]["exact_losses"] = [{"topic": "t", "partition": 0, "count": count}]


def denied(asked: int, *given: int) -> Callable[[Built], None]:
    """A read from this offset returned these records, and then OFFSET_OUT_OF_RANGE."""

    def edit(built: Built) -> None:
        probe = {
            "reader": "probe",
            "session": 0,
            "isolation": RC,
            "why": "batch",
            "offset": asked,
            "reported": "out_of_range",
        }
        span = {"log_start": 0, "log_start_after": 0, "end_offset": None, "time_ms": None}
        asked_ns = {"asked_ns": START_NS, "at_ns": START_NS, "records": len(given)}
        built.tables["probes"].append({"topic": "t", "topic_id": "T", "partition": 0} | probe | span | asked_ns)
        seen = {"reader": "probe", "kind": "probe", "session": 0, "replica": None}
        drained = {row["offset"]: row for row in built.rows("observations", kind="drain", isolation=RC)}
        built.tables["observations"] += [drained[offset] | seen for offset in given]

    return edit


ITS_PARTITION = metadata_partition(TOPIC_ID, 0, 5)
LOST = ["lost 3", "tier_gap 3"]
CASES: dict[str, tuple[Built, list[str]]] = {
    "orphaned": (orphaned(), []),
    "orphaned, and a step had permitted the unclean election": (orphaned(set_by_step, unclean=False), []),
    "orphaned, with the metadata of its start": (orphaned(started_copy), []),
    "orphaned, of several metadata partitions": (orphaned(of_topic_id, partition=ITS_PARTITION, partitions=5), []),
    "orphaned, and a read from there is denied": (orphaned(denied(7)), []),
    "orphaned, and a read that gets there is denied": (orphaned(denied(4, 4, 5)), []),
    # --- near misses
    "a read of other records is denied": (orphaned(denied(3)), ["skipped_read 1"]),
    "a read is denied before it gets there": (orphaned(denied(3, 3, 4)), ["skipped_read 1"]),
    "with min.insync.replicas=2": (orphaned(min_isr=2), LOST),
    "unclean elections are not permitted": (orphaned(unclean=False), LOST),
    "a step forbade unclean elections": (orphaned(lambda b: set_by_step(b, value=False), unclean=False), LOST),
    "no leader was elected": (orphaned(leader=-1), LOST),
    "the election was clean": (orphaned(clean=True), LOST),
    "an election of another topic": (orphaned(topic="__consumer_offsets"), LOST),
    "an election of another metadata partition": (
        orphaned(of_topic_id, partition=(ITS_PARTITION + 1) % 5, partitions=5),
        LOST,
    ),
    "an election of a partition that does not exist": (orphaned(partition=1), LOST),
    "the elected replica was in sync when the copy existed": (orphaned(in_sync_s=10), LOST),
    "acknowledged after the election": (orphaned(acked=7), ["lost 2"]),
    "no objects": (orphaned(no_object), LOST),
    "the objects are missing at the end": (orphaned(missing_at_the_end), LOST),
    "the metadata is complete": (orphaned(finished_copy), ["lost 3"]),
    "no step saw it in the tier before": (orphaned(seen=6), LOST),
    "a step saw it in the tier after the election": (orphaned(seen_in_tier(9, 1), seen=6), LOST),
    "a step saw it in the tier long before": (orphaned(seen_in_tier(9, -10)), LOST),
    "a step saw another partition in the tier": (orphaned(seen_in_tier(9, 0, partition=1), seen=6), LOST),
    "a step saw a part of it in the tier": (orphaned(seen=8), ["lost 1", "tier_gap 3"]),
    "the reported log start is after it": (orphaned(log_start_after_hole), ["log_start 9"]),
    "the metadata has its deletion": (orphaned(deleting), LOST),
    "another copy was finished and deleted": (orphaned(deleted_other_copy), LOST),
    "another copy has the epochs of some replicas": (orphaned(other_lineage), ["lost 3", "tier_gap 6"]),
    "the epochs of one replica are unknown": (orphaned(unknown_lineage), LOST),
    "an incomplete copy": (orphaned(incomplete_copy), LOST),
    "a damaged copy": (
        orphaned(lambda b: b.change("tier_objects", {"faulty": "CRC"}, segment_id="third", kind="log")),
        LOST,
    ),
    "a read skipped records that others received": (orphaned(skipped_by_read, gone=()), ["skipped_read 3"]),
    "more is lost than was orphaned": (orphaned(gone=(5, 6, 7, 8)), ["lost 1"]),
    "more losses than the exact number": (orphaned(lambda b: exactly(b, 2)), ["lost 1"]),
    "exactly the exact number of losses": (orphaned(lambda b: exactly(b, 3)), []),
    "a record of the brokers is lost as well": (orphaned(gone=(6, 7, 8, 9)), ["lost 1"]),
    "one broker has it locally": (orphaned(kept_by_one_broker), ["lost 3", "tier_gap 3"]),
    "a topic that is not tiered": (contract(orphaned(), tiered=False), ["lost 3"]),
    "no contract of the metadata topic": (orphaned(lambda b: b.run["contract"].pop("tier")), LOST),
}


HOLES: dict[str, tuple[Built, bool]] = {
    "a hole of exactly the excused offsets": (orphaned(), True),
    "a hole within the excused offsets": (orphaned(lambda b: out_of_range(b, 7, 8)), True),
    "a hole that starts earlier": (orphaned(lambda b: out_of_range(b, 5, 9)), False),
    "a hole that ends later": (orphaned(lambda b: out_of_range(b, 6, 10)), False),
    "a hole without a loss": (tiered(lambda b: out_of_range(b, 6, 9)), False),
    "no hole": (tiered(), True),
}

BATCH = HistoryBatch(built for built, _ in [*CASES.values(), *HOLES.values()])


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case, and on each hole."""
    return dict(zip([*CASES, *HOLES], BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_segments_orphaned_by_that_election_are_excused(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


def test_the_excuse_names_the_election(judged: dict[str, Verdict]) -> None:
    findings = judged["orphaned"].findings
    assert {f.kind.value: (f.offset_first, f.offset_last) for f in findings} == {"lost": (6, 8), "tier_gap": (6, 8)}
    assert {f.excused_by for f in findings} == {
        "unclean election of __remote_log_metadata/0 in epoch 5, which the contract permits with "
        "min.insync.replicas=1: it may lose the only metadata of segments that brokers had deleted locally"
    }


@pytest.mark.parametrize("name", HOLES)
def test_a_hole_is_a_doubt_unless_it_is_excused(name: str, judged: dict[str, Verdict]) -> None:
    verdict, sound = judged[name], HOLES[name][1]
    expected = (Status.PASS, set()) if sound else (Status.INCONCLUSIVE, {"hole"})
    assert (verdict.status, {doubt.name for doubt in verdict.doubts}) == expected
