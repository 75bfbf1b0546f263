"""Plants in what live readers received of records that the log does not have any more, each with its near miss."""

from __future__ import annotations

from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Expected, Record, fails, of, passes
from suites.planted.of_compaction import clean, records_of_a_key
from suites.planted.plants import AFTER_HEALING, forget, last_partition, plant, record_of, transaction

MS = 10**6
DRAIN = "leader-committed"

# --- skipped_read of what retention deleted ---


@plant
def skipped_read_below_the_log_start(copy: Copy) -> Expected:
    """The only reader passed over records that retention deleted later."""
    skipped, _ = _skip_deleted(copy)
    return fails(of(Kind.SKIPPED_READ, *skipped))


@plant
def near_skipped_read_deleted_before(copy: Copy) -> Expected:
    """A step had seen the log start above them by then."""
    skipped, passed_ns = _skip_deleted(copy)
    place = {"topic": "sized", "partition": 0, "log_start": skipped[-1].offset + 1}
    with copy.document("steps") as steps:
        steps[0]["events"].append({"kind": "log_start_seen", **place, "at_ns": passed_ns})
    return passes()


@plant
def near_skipped_read_out_of_range(copy: Copy) -> Expected:
    """The reader's position was out of range, and it continued as a new session."""
    skipped, _ = _skip_deleted(copy)
    session = copy.next("observations", "session")
    later = {row["offset"] for row in _live(copy) if row["offset"] > skipped[-1].offset}
    copy.change("observations", {"session": session}, reader="committed", topic="sized", partition=0, offset=later)
    return passes()


@plant
def near_skipped_read_of_a_wrong_offset(copy: Copy) -> Expected:
    """Its client reported another offset for a record that the reader received; nothing is there that it must have."""
    skipped, _ = _skip_deleted(copy)
    for record in skipped:
        copy.change("ledger", {"outcome": "unknown", "offset": None}, **record.sent)
    first = min(_live(copy), key=lambda row: row["offset"])
    copy.change("ledger", {"offset": skipped[1].offset}, stream=first["stream"], seq=first["seq"])
    return passes()


def _live(copy: Copy) -> list[Row]:
    return copy.original.rows("observations", reader="committed", topic="sized", partition=0)


def _skip_deleted(copy: Copy) -> tuple[list[Record], int]:
    """The live reader did not receive three adjacent records of one stream below the log start. Returns them, and when
    it received the next one."""
    start = min(log["log_start"] for log in last_partition(copy.original.documents["cluster"], "sized", 0)["logs"])
    given = {row["offset"]: row["given_ns"] for row in _live(copy)}
    sent = copy.original.rows("ledger", topic="sized", partition=0, outcome="acked")
    rows = [record_of(row) for row in sent if row["offset"] < start and row["offset"] in given]
    for nth in range(len(rows) * 3 // 4, len(rows) - 5):
        run = rows[nth : nth + 5]
        if run[-1].offset - run[0].offset == 4 and len({record.stream for record in run}) == 1:
            skipped, after = run[1:4], run[4]
            copy.drop(
                "observations", reader="committed", topic="sized", partition=0, offset=[r.offset for r in skipped]
            )
            return skipped, given[after.offset]
    raise AssertionError("sized/0 has no five adjacent records below its log start")


# --- skipped_read of what compaction removed ---


@plant
def skipped_read_of_a_key_before_its_next_record(copy: Copy) -> Expected:
    """A reader passed over the first record of a key before the next one was sent, so no cleaner had removed it."""
    older = _compact(copy)
    _read_keys(copy, without=older[0], late_ns=0)
    return fails(of(Kind.SKIPPED_READ, older[0])).with_excused(of(Kind.LOST, *older))


@plant
def near_skipped_read_of_a_key_after_its_next_record(copy: Copy) -> Expected:
    older = _compact(copy)
    _read_keys(copy, without=older[0], late_ns=600 * 10**9)
    return passes(excused=of(Kind.LOST, *older))


def _compact(copy: Copy) -> list[Record]:
    """A cleaner removed all records of one key but the last one."""
    *older, _ = records_of_a_key(copy.original, deleted=False)
    forget(copy, *older)
    clean(copy, *older)
    return older


def _read_keys(copy: Copy, *, without: Record, late_ns: int) -> None:
    """One more live reader of the compacted topic: it received each record but one `late_ns` after its
    acknowledgement."""
    sent = {(row["stream"], row["seq"]): row["returned_ns"] for row in copy.original.rows("ledger", topic="keys")}
    rows = copy.original.rows("observations", topic="keys", partition=0, reader=DRAIN)
    session, previous, live = copy.next("observations", "session"), None, list[Row]()
    for row in rows:
        known_ns = sent.get((row["stream"], row["seq"]))
        if row["offset"] != without.offset and known_ns is not None:
            own = {"reader": "committed", "kind": "live", "replica": None, "session": session}
            own |= {"poll": len(live), "previous_offset": previous, "given_ns": known_ns + late_ns}
            live.append(row | own)
            previous = row["offset"]
    copy.add("observations", live)


# --- aborted_read of what was deleted ---


@plant
def aborted_read_below_the_log_start(copy: Copy) -> Expected:
    """A live reader had received a record of an aborted transaction, which was deleted later."""
    record = _delete_transaction(copy, "aborted")[0]
    rows = copy.original.rows("observations", topic="paid", partition=0, reader="committed")
    after = min((r for r in rows if r["offset"] > record.offset), key=lambda r: r["offset"])
    copy.add("observations", [after | {"offset": record.offset, **record.sent}])
    return fails(of(Kind.ABORTED_READ, record))


@plant
def near_aborted_read_of_a_deleted_transaction(copy: Copy) -> Expected:
    """Its outcome was not acknowledged, and live readers had received it before it was deleted."""
    gone = _delete_transaction(copy, "committed")
    copy.change("transactions", {"outcome": "unknown"}, txn_id=gone[0].txn_id)
    return passes()


def _delete_transaction(copy: Copy, outcome: str) -> list[Record]:
    """DeleteRecords up to the end of a transaction's records in paid/0, which are returned."""
    part = transaction(copy.original, outcome)[0]
    start, place = part[-1].offset + 1, {"topic": "paid", "partition": 0}
    with copy.document("cluster") as cluster:
        for log in last_partition(cluster, "paid", 0)["logs"]:
            log["log_start"] = start
    with copy.document("reads") as reads:
        for read in reads:
            if place.items() <= read.items():
                read["start"] = start
    with copy.document("steps") as steps:
        event = {"kind": "delete_records", **place, "at_ns": steps[-1]["ended_ns"], "before_offset": start}
        steps[-1]["events"].append(event)
    with copy.document("run") as run:
        run["contract"]["topics"]["paid"]["delete_records"] = True
    rows = copy.original.rows("observations", **place)
    below = {row["offset"] for row in rows if row["offset"] < start and row["kind"] in AFTER_HEALING}
    copy.drop("observations", kind=set(AFTER_HEALING), offset=below, **place)
    early = {row["offset"] for row in copy.original.rows("probes", **place) if row["offset"] < start}
    if early:
        copy.drop("probes", offset=early, **place)
    return part
