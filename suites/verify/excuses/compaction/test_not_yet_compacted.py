"""Records that no cleaner can have removed although their key was written again; each with one that a cleaner can."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.edits import contract, hide, lose, taken
from suites.verify.history import RC, RU, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported
from suites.verify.metadata import Metadata


def keyed(built: Built) -> Built:
    """A compacted topic on which all records have the same key."""
    for row in built.tables["ledger"]:
        row["key_hash"] = 5
    return contract(built, compacted=True)


def without(built: Built, **batches: Any) -> Built:
    """Batches that are on no disk."""
    return built.drop("batches", **batches)


def hidden(isolation: str = RC) -> Built:
    """One of the two drains does not return the first record."""
    return keyed(History("AA/A").build()).drop("observations", kind="drain", isolation=isolation, offset=0)


def passed_over(offset: int = 1, *, text: str = "AAA/A") -> Built:
    """A live reader did not receive a record that all others received."""
    return keyed(History(text).build()).drop("observations", reader="live", offset=offset)


def rolled(built: Built, *brokers: int, at: int) -> Built:
    """On these copies another segment starts there."""
    for broker in brokers:
        for row in built.rows("batches", broker=broker):
            row["segment"] = at if row["base_offset"] >= at else row["segment"]
    return built


def with_leader_change(built: Built, *, clean: bool, partition: int = 0) -> Built:
    """A later leader is elected, in sync or not."""
    change = {"old_leader": 1, "new_leader": 2, "leader_epoch": 1, "clean": clean}
    return built.event("leader_change", **change, partition=partition)


def with_history(built: Built, metadata: Metadata) -> Built:
    built.metadata = metadata.history()
    return built


def with_step(built: Built, do: str, **args: str) -> Built:
    built.steps[0].update(do=do, args=args)
    return built


def overwritten(history: History) -> None:
    """The third record is at the offset of the second one, which both acknowledgements name."""
    log = history.logs[0]
    log[1].seq, log[2].stream = 2, -2
    history.ledger[2]["offset"] = 1


def wrongly_acknowledged(built: Built) -> Built:
    """The third record was acknowledged at the offset of the first one."""
    return built.change("ledger", {"offset": 0}, seq=2)


def written_again(built: Built) -> Built:
    """The first record was truncated, and a later leader wrote it again."""
    for kind in ("drain", "replica"):
        built.change("observations", {"leader_epoch": 1}, kind=kind, offset=0)
    return built


# name -> (history, what condemns, number of records that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    # --- one of the two drains shows it
    "hidden from one drain": (hidden(), ["lost 1"], 0),
    "hidden from every reader of its isolation": (keyed(History("AA/A").build(hide(0))), ["lost 1"], 0),
    "hidden from one drain, and on no disk": (without(hidden(), base_offset=0), [], 1),
    "hidden from one drain, and not on its disk": (without(hidden(), broker=1, base_offset=0), [], 1),
    "hidden from one drain, and not on another's disk": (without(hidden(), broker=2, base_offset=0), ["lost 1"], 0),
    "hidden from one drain, and no disk was read": (without(hidden(), count=1), ["lost 1"], 0),
    "hidden from one drain, in a batch with missing records": (
        hidden().change("batches", {"last_offset": 1}, base_offset=0).drop("batches", base_offset=1),
        [],
        1,
    ),
    "hidden from the other drain": (hidden(RU), ["skipped_read 1"], 0),
    "hidden from the other drain, and on no disk": (without(hidden(RU), base_offset=0), [], 1),
    # --- the active segment
    "in the only segment": (keyed(History("AAA").build(taken(0))), ["lost 1"], 0),
    "the first record of the last segment": (keyed(History("A/AA").build(taken(1))), ["lost 1"], 0),
    "the last record before the last segment": (keyed(History("AA/A").build(taken(1))), [], 1),
    "in the last segment but one": (keyed(History("A/A/A").build(taken(1))), [], 1),
    "in the only segment, and a follower's was closed": (rolled(keyed(History("AAA").build(taken(0))), 3, at=1), [], 1),
    "in the only segment, and one disk was not read": (without(keyed(History("AAA").build(taken(0))), broker=3), [], 1),
    "in the only segment, and no disk was read": (without(keyed(History("AAA").build(taken(0))), count=1), [], 1),
    "in the only segment, of rebuilt copies": (with_step(keyed(History("AAA").build(taken(0))), "damage"), [], 1),
    "in the only segment, and a disk became read-only": (
        with_step(keyed(History("AAA").build(taken(0))), "disk_read_only"),
        [],
        1,
    ),
    "in the only segment, and a disk was full": (
        with_step(keyed(History("AAA").build(taken(0))), "disk_filled"),
        ["lost 1"],
        0,
    ),
    "in the only segment, and a replica was set aside as stray": (
        with_step(keyed(History("AAA").build(taken(0))), "damage_metadata", what="partition_metadata"),
        [],
        1,
    ),
    "in the only segment, and the metadata log was damaged": (
        with_step(keyed(History("AAA").build(taken(0))), "damage_metadata", what="log_flip"),
        ["lost 1"],
        0,
    ),
    "in the only segment, and one out of sync led": (
        with_leader_change(keyed(History("AA|A").build(taken(0))), clean=False),
        [],
        1,
    ),
    "in the only segment, and one out of sync led before": (
        with_leader_change(keyed(History("A|AA").build(taken(1))), clean=False),
        ["lost 1"],
        0,
    ),
    "in the only segment, and one in sync led": (
        with_leader_change(keyed(History("AA|A").build(taken(0))), clean=True),
        ["lost 1"],
        0,
    ),
    "in the only segment, and one out of sync led elsewhere": (
        with_leader_change(keyed(History("AA|A", "A").build(taken(0))), clean=False, partition=1),
        ["lost 1"],
        0,
    ),
    "in the only segment, and in a history one out of sync led": (
        with_history(
            keyed(History("AA|A").build(taken(0))), Metadata().in_sync(START_NS, 1).led(2, START_NS, isr=(2,))
        ),
        ["unclean_election 1"],
        1,
    ),
    "in the only segment, and in a history one in sync led": (
        with_history(keyed(History("AA|A").build(taken(0))), Metadata().led(2, START_NS, isr=(2,))),
        ["lost 1"],
        0,
    ),
    "in the only segment, and in a history one out of sync led a deleted topic": (
        with_history(
            keyed(History("AA|A").build(taken(0))),
            Metadata(topic_id="Old").in_sync(START_NS, 1).led(2, START_NS, isr=(2,)),
        ),
        ["lost 1", "unclean_election 1"],
        0,
    ),
    # --- another record at its offset
    "another record at its offset": (keyed(History("AAA/A").build(overwritten)), ["lost 1"], 0),
    "another record at its wrongly acknowledged offset": (
        wrongly_acknowledged(keyed(History("AAA/A").build(taken(2)))),
        [],
        1,
    ),
    "a marker at its offset": (keyed(History("AA/A").build(lose(0))), ["lost 1"], 0),
    "an older marker at its wrongly acknowledged offset": (
        keyed(History("AA/A").build(lose(0))).change("batches", {"max_timestamp_ms": 0}, base_offset=0),
        [],
        1,
    ),
    "written again at its offset": (written_again(keyed(History("AA/A").build())), ["vanished 1"], 0),
    # --- complete on every disk
    "one reader passed over it": (passed_over(), ["skipped_read 1"], 0),
    "one reader passed over it, and one disk lacks it": (without(passed_over(), broker=3, base_offset=1), [], 1),
    "one reader passed over it, and one disk was not read": (without(passed_over(), broker=3), [], 1),
    "one reader passed over it, of rebuilt copies": (with_step(passed_over(), "reassign"), [], 1),
    "one reader passed over it in the active segment": (
        without(passed_over(2, text="AA/AA"), broker=3, base_offset=2),
        ["skipped_read 1"],
        0,
    ),
    "both drains passed over a record that is on their disk": (
        keyed(History("AA/A").build()).drop("observations", kind="drain", offset=0),
        ["lost 1"],
        0,
    ),
}

BATCH = HistoryBatch(history for history, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_compaction_excuses_only_records_that_it_can_have_removed(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    _, condemning, excused = CASES[name]
    assert reported(verdict) == condemning
    assert sum(f.count for f in verdict.findings if f.excused_by) == excused
