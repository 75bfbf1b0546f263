"""Plants in the run itself: too little proof must never be a PASS, and never hide a defect."""

from __future__ import annotations

from typing import Any

from harness.model.finding import Kind
from harness.model.verdict import Status
from suites.planted.copies import Copy
from suites.planted.expected import Expected, doubtful, fails, of
from suites.planted.plants import COMMITTED, append, forget, last_partition, middle, plant


def _first_drain(reads: list[dict[str, Any]]) -> dict[str, Any]:
    return next(read for read in reads if read["kind"] == "drain")


@plant
def doubt_read_not_reached(copy: Copy) -> Expected:
    with copy.document("reads") as reads:
        _first_drain(reads).update(reached=False, stuck_reason="stuck at the end")
    return doubtful("not_reached")


@plant
def doubt_read_stopped_short(copy: Copy) -> Expected:
    """It claims to have reached its end, and its position contradicts that."""
    with copy.document("reads") as reads:
        _first_drain(reads)["target"] += 1
    return doubtful("not_reached")


@plant
def doubt_replica_read_not_reached(copy: Copy) -> Expected:
    with copy.document("reads") as reads:
        read = next(read for read in reads if read["kind"] == "replica")
        read.update(reached=False, stuck_reason="another broker served it")
    return doubtful("not_reached")


@plant
def doubt_fault_without_effect(copy: Copy) -> Expected:
    with copy.document("steps") as steps:
        next(step for step in steps if step["is_fault"])["effect"]["held"] = False
    return doubtful("no_effect")


@plant
def doubt_fault_without_proof(copy: Copy) -> Expected:
    with copy.document("steps") as steps:
        next(step for step in steps if step["is_fault"])["effect"] = None
    return doubtful("no_effect")


@plant
def doubt_too_few_records(copy: Copy) -> Expected:
    with copy.document("run") as run:
        run["floors"] = dict.fromkeys(("before", "during", "after"), 10**6)
    return doubtful("floor_before", "floor_during", "floor_after")


@plant
def doubt_no_load_on_a_target(copy: Copy) -> Expected:
    with copy.document("run") as run:
        run["targets"].append(["plain", 7])
    return doubtful("floor_before", "floor_during", "floor_after")


@plant
def doubt_of_the_run(copy: Copy) -> Expected:
    with copy.document("run") as run:
        run["doubts"].append({"name": "disk_damage", "text": "broker 2 holds bytes that no broker writes"})
    return doubtful("disk_damage")


@plant
def doubt_snapshots_missing(copy: Copy) -> Expected:
    with copy.document("cluster") as cluster:
        cluster["snapshots"] = cluster["snapshots"][:1]
    return doubtful("no_snapshot")


@plant
def doubt_replica_silent(copy: Copy) -> Expected:
    with copy.document("cluster") as cluster:
        last_partition(cluster, "plain", 0)["logs"].pop()
    return doubtful("replica_silent")


@plant
def doubt_replica_out_of_sync(copy: Copy) -> Expected:
    with copy.document("cluster") as cluster:
        last_partition(cluster, "plain", 0)["isr"].pop()
    return doubtful("isr_not_full")


@plant
def doubt_recovery_not_asked(copy: Copy) -> Expected:
    with copy.document("run") as run:
        run["recovered"] = {"ok": None, "waited_s": 0.0, "last_seen": "not asked"}
    return doubtful("recovery_unknown")


@plant
def doubt_live_reader_saw_nothing(copy: Copy) -> Expected:
    copy.drop("observations", reader="uncommitted")
    return doubtful("reader_saw_nothing")


@plant
def doubt_ledger_emptied(copy: Copy) -> Expected:
    """Everything that was read is reserved, with unknown outcome: nothing was promised or proven."""
    copy.drop("ledger")
    return doubtful("empty_ledger", "floor_before", "floor_during", "floor_after")


@plant
def drain_emptied(copy: Copy) -> Expected:
    """Every read claims to have reached its end, and there is no row."""
    copy.drop("observations", kind="drain")
    return Expected(status=Status.FAIL, doubts=frozenset({"empty_drain", "tier_not_read"}), counted=False)


@plant
def doubt_observations_emptied_and_no_reads(copy: Copy) -> Expected:
    copy.drop("observations")
    with copy.document("reads") as reads:
        reads.clear()
    return doubtful("empty_drain", "no_drain", "copy_not_read", "reader_saw_nothing", "tier_not_read", "not_read")


@plant
def doubt_place_not_drained(copy: Copy) -> Expected:
    at = {"topic": "paid", "partition": 1}
    copy.drop("observations", kind="drain", isolation=COMMITTED, **at)
    with copy.document("reads") as reads:
        reads[:] = [
            read
            for read in reads
            if (read["kind"], read["isolation"], read["topic"], read["partition"]) != ("drain", COMMITTED, "paid", 1)
        ]
    return doubtful("no_drain", "copy_not_read", "not_read")


@plant
def doubt_unfinished(copy: Copy) -> Expected:
    """In an unfinished run missing records prove nothing."""
    forget(copy, *middle(copy.original))
    _unfinished(copy)
    return doubtful("unfinished")


@plant
def duplicated_though_unfinished(copy: Copy) -> Expected:
    """In an unfinished run present records still count."""
    (record,) = middle(copy.original)
    new = append(copy, record)
    _unfinished(copy)
    return fails(of(Kind.DUPLICATED, new), doubts=["unfinished"])


@plant
def lost_though_doubtful(copy: Copy) -> Expected:
    """A doubt never softens a FAIL."""
    gone = middle(copy.original)
    forget(copy, *gone)
    with copy.document("steps") as steps:
        next(step for step in steps if step["is_fault"])["effect"]["held"] = False
    return fails(of(Kind.LOST, *gone), doubts=["no_effect"])


def _unfinished(copy: Copy) -> None:
    with copy.document("run") as run:
        run["finished"] = False
