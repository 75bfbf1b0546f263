"""Reads compared with themselves: one record at each offset, each offset once, and offsets in order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from harness.evidence import Bundle
from harness.evidence.seal import seal_directory
from harness.model.doubt_names import DoubtName
from harness.model.errors import BadEvidence
from harness.model.verdict import Verdict
from harness.verify.engine.case import case_of
from suites.unit.evidence_examples import write_example
from suites.verify.edits import contract, sealed_by_other_client, start_at
from suites.verify.history import RC, RU, Built, History
from suites.verify.judging import HistoryBatch, reported


def built(text: str) -> Built:
    return History(text).build()


def in_all_reads(history: Built, to: dict[str, object], offset: int) -> Built:
    """Every reader receives one more record there, after the other one."""
    return history.copy("observations", to, offset=offset)


def given(text: str, *polls: Sequence[int], ordered: bool = True, reader: str = "live", **more: object) -> Built:
    """One reader received these offsets in one session, by poll and in this order, which may be unknown in a poll."""
    history = built(text)
    there = {row["offset"]: row for row in history.rows("observations", reader=reader)}
    history.drop("observations", reader=reader)
    previous: int | None = None
    for number, offsets in enumerate(polls):
        for offset in offsets:
            row = there[offset] | {"poll": number, "previous_offset": previous if ordered else None} | more
            history.tables["observations"].append(row)
            previous = offset
    return history


def later_session(history: Built, *offsets: int, reader: str = "live", session: int = 1) -> Built:
    """The reader goes back, as a new session."""
    previous: int | None = None
    for offset in offsets:
        new = {"session": session, "poll": 9, "previous_offset": previous}
        history.copy("observations", new, reader=reader, offset=offset, session=0)
        previous = offset
    return history


def of_a_share_group(history: Built) -> Built:
    """The reader is a member of a share group."""
    history.run["contract"]["shares"] = {"g": {"group": "g", "topics": ["t"], "isolation": RC, "limit": 5}}
    place = {"group": "g", "reader": "live", "topic": "t", "topic_id": "T", "partition": 0}
    answer = {"count": 1, "answer": "accept", "outcome": "acked", "error": None, "given_ns": 1, "returned_ns": 2}
    history.tables["deliveries"] += [place | answer | {"offset": offset} for offset in range(4)]
    return history


def only_after_healing(history: Built) -> Built:
    """No live reader, and no read of a replica."""
    for kind in ("live", "replica"):
        history.drop("observations", kind=kind)
    history.reads = [row for row in history.reads if row["kind"] != "replica"]
    return sealed_by_other_client(history)


def deleted_between_drains() -> Built:
    """The first of two drains read records that retention deleted before the second one, which is the drain."""
    history = contract(History("AAAA").build(start_at(2)), retention_bytes=200)
    whole = built("AAAA").rows("observations", reader="leader-committed")
    history.tables["observations"] += [row | {"reader": "first"} for row in whole]
    (row,) = [row for row in history.reads if row["reader"] == "leader-committed"]
    history.reads.insert(0, row | {"reader": "first", "start": 0})
    return history


def read_twice(history: Built, isolation: str = RC, name: str = "first", position: int | None = None) -> Built:
    """One more read of the leader after healing, before the one that is there; it may have stopped earlier."""
    where = {"kind": "drain", "isolation": isolation}
    (row,) = [row for row in history.reads if where.items() <= row.items()]
    history.copy("observations", {"reader": name}, **where)
    early = {} if position is None else {"position": position, "target": position}
    history.reads.insert(0, row | {"reader": name} | early)
    return history


def unlisted(history: Built, isolation: str = RC) -> Built:
    """reads.json lacks the first read with this isolation."""
    history.reads = [row for row in history.reads if (row["reader"], row["isolation"]) != ("first", isolation)]
    return history


# name -> (history, what condemns)
CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    # --- two records at one offset
    "every read has two records at one offset": (
        in_all_reads(built("AAuA"), {"seq": 2}, 1),
        ["conflicting 1"],
    ),
    "one drain alone has two records at one offset": (
        built("AAuA").copy("observations", {"seq": 2}, reader="leader-committed", offset=1),
        ["conflicting 1"],
    ),
    "a replica alone has two records at one offset": (
        built("AAuA").copy("observations", {"seq": 2}, reader="replica-2-committed", offset=1),
        ["conflicting 1"],
    ),
    "a live reader alone has two records at one offset": (
        built("AAuA").copy("observations", {"seq": 2}, reader="live", offset=1),
        ["conflicting 1"],
    ),
    "two sessions of a drain have different records at one offset": (
        in_all_reads(built("AAuA"), {"seq": 2, "session": 1}, 1),
        ["conflicting 1"],
    ),
    "two sessions of a drain have the same records": (
        in_all_reads(built("AAuA"), {"session": 1}, 1),
        [],
    ),
    "one record at two offsets in one drain": (
        built("A(A)A").copy("observations", {"offset": 2}, reader="leader-committed", offset=1),
        ["duplicated 1"],
    ),
    # --- several reads of one leader after healing
    "two drains are equal": (read_twice(built("AA(AA)[A]A")), []),
    "two drains of each isolation are equal": (
        read_twice(read_twice(built("AA(AA)[A]A")), RU, "second"),
        [],
    ),
    "a drain lacks an acknowledged record that an earlier one has": (
        read_twice(built("AAAA")).drop("observations", reader="leader-committed", offset=1),
        ["lost 1"],
    ),
    "a drain lacks a record of unknown outcome that an earlier one has": (
        only_after_healing(read_twice(built("AAUA"))).drop("observations", reader="leader-committed", offset=2),
        ["vanished 1"],
    ),
    "an earlier drain lacks a record": (
        read_twice(built("AAAA")).drop("observations", reader="first", offset=1),
        ["skipped_read 1"],
    ),
    "an earlier drain lacks the last records": (
        read_twice(built("AAAA")).drop("observations", reader="first", offset=3),
        ["skipped_read 1"],
    ),
    "an earlier drain lacks everything": (
        read_twice(built("AAAA")).drop("observations", reader="first"),
        ["skipped_read 4"],
    ),
    "an earlier drain ended before the last records": (
        read_twice(built("AAAA"), position=2)
        .drop("observations", reader="first", offset=2)
        .drop("observations", reader="first", offset=3),
        [],
    ),
    "two drains have different records at one offset": (
        only_after_healing(read_twice(built("AAUA"))).change("observations", {"seq": 9}, reader="first", offset=2),
        ["conflicting 1"],
    ),
    "an earlier drain shows an aborted record": (
        read_twice(built("A[AA]A")).copy(
            "observations", {"reader": "first", "isolation": RC}, reader="leader-uncommitted", offset=1
        ),
        ["aborted_read 1"],
    ),
    "an earlier drain has a record in a batch of another leader": (
        read_twice(built("AAAA")).change("observations", {"leader_epoch": 7}, reader="first", offset=2),
        ["vanished 1"],
    ),
    "retention deleted records between two drains": (deleted_between_drains(), []),
    # --- an offset twice
    "every read has a record twice": (in_all_reads(built("AAAA"), {}, 1), ["reread 1"]),
    "the drain has a batch twice": (
        built("AAAA")
        .copy("observations", {}, reader="leader-committed", offset=1)
        .copy("observations", {}, reader="leader-committed", offset=2),
        ["reread 2"],
    ),
    "a replica's read has a record twice": (
        built("AAAA").copy("observations", {}, reader="replica-3-uncommitted", offset=0),
        ["reread 1"],
    ),
    "a record twice, and another one not at all": (
        built("AAAA").drop("observations", reader="live", offset=2).copy("observations", {}, reader="live", offset=1),
        ["reread 1", "skipped_read 1"],
    ),
    "a record in a later poll again": (given("AAAA", (0, 1), (1, 2, 3), ordered=False), ["reread 1"]),
    "a record in the same poll again": (given("AAAA", (0, 1, 1, 2, 3)), ["reread 1"]),
    # --- order
    "records in order": (given("AA(AA)A", (0, 1), (2, 3, 5)), []),
    "a poll after a later one": (given("AAAA", (2, 3), (0, 1), ordered=False), ["reread 2"]),
    "a gap that a later poll makes good": (given("AAAA", (0, 2), (1,), (3,), ordered=False), ["reread 1"]),
    "a gap that the same poll makes good": (given("AAAA", (0, 2, 1, 3)), ["reread 1"]),
    "two steps back in one poll": (given("AAAAAA", (1, 0, 3, 2, 4, 5)), ["reread 1", "reread 1"]),
    "a step back between polls, far below": (given("AAAAAA", (0, 1, 4, 5), (2, 3)), ["reread 2"]),
    "a step back, where polls have wrong numbers": (given("AAAA", (2, 3, 0, 1), poll=5), ["reread 1"]),
    "a wrong order of polls, where previous offsets say otherwise": (
        given("AAAA", (0, 1), (2, 3)).change("observations", {"poll": -1}, reader="live", offset=3),
        ["reread 3"],
    ),
    "the order within a poll is unknown": (given("AAAA", (3, 1, 2, 0), ordered=False), []),
    "an earlier offset in a new session": (later_session(given("AAAA", (0, 1), (2, 3)), 1, 2, 3), []),
    "a step back in a new session": (later_session(given("AAAA", (0, 1), (2, 3)), 2, 1, 3), ["reread 1"]),
    "an earlier offset in a new session of an older poll": (
        later_session(given("AAAA", (0, 1), (2, 3)), 1, 2).change("observations", {"poll": 0}, session=1),
        [],
    ),
    "a member of a share group gets records in any order, and again": (
        of_a_share_group(given("AAAA", (0, 2, 1, 1), (0, 3))),
        [],
    ),
    "a member of a share group gets two records at one offset": (
        of_a_share_group(given("AAuA", (0, 1), (2,)).copy("observations", {"seq": 2}, reader="live", offset=1)),
        ["conflicting 1"],
    ),
    "both isolations have an offset once each": (given("AAAA", (0, 1), (2, 3), isolation=RU), []),
    "the drain's polls go back": (given("AAAA", (2, 3), (0, 1), reader="leader-committed"), ["reread 2"]),
}
BATCH: Final = HistoryBatch(history for history, _ in CASES.values())
UNLISTED: Final = {
    "every read is listed": (read_twice(built("AAAA")), []),
    "a read of a leader is not listed": (unlisted(read_twice(built("AAAA"))), ["first of t/0, read_committed"]),
    "a read with another isolation is listed": (
        unlisted(read_twice(read_twice(built("AAAA")), RU), RU),
        ["first of t/0, read_uncommitted"],
    ),
}
UNLISTED_BATCH: Final = HistoryBatch(history for history, _ in UNLISTED.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_history_has_exactly_its_findings(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    assert reported(verdict) == CASES[name][1]
    assert not [doubt for doubt in verdict.doubts if doubt.name.startswith("check_failed")]


@pytest.mark.parametrize("name", UNLISTED)
def test_a_read_of_a_leader_that_is_not_listed_is_a_doubt(name: str, spark: SparkSession) -> None:
    verdict = dict(zip(UNLISTED, UNLISTED_BATCH.verdicts(spark), strict=True))[name]
    doubts = [doubt.text for doubt in verdict.doubts if doubt.name == DoubtName.UNLISTED_READ]
    assert (reported(verdict), doubts) == (
        [],
        [f"reads.json does not list the read {read}" for read in UNLISTED[name][1]],
    )


def test_two_reads_of_one_name_are_refused(tmp_path: Path) -> None:
    """Nothing tells their records apart."""
    write_example(tmp_path)
    reads = json.loads((tmp_path / "reads.json").read_text())
    (tmp_path / "reads.json").write_text(json.dumps([*reads, reads[0]]))
    seal_directory(tmp_path)
    with pytest.raises(BadEvidence, match=r"reads\.json has two reads drain of orders/0; give each a name"):
        case_of(Bundle.open(tmp_path))
