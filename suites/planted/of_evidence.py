"""Plants in timestamps, codecs and the evidence itself: evidence with less than it claims must never be a PASS."""

from __future__ import annotations

from harness.model.finding import Kind
from suites.planted.copies import Copy
from suites.planted.expected import Expected, doubtful, fails, of, passes
from suites.planted.plants import ALL_KINDS, created_with, damage_metadata, middle, plant, records, transaction

_HOUR_MS = 3_600_000


# --- timestamps ---


@plant
def corrupt_timestamps(copy: Copy) -> Expected:
    """A batch was rewritten with timestamps one hour older."""
    old = middle(copy.original, count=3)
    for record in old:
        (row, *_) = copy.original.rows("observations", **record.at, kind="drain")
        copy.change("observations", {"timestamp_ms": row["timestamp_ms"] - _HOUR_MS}, **record.at, kind=set(ALL_KINDS))
    return fails(of(Kind.CORRUPT, *old))


@plant
def corrupt_timestamp_by_a_millisecond(copy: Copy) -> Expected:
    """Within the time of its send, but not the timestamp that its client set."""
    (record,) = middle(copy.original)
    (row, *_) = copy.original.rows("observations", **record.at, kind="drain")
    copy.change("observations", {"timestamp_ms": row["timestamp_ms"] + 1}, **record.at, kind=set(ALL_KINDS))
    return fails(of(Kind.CORRUPT, record))


@plant
def near_corrupt_timestamp_not_reported(copy: Copy) -> Expected:
    """LogAppendTime, in an acknowledgement without a time: the ledger has the client's own time."""
    (record,) = middle(copy.original)
    (row, *_) = copy.original.rows("observations", **record.at, kind="drain")
    copy.change("observations", {"timestamp_ms": row["timestamp_ms"] + 1}, **record.at, kind=set(ALL_KINDS))
    copy.change("ledger", {"timestamp_type": "append"}, **record.sent)
    return passes()


