"""What live readers received, compared with the ledger where the log has no record any more."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.edits import contract, lose, sealed_by_other_client, start_at, taken
from suites.verify.history import MS, RC, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

LIVE: Final = ("live", "peek", "grouped")


def timed(built: Built, *, late_ns: int = 0) -> Built:
    """Each live reader received each record `late_ns` after it was sent."""
    for row in built.rows("observations", kind="live"):
        row["given_ns"] = row["timestamp_ms"] * MS + late_ns
    return built


def deleted(text: str, start: int, *, late_ns: int = 0) -> Built:
    """Retention deleted everything below `start` in the end; live readers had received it by then."""
    built = contract(History(text, name=f"{text} from {start}").build(start_at(start)), retention_bytes=100)
    return timed(built, late_ns=late_ns)


def without(built: Built, *offsets: int, readers: tuple[str, ...] = ("live",)) -> Built:
    """These readers did not receive the records."""
    for offset in offsets:
        for reader in readers:
            built.drop("observations", reader=reader, offset=offset)
    return built


def from_then_on(built: Built, offset: int, session: int, reader: str = "live") -> Built:
    """Another session of a reader begins there."""
    for row in built.rows("observations", reader=reader):
        row["session"] = session if row["offset"] >= offset else row["session"]
    return built


def with_start(built: Built, start: int, at_ns: int, kind: str = "log_start_seen") -> Built:
    """A step saw this log start, or deleted the records below it."""
    built.steps[0]["started_ns"] = built.steps[0]["ended_ns"] = at_ns
    column = "log_start" if kind == "log_start_seen" else "before_offset"
    return contract(built.event(kind, **{column: start, "at_ns": at_ns}), delete_records=kind == "delete_records")


def reset_by_its_client(built: Built) -> Built:
    """The client of the group's member decides where it continues."""
    member = {"reader": "grouped", "group": "g", "at_most_once": False, "reset": "earliest"}
    built.run["contract"]["readers"] = {"grouped": member}
    return built


