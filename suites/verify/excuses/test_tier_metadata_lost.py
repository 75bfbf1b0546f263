"""Records in the remote tier that an unclean election of __remote_log_metadata lets nobody find. Beside each what just
does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.contract.internal_topics import TIER_METADATA, metadata_partition
from harness.model.verdict import Status, Verdict
from suites.verify.checks.tiers import DELETED, DELETING, FINISHED, STARTED, tiered, wrote
from suites.verify.edits import contract
from suites.verify.history import MS, RC, START_NS, Built
from suites.verify.judging import reported, verdicts

S = 1000 * MS
LOOKED_NS = START_NS + 10**12
UNCLEAN = "unclean.leader.election.enable"
TOPIC_ID = "OCAxFIh0RrOIMLRULInWMQ"


def holed(*gone: int) -> Callable[[Built], None]:
    """No reader of the end is given these offsets."""

    def edit(built: Built) -> None:
        for kind in ("drain", "replica"):
            for offset in gone:
                if built.rows("observations", kind=kind, offset=offset):
                    built.drop("observations", kind=kind, offset=offset)
        out_of_range(built, min(gone), max(gone) + 1)

    return edit


def out_of_range(built: Built, low: int, high: int) -> None:
    """So the drain was told for good, and went on behind."""
    for read in built.reads:
        if read["kind"] == "drain":
            read["holes"] = [{"from_offset": low, "to_offset": high}]


def readable(built: Built) -> None:
    """Somebody finds it: the drain is given all."""


def tier_seen(below: int, after_s: float, **more: Any) -> Callable[[Built], None]:
    """A step sees all below it in the tier, so long after the election."""

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
    """The last segment's objects are there, nobody tells of them, and an unclean election came after so many acks, of a
    leader that was in sync so long after the objects were seen. Just before that a step saw so much in the tier."""
    built = tiered(holed(*gone) if gone else readable)
    built.drop("tier_metadata", segment_id="third")
    at_ns = max(row["returned_ns"] for row in built.tables["ledger"][:acked]) + 1
    event = {"topic": topic, "partition": partition, "leader_epoch": 5, "old_leader": 1, "new_leader": leader}
    built.event("internal_leader_change", **event, clean=clean, since_ns=at_ns - 1, at_ns=at_ns)
    built.steps[0]["events"][-1]["in_sync_ns"] = LOOKED_NS + in_sync_s * S
    for below, ago_s in ((6, 10), (seen, 0)):
        tier_seen(below, -ago_s)(built)
    settings = {"replicas": 2, "min_insync_replicas": min_isr, "unclean_election": unclean}
    built.run["contract"]["tier"] = {"partitions": partitions, **settings}
    edit(built)
    return built


def set_for_a_while(built: Built, *, value: bool = True) -> None:
    """A declared step sets it on the topic, before all."""
    config = {UNCLEAN: value}
    step = built.steps[0] | {"name": "set", "do": "alter_topic", "args": {"topic": TIER_METADATA, "config": config}}
    built.steps.append(step | {"is_fault": False, "events": []})
    built.run["contract"]["changes"] = [{"step": "set", "topic": TIER_METADATA, "config": config}]


def of_topic_id(built: Built) -> None:
    """As brokers name topics."""
    for rows in (*built.tables.values(), built.reads, built.cluster["lineages"]):
        for row in rows:
            if row.get("topic_id") == "T":
                row["topic_id"] = TOPIC_ID
    for snapshot in built.cluster["snapshots"]:
        for row in snapshot["partitions"]:
            row["topic_id"] = TOPIC_ID


def begun(built: Built) -> None:
    """The word that it was finished went, and not the one that it began."""
    wrote(built, "third", STARTED, 6, "1:6")


def finished(built: Built) -> None:
    """Somebody tells of it: it is the broker that does not find it."""
    begun(built)
    wrote(built, "third", FINISHED)


def kept_by_a_broker(built: Built) -> None:
    """One replica has it, and serves it to nobody."""
    built.change("tier_replicas", {"local_log_start": 6, "highest_tiered": 5}, broker=1)


def deleting(built: Built) -> None:
    """That it goes is told, which somebody had to know of for that."""
    begun(built)
    wrote(built, "third", DELETING)


def had_another(built: Built) -> None:
    """What lies there is a copy that nobody needs: another one was finished, and was deleted then."""
    wrote(built, "fourth", STARTED, 6, "1:6")
    for state in (FINISHED, DELETING, DELETED):
        wrote(built, "fourth", state)


def another_line(built: Built) -> None:
    """One replica has other epochs, and another copy is of those of the rest."""
    built.change("tier_replicas", {"epochs": "0:0,2:3"}, broker=3)
    wrote(built, "fourth", STARTED, 6, "1:6")
    wrote(built, "fourth", FINISHED)
    for row in [row for row in built.tables["tier_objects"] if row["segment_id"] == "third"]:
        built.tables["tier_objects"].append(row | {"segment_id": "fourth"})


def unknown_line(built: Built) -> None:
    built.change("tier_replicas", {"epochs": None}, broker=3)


def half_a_copy(built: Built) -> None:
    """Whoever copied it did not come to its end."""
    built.drop("tier_objects", segment_id="third", kind="leader_epoch_checkpoint")


def passed_by(built: Built) -> None:
    """A read was given what is there before, and then what is there behind."""
    denied(5, 5, 9)(built)
    built.tables["probes"][-1]["reported"] = "enough"


def start_behind(built: Built) -> None:
    """The leader says that its log begins behind the hole, so that nothing above its start is missing."""
    for snapshot in built.cluster["snapshots"]:
        for log in (log for p in snapshot["partitions"] for log in p["logs"]):
            if log["broker"] == 1 and snapshot["phase"] != "start":
                log["log_start"] = 9
    built.change("tier_replicas", {"log_start": 9}, broker=1)


def no_object(built: Built) -> None:
    built.drop("tier_objects", segment_id="third")


def not_in_the_end(built: Built) -> None:
    built.drop("tier_objects", segment_id="third", look="end")


def exactly(built: Built, count: int) -> None:
    """Physics gives their number."""
    built.run["contract"]["exact_losses"] = [{"topic": "t", "partition": 0, "count": count}]


def denied(asked: int, *given: int) -> Callable[[Built], None]:
    """A read from there was given these, and then told that what comes next is out of range."""

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


MINE = metadata_partition(TOPIC_ID, 0, 5)
GONE = ["lost 3", "tier_gap 3"]
CASES: dict[str, tuple[Built, list[str]]] = {
    "nobody tells of it any more": (orphaned(), []),
    "the unclean election was the setting's of a while": (orphaned(set_for_a_while, unclean=False), []),
    "nobody tells that it was finished": (orphaned(begun), []),
    "of the partition that tells of it": (orphaned(of_topic_id, partition=MINE, partitions=5), []),
    "a read from there is denied": (orphaned(denied(7)), []),
    "a read that comes there is denied": (orphaned(denied(4, 4, 5)), []),
    # --- and what is not that
    "a read of what is there is denied": (orphaned(denied(3)), ["skipped_read 1"]),
    "a read is denied before it comes there": (orphaned(denied(3, 3, 4)), ["skipped_read 1"]),
    "two had to be in sync": (orphaned(min_isr=2), GONE),
    "unclean elections are not permitted": (orphaned(unclean=False), GONE),
    "a step set it to no": (orphaned(lambda b: set_for_a_while(b, value=False), unclean=False), GONE),
    "nobody was elected": (orphaned(leader=-1), GONE),
    "the election was clean": (orphaned(clean=True), GONE),
    "an election of another topic": (orphaned(topic="__consumer_offsets"), GONE),
    "of another partition than tells of it": (orphaned(of_topic_id, partition=(MINE + 1) % 5, partitions=5), GONE),
    "of a partition that is not there": (orphaned(partition=1), GONE),
    "the elected one was in sync when the copy was there": (orphaned(in_sync_s=10), GONE),
    "acknowledged after the election": (orphaned(acked=7), ["lost 2"]),
    "no copy was ever made": (orphaned(no_object), GONE),
    "the copy is gone, too": (orphaned(not_in_the_end), GONE),
    "somebody tells of it": (orphaned(finished), ["lost 3"]),
    "no step saw it in the tier before": (orphaned(seen=6), GONE),
    "a step saw it there afterwards": (orphaned(tier_seen(9, 1), seen=6), GONE),
    "a step saw it there long before": (orphaned(tier_seen(9, -10)), GONE),
    "a step saw another partition there": (orphaned(tier_seen(9, 0, partition=1), seen=6), GONE),
    "a step saw a part of it there": (orphaned(seen=8), ["lost 1", "tier_gap 3"]),
    "the log is said to begin behind it": (orphaned(start_behind), ["log_start 9"]),
    "it is told that it goes": (orphaned(deleting), GONE),
    "another copy was told of, and deleted": (orphaned(had_another), GONE),
    "another copy is told of, of the epochs of some": (orphaned(another_line), ["lost 3", "tier_gap 6"]),
    "nobody knows the epochs of one": (orphaned(unknown_line), GONE),
    "half a copy": (orphaned(half_a_copy), GONE),
    "a damaged copy": (
        orphaned(lambda b: b.change("tier_objects", {"faulty": "CRC"}, segment_id="third", kind="log")),
        GONE,
    ),
    "a reader passed by what others are given": (orphaned(passed_by, gone=()), ["skipped_read 3"]),
    "more is gone than nobody tells of": (orphaned(gone=(5, 6, 7, 8)), ["lost 1"]),
    "more than there had to be": (orphaned(lambda b: exactly(b, 2)), ["lost 1"]),
    "as many as there had to be": (orphaned(lambda b: exactly(b, 3)), []),
    "a broker's own record is gone as well": (orphaned(gone=(6, 7, 8, 9)), ["lost 1"]),
    "a broker has it itself": (orphaned(kept_by_a_broker), ["lost 3", "tier_gap 3"]),
    "of a topic that is in no tier": (contract(orphaned(), tiered=False), ["lost 3"]),
    "nobody says what is promised of it": (orphaned(lambda b: b.run["contract"].pop("tier")), GONE),
}


HOLES: dict[str, tuple[Built, bool]] = {
    "as wide as what is excused": (orphaned(), True),
    "within what is excused": (orphaned(lambda b: out_of_range(b, 7, 8)), True),
    "wider at its start": (orphaned(lambda b: out_of_range(b, 5, 9)), False),
    "wider at its end": (orphaned(lambda b: out_of_range(b, 6, 10)), False),
    "and nothing of it is lost": (tiered(lambda b: out_of_range(b, 6, 9)), False),
    "none": (tiered(), True),
}


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, verdicts(spark, [built for built, _ in CASES.values()]), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_what_that_election_took_is_excused(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


def test_the_excuse_names_the_election_and_what_it_took(judged: dict[str, Verdict]) -> None:
    findings = judged["nobody tells of it any more"].findings
    assert {f.kind.value: (f.offset_first, f.offset_last) for f in findings} == {"lost": (6, 8), "tier_gap": (6, 8)}
    assert {f.excused_by for f in findings} == {
        "unclean election of __remote_log_metadata/0 in epoch 5, which the contract permits with "
        "min.insync.replicas=1: what brokers had deleted that one replica alone knew to be in the tier"
    }


def test_a_hole_is_a_doubt_but_for_what_is_excused(spark: SparkSession) -> None:
    judged = dict(zip(HOLES, verdicts(spark, [built for built, _ in HOLES.values()]), strict=True))
    assert {name: (verdict.status, {d.name for d in verdict.doubts}) for name, verdict in judged.items()} == {
        name: (Status.PASS, set()) if sound else (Status.INCONCLUSIVE, {"hole"}) for name, (_, sound) in HOLES.items()
    }