@plant
def corrupt_codec(copy: Copy) -> Expected:
    """Batches that arrive as lz4 must be recompressed, and one batch was not."""
    there = records(copy.original, "sized", 0)
    record = there[len(there) // 2]
    with copy.document("run") as run:
        run["contract"]["topics"]["sized"]["codec"] = "uncompressed"
    batches = copy.original.rows("batches", topic="sized", partition=0, control=None)
    batch = next(row for row in batches if row["base_offset"] <= record.offset <= row["last_offset"])
    first = next(r for r in there if r.offset == batch["base_offset"])
    copy.change("batches", {"codec": "lz4"}, topic="sized", partition=0, base_offset=batch["base_offset"])
    return fails(of(Kind.CORRUPT, first))


def _created_uncompressed(copy: Copy) -> None:
    """The topic was created so, and a step changes the default of the brokers in turn."""
    created_with(copy, "sized", "compression.type", "uncompressed")
    _default_changes(copy)


def _default_changes(copy: Copy) -> None:
    with copy.document("run") as run:
        run["contract"]["topics"]["sized"]["codec"] = "uncompressed"
    with copy.document("steps") as steps:
        began = steps[-1]["started_ns"]
        fact = {"kind": "config_toggled", "topic": "", "config": {"compression.type": "snappy"}}
        steps[-1]["facts"].append(fact | {"from_ns": began, "to_ns": began + 1})


@plant
def corrupt_codec_while_a_default_changes(copy: Copy) -> Expected:
    """The topic has a setting of its own, which counts whatever the default of the brokers is."""
    _created_uncompressed(copy)
    there = records(copy.original, "sized", 0)
    record = there[len(there) // 2]
    batches = copy.original.rows("batches", topic="sized", partition=0, control=None)
    batch = next(row for row in batches if row["base_offset"] <= record.offset <= row["last_offset"])
    first = next(r for r in there if r.offset == batch["base_offset"])
    copy.change("batches", {"codec": "snappy"}, topic="sized", partition=0, base_offset=batch["base_offset"])
    return fails(of(Kind.CORRUPT, first))


@plant
def near_corrupt_codec_of_a_default_that_changes(copy: Copy) -> Expected:
    """The topic follows the default of the brokers."""
    _default_changes(copy)
    batch = copy.original.rows("batches", topic="sized", partition=0, control=None)[0]
    copy.change("batches", {"codec": "snappy"}, topic="sized", partition=0, base_offset=batch["base_offset"])
    return passes()


@plant
def near_corrupt_codec_that_is_the_producers(copy: Copy) -> Expected:
    batch = copy.original.rows("batches", topic="sized", partition=0, control=None)[0]
    copy.change("batches", {"codec": "lz4"}, topic="sized", partition=0, base_offset=batch["base_offset"])
    return passes()


@plant
def near_corrupt_timestamps_of_the_producers_choice(copy: Copy) -> Expected:
    """Another client may send events of an hour ago."""
    for record in middle(copy.original, count=3):
        copy.change("observations", {"timestamp_ms": 1}, **record.at, kind=set(ALL_KINDS))
    with copy.document("run") as run:
        run["timestamps"] = None
    return passes()


@plant
def corrupt_timestamp_types(copy: Copy) -> Expected:
    """One batch has LogAppendTime, although the topic uses CreateTime."""
    (record,) = middle(copy.original)
    batches = copy.original.rows("batches", topic="plain", partition=0, control=None)
    batch = next(row for row in batches if row["base_offset"] <= record.offset <= row["last_offset"])
    first = next(r for r in records(copy.original, "plain", 0) if r.offset == batch["base_offset"])
    at = {"topic": "plain", "partition": 0, "base_offset": batch["base_offset"]}
    copy.change("batches", {"timestamp_type": "append"}, **at)
    return fails(of(Kind.CORRUPT, first))


# --- DeleteRecords ---


def _deleted(copy: Copy, before: int) -> None:
    with copy.document("run") as run:
        run["contract"]["topics"]["plain"]["delete_records"] = True
    with copy.document("steps") as steps:
        event = {"kind": "delete_records", "topic": "plain", "partition": 1, "before_offset": before}
        steps[-1]["events"].append(event | {"at_ns": steps[-1]["ended_ns"]})


@plant
def log_start_of_deleted_records(copy: Copy) -> Expected:
    """DeleteRecords was acknowledged, and every replica still has the records."""
    gone = records(copy.original, "plain", 1)[:5]
    before = gone[-1].offset + 1
    _deleted(copy, before)
    return fails([(Kind.LOG_START.value, "plain", 1, offset) for offset in range(before)], by_documents=True)


@plant
def near_log_start_of_deleted_records(copy: Copy) -> Expected:
    """Nothing had to be deleted: the log starts there already."""
    _deleted(copy, 0)
    return passes()


# --- doubts ---


@plant
def doubt_read_from_above_the_start(copy: Copy) -> Expected:
    """The read started above the log start, so missing records below it look deleted."""
    with copy.document("reads") as reads:
        for read in reads:
            if (read["kind"], read["topic"], read["partition"]) == ("replica", "plain", 0):
                read["start"] += 50
    return doubtful("read_late")


@plant
def doubt_read_to_below_the_end(copy: Copy) -> Expected:
    """The read of one copy claims to have reached its end, and the log is longer."""
    with copy.document("reads") as reads:
        read = next(r for r in reads if r["kind"] == "replica" and (r["topic"], r["partition"]) == ("plain", 0))
        read["target"] = read["position"] = read["target"] - 100
    return doubtful("read_short")


@plant
def doubt_steps_missing(copy: Copy) -> Expected:
    with copy.document("steps") as steps:
        steps.pop()
    return doubtful("steps_missing")


@plant
def doubt_contract_weaker_than_the_client(copy: Copy) -> Expected:
    """The client used acks=all, and the contract would excuse losses of acks=0."""
    with copy.document("run") as run:
        run["contract"]["producers"]["plain"]["acks"] = "0"
    return doubtful("contract_weaker")


@plant
def doubt_history_with_an_unknown_record(copy: Copy) -> Expected:
    """A committed record of the metadata log is of a type that the harness does not know."""
    with copy.document("history") as history:
        place = {name: history["changes"][-1][name] for name in ("time_ns", "controller_epoch", "from_snapshot")}
        unknown = {"type": "unknown", "frame": 1, "key": 999, "version": 0, "why": "no message has the number 999"}
        history["changes"].append(unknown | place | {"offset": history["end"]})
    return doubtful("history_unknown")


@plant
def doubt_history_with_a_gap(copy: Copy) -> Expected:
    """No node has kept some records of the metadata log."""
    _problem(copy, "missing_records")
    return doubtful("history_incomplete")


@plant
def near_doubt_history_with_a_damaged_file(copy: Copy) -> Expected:
    """The other nodes have every record up to the high watermark."""
    _problem(copy, "torn_end")
    return passes()


@plant
def metadata_divergence_of_two_logs(copy: Copy) -> Expected:
    _problem(copy, "conflict")
    diverges = (Kind.METADATA_DIVERGENCE.value, None, None, None)
    return fails([diverges], by_documents=True, doubts=["history_incomplete"])


@plant
def near_metadata_divergence_of_two_logs_on_a_damaged_disk(copy: Copy) -> Expected:
    _problem(copy, "conflict")
    damage_metadata(copy, 1, "the log")
    return doubtful("history_incomplete")


def _problem(copy: Copy, kind: str) -> None:
    with copy.document("history") as history:
        history["problems"].append({"kind": kind, "node": 1, "offset": 5, "detail": "planted"})


@plant
def doubt_transactions_without_an_end(copy: Copy) -> Expected:
    """No commit and no abort was acknowledged, so nothing was promised."""
    copy.change("transactions", {"outcome": "unknown"})
    return doubtful("no_transaction")


@plant
def doubt_commits_never_acknowledged(copy: Copy) -> Expected:
    copy.change("offset_commits", {"outcome": "unknown"}, group="readers")
    return doubtful("no_commit")


@plant
def doubt_reader_that_stopped(copy: Copy) -> Expected:
    """A live reader received nothing more of one partition, long before the end."""
    last = middle(copy.original)[0].offset
    stopped = {"reader": "uncommitted", "topic": "plain", "partition": 0}
    later = {row["offset"] for row in copy.original.rows("observations", **stopped) if row["offset"] > last}
    copy.drop("observations", **stopped, offset=later)
    return doubtful("reader_behind")


# --- evidence that was taken away, in a bundle that was sealed again ---


@plant
def doubt_row_of_a_transaction_taken_away(copy: Copy) -> Expected:
    """Its acknowledged records cease to be promised."""
    copy.contradicts = True
    copy.drop("transactions", txn_id=transaction(copy.original, "committed")[0][0].txn_id)
    return doubtful("evidence_differs")


@plant
def doubt_acknowledged_records_taken_away(copy: Copy) -> Expected:
    """The ledger calls the outcome of an acknowledged record unknown, so that nothing is promised of it."""
    copy.contradicts = True
    (record,) = middle(copy.original)
    copy.change("ledger", {"outcome": "unknown", "offset": None}, stream=record.stream, seq=record.seq)
    return doubtful("evidence_differs")


@plant
def doubt_lookups_taken_away(copy: Copy) -> Expected:
    copy.drop("lookups")
    copy.drop("epoch_ends")
    return doubtful("evidence_differs")


@plant
def doubt_probes_taken_away(copy: Copy) -> Expected:
    copy.drop("probes")
    copy.drop("observations", kind="probe")
    return doubtful("evidence_differs")


@plant
def doubt_replica_reads_taken_away(copy: Copy) -> Expected:
    """All reads of one copy, with what they returned."""
    at = {"kind": "replica", "replica": 2}
    copy.drop("observations", **at)
    with copy.document("reads") as reads:
        reads[:] = [read for read in reads if any(read[key] != value for key, value in at.items())]
    return doubtful("copy_not_read")


@plant
def doubt_fault_that_is_called_none(copy: Copy) -> Expected:
    copy.contradicts = True
    with copy.document("steps") as steps:
        next(step for step in steps if step["is_fault"]).update(is_fault=False, effect=None)
    return doubtful("evidence_differs")


@plant
def doubt_fault_that_was_not_healed(copy: Copy) -> Expected:
    copy.contradicts = True
    with copy.document("steps") as steps:
        next(step for step in steps if step["is_fault"])["healed_ns"] = None
    return doubtful("evidence_differs")


@plant
def doubt_step_outside_the_run(copy: Copy) -> Expected:
    copy.contradicts = True
    with copy.document("steps") as steps:
        step = next(step for step in steps if not step["is_fault"])
        for at in ("started_ns", "ended_ns"):
            step[at] += 10**12
    return doubtful("evidence_differs")


@plant
def doubt_broker_that_was_down(copy: Copy) -> Expected:
    with copy.document("cluster") as cluster:
        cluster["snapshots"][-1]["brokers_up"] = [1, 2]
    return doubtful("evidence_differs")


@plant
def doubt_history_of_another_hour(copy: Copy) -> Expected:
    """The metadata log was written an hour before the run, as its times say."""
    with copy.document("history") as history:
        for change in history["changes"]:
            change["time_ns"] -= _HOUR_MS * 10**6
    return doubtful("evidence_differs")


@plant
def doubt_floors_without_targets(copy: Copy) -> Expected:
    with copy.document("run") as run:
        run["targets"] = []
    return doubtful("evidence_differs")