def of_keys(*, tombstone: bool = False, late_ns: int = 0) -> Built:
    """Records 1 and 3 have one key, or record 1 is the tombstone of its key; a cleaner removed record 1 in the end, and
    one reader had not received it."""
    built = contract(History("AAAA..A/A").build(taken(1)), compacted=True, delete_retention_ms=1000)
    for row in built.tables["ledger"]:
        row["key_hash"] = 1 if row["seq"] == 3 and not tombstone else row["seq"]
        row["value"] = "null" if row["seq"] == 1 and tombstone else None
    (sent,) = built.rows("ledger", seq=1)
    own = {"offset": 1, "seq": 1, "timestamp_ms": sent["called_ns"] // MS}
    like = [row for row in built.rows("observations", offset=0) if row["reader"] in ("peek", "grouped")]
    built.tables["observations"] += [row | own for row in like]
    return timed(built, late_ns=late_ns)


def aborted(built: Built, offset: int, reader: str = "live") -> Built:
    """A read_committed reader was given a record that it should not have received."""
    return built.copy("observations", {"reader": reader, "isolation": RC}, reader="peek", offset=offset)


def named_wrongly(built: Built, seq: int, offset: int) -> Built:
    """The client reported another offset for a record than the record has."""
    return built.change("ledger", {"offset": offset}, seq=seq)


def unread(built: Built) -> Built:
    """There is no read after healing."""
    for kind in ("drain", "replica"):
        built.drop("observations", kind=kind)
    built.reads = []
    return sealed_by_other_client(built)


def replaced(log_end: int) -> Built:
    """An unclean election, which the contract permits, lost what some readers had received at offset 2; a marker is
    there now. Retention deleted everything later."""

    def edit(history: History) -> None:
        start_at(6)(history)
        lose(2)(history)

    built = contract(History("AAAA|AAA").build(edit), retention_bytes=100, unclean_election=True)
    (sent,) = built.rows("ledger", offset=2)
    own = {"offset": 2, "seq": sent["seq"], "timestamp_ms": sent["called_ns"] // MS}
    like = [row for row in built.rows("observations", offset=1) if row["reader"] in ("peek", "grouped")]
    built.tables["observations"] += [row | own for row in like]
    elected_ns = sent["returned_ns"] + MS // 4
    built.steps[0]["started_ns"] = elected_ns
    election = {"topic_id": "T", "leader": 2, "leader_epoch": 1, "log_end": log_end, "at_ns": elected_ns}
    return timed(built.event("unclean_election", **election))


# name -> (history, what condemns)
CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    # --- retention
    "every reader received everything": (deleted("AAAAAA", 4), []),
    "one reader passed over a record": (without(deleted("AAAAAA", 4), 1), ["skipped_read 1"]),
    "one reader passed over the last record that is deleted": (without(deleted("AAAAAA", 4), 3), ["skipped_read 1"]),
    "a member of a group passed over a record": (
        without(deleted("AAAAAA", 4), 2, readers=("grouped",)),
        ["skipped_read 1"],
    ),
    "every reader passed over a batch": (without(deleted("AAAAAAA", 5), 2, 3, readers=LIVE), ["skipped_read 2"]),
    "no reader received anything below a record": (without(deleted("AAAAAA", 4), 0, 1, 2, readers=LIVE), []),
    "one reader began later": (without(deleted("AAAAAA", 4), 0, 1), []),
    "one reader ended earlier": (without(deleted("AAAAAA", 4), 3, 4, 5), []),
    "a reader passed over everything up to the end": (without(deleted("AAAAAA", 5), 1, 2, 3, 4), ["skipped_read 4"]),
    "no reader says when it received a record": (
        without(deleted("AAAAAA", 4), 1).change("observations", {"given_ns": None}, kind="live"),
        [],
    ),
    "between two sessions": (from_then_on(without(deleted("AAAAAA", 4), 1), 2, session=1), []),
    "within the second session": (from_then_on(without(deleted("AAAAAA", 5), 3), 2, session=1), ["skipped_read 1"]),
    "the log was seen to start above it before": (
        with_start(without(deleted("AAAAAA", 4), 1), 2, START_NS + 3 * MS),
        [],
    ),
    "the log was seen to start above it later": (
        with_start(without(deleted("AAAAAA", 4), 1), 2, START_NS + 4 * MS),
        ["skipped_read 1"],
    ),
    "the log was seen to start below it before": (
        with_start(without(deleted("AAAAAA", 4), 1), 1, START_NS + 2 * MS),
        ["skipped_read 1"],
    ),
    "records were deleted on request before": (
        with_start(without(deleted("AAAAAA", 2), 1), 2, START_NS + 2 * MS, "delete_records"),
        [],
    ),
    "records were deleted on request later": (
        with_start(without(deleted("AAAAAA", 2), 1), 2, START_NS + 9 * MS, "delete_records"),
        ["skipped_read 1"],
    ),
    "the client decides where it continues": (
        reset_by_its_client(without(deleted("AAAAAA", 4), 2, readers=("grouped",))),
        [],
    ),
    "the client of another reader decides where it continues": (
        reset_by_its_client(without(deleted("AAAAAA", 4), 2)),
        ["skipped_read 1"],
    ),
    # --- transactions
    "read_committed does not receive an aborted record": (deleted("A[AA]AAA", 6), []),
    "read_uncommitted passed over an aborted record": (
        without(deleted("A[AA]AAA", 6), 1, readers=("peek",)),
        ["skipped_read 1"],
    ),
    "read_uncommitted passed over the last record before a marker": (
        without(deleted("A[AA]AAA", 6), 2, readers=("peek",)),
        [],  # nothing above it shows where it was
    ),
    "read_committed passed over a committed record": (without(deleted("A(AA)AAA", 6), 1), ["skipped_read 1"]),
    "read_committed passed over a record of an unknown transaction": (without(deleted("A{AA}AAA", 6), 1), []),
    "read_committed received an aborted record": (aborted(deleted("A[AA]AAA", 6), 1), ["aborted_read 1"]),
    "a member of a group received an aborted record": (
        aborted(deleted("A[AA]AAA", 6), 2, reader="grouped"),
        ["aborted_read 1"],
    ),
    "read_committed received a record of an unknown transaction": (aborted(deleted("A<AA>AAA", 6), 1), []),
    "the log was not read, and read_committed received an aborted record": (
        unread(aborted(timed(History("A[AA]AAA").build()), 1)),
        ["aborted_read 1"],
    ),
    # --- acknowledged offsets
    "an acknowledgement names the offset of a marker": (
        named_wrongly(deleted("A(A)AAAA", 6), 2, 2),
        [],
    ),
    "an acknowledgement names the offset of a marker, and no reader received the record": (
        without(named_wrongly(deleted("A(A)AAAA", 6), 2, 2), 3, readers=LIVE),
        [],
    ),
    "acknowledged without an offset": (without(deleted("AaAAAA", 4), 1), []),
    "acknowledged by the leader alone, and received by another reader": (
        without(timed(contract(History("AAAAAA", acks="1").build(start_at(4)), retention_bytes=100)), 1),
        ["skipped_read 1"],
    ),
    "acknowledged by the leader alone, and received by no reader": (
        without(timed(contract(History("AAAAAA", acks="1").build(start_at(4)), retention_bytes=100)), 1, readers=LIVE),
        [],
    ),
    # --- an unclean election before retention
    "lost in an election that the contract permits": (replaced(2), []),
    "below an election that the contract permits": (replaced(3), ["skipped_read 1"]),
    # --- compaction
    "passed over before the next record of its key": (of_keys(), ["skipped_read 1"]),
    "passed over after the next record of its key": (of_keys(late_ns=2 * MS), []),
    "passed over before its tombstone expired": (of_keys(tombstone=True, late_ns=900 * MS), ["skipped_read 1"]),
    "passed over after its tombstone expired": (of_keys(tombstone=True, late_ns=1100 * MS), []),
    # --- no read after healing
    "the log was not read": (unread(timed(History("AAAA").build())), []),
    "the log was not read, and a reader passed over a record": (
        without(unread(timed(History("AAAA").build())), 1),
        ["skipped_read 1"],
    ),
}
BATCH: Final = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_history_has_exactly_its_findings(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    assert reported(verdict) == CASES[name][1]
    assert not [doubt for doubt in verdict.doubts if doubt.name.startswith("check_failed")]
