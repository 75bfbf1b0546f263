"""Answers of leaders about times and leader epochs, compared with the log."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.edits import contract
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

# Offset 4 is the marker, of the sixth millisecond; nothing was written in the third.
TEXT: Final = "AA(AA)AA"
HONEST: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 6: 4, 7: 5, 8: 6, 9: None}
WRITTEN_MS: Final = {0: 1, 1: 2, 2: 4, 3: 5, 4: 6, 5: 7, 6: 8}


def asked(answers: Mapping[int, int | None] = MappingProxyType({}), **more: Any) -> Built:
    """A correct leader's answer about each millisecond, except for these; `more` is part of every row."""
    history = History(TEXT).build()
    for ms, offset in {**HONEST, **answers}.items():
        at_ms = None if offset is None else START_NS // MS + WRITTEN_MS[offset]
        row = {"topic": "t", "topic_id": "T", "partition": 0, "time_ms": START_NS // MS + ms, "asked_ns": START_NS}
        row |= {"offset": offset, "timestamp_ms": at_ms, "leader_epoch": 0, "error": None}
        history.tables["lookups"].append(row | more)
    return history


CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    "correct answers": (asked(), []),
    "the record after the marker instead of the marker": (asked({6: 5}), []),
    "a later record": (asked({2: 2}), ["offset_lookup 1"]),
    "the record after a marker instead of the one before": (asked({5: 5}), ["offset_lookup 1"]),
    "no record": (asked({7: None}), ["offset_lookup 1"]),
    "an older record": (asked({5: 2}), ["offset_lookup 1"]),
    "a record where there is none": (asked({9: 6}), ["offset_lookup 1"]),
    "two wrong answers": (asked({2: 2, 5: 5}), ["offset_lookup 1", "offset_lookup 1"]),
    "one wrong answer to two requests": (asked({3: 3, 4: 3}), ["offset_lookup 1"]),
    "another timestamp": (
        asked().change("lookups", {"timestamp_ms": START_NS // MS}, time_ms=START_NS // MS + 2),
        ["offset_lookup 1"],
    ),
    "retention may have deleted it": (contract(asked({0: 3}), retention_bytes=300), []),
    "no request": (History(TEXT).build(), []),
}


BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_wrong_answer_about_a_time_is_found_and_nothing_else(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts
    assert any(said.startswith("offset lookups by time or epoch on topics that") for said in verdict.not_covered)


def test_a_finding_reports_the_request_and_the_answer(judged: dict[str, Verdict]) -> None:
    (late,), (none,), (early,) = (judged[name].findings for name in ("a later record", "no record", "an older record"))
    assert late.detail == "it is the first record of the requested time or later, and the leader answered offset 2"
    assert late.offset_first == 1
    assert none.detail == (
        "it is the first record of the requested time or later, and the leader answered that there is none"
    )
    assert early.detail == (
        f"the leader answered with it, and it is older than the requested time, timestamp {START_NS // MS + 5} ms"
    )
    assert early.offset_first == 2


# Offsets 0 to 2 are of epoch 0, 3 of epoch 1, and 4 to 6 of epoch 2; 5 is a marker.
LINE: Final = "AAA|A|(A)A"
ENDS: Final = {0: (0, 3), 1: (1, 4), 2: (2, 7)}


def epochs(answers: Mapping[int, tuple[int, int] | None] = MappingProxyType({})) -> Built:
    """A correct leader's answer about each epoch, except for these."""
    history = History(LINE).build()
    for epoch, answer in {**ENDS, **answers}.items():
        row = {"topic": "t", "topic_id": "T", "partition": 0, "epoch": epoch, "asked_ns": START_NS, "error": None}
        row |= {"reported_epoch": answer and answer[0], "end_offset": answer and answer[1]}
        history.tables["epoch_ends"].append(row)
    return history


EPOCHS: Final[dict[str, tuple[Built, list[str]]]] = {
    "correct answers": (epochs(), []),
    "an epoch without records": (epochs({3: (2, 7)}), []),
    "an unknown epoch without records": (epochs({3: None}), []),
    "an epoch that ends too early": (epochs({0: (0, 2)}), ["epoch_lookup 1"]),
    "the last epoch ends too early": (epochs({2: (2, 6)}), ["epoch_lookup 1"]),
    "an epoch that ends too late": (epochs({0: (0, 4)}), ["epoch_lookup 1"]),
    "an older epoch instead": (epochs({1: (0, 3)}), ["epoch_lookup 1"]),
    "no epoch": (epochs({0: None}), ["epoch_lookup 1"]),
    "no epoch, and there were two up to it": (epochs({1: None}), ["epoch_lookup 1", "epoch_lookup 1"]),
    "two wrong answers about adjacent epochs": (epochs({0: (0, 2), 1: (1, 3)}), ["epoch_lookup 2"]),
    "retention may have deleted it": (contract(epochs({0: (0, 2)}), retention_bytes=300), []),
}


EPOCHS_BATCH = HistoryBatch(history for history, _ in EPOCHS.values())


@pytest.fixture(scope="module")
def judged_epochs(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(EPOCHS, EPOCHS_BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", EPOCHS)
def test_each_wrong_answer_about_an_epoch_is_found_and_nothing_else(
    name: str, judged_epochs: dict[str, Verdict]
) -> None:
    verdict, expected = judged_epochs[name], EPOCHS[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


def test_a_finding_names_the_record_that_contradicts_the_answer(judged_epochs: dict[str, Verdict]) -> None:
    names = ("an epoch that ends too early", "an epoch that ends too late", "an older epoch instead", "no epoch")
    (short,), (beyond,), (older,), (none,) = (judged_epochs[name].findings for name in names)
    assert (short.offset_first, beyond.offset_first, older.offset_first, none.offset_first) == (2, 3, 3, 0)
    assert short.detail == "the leader answered that the epoch of this record ended before it, at offset 2"
    assert beyond.detail == "the leader answered that an earlier epoch ended after this record, at offset 4"
    assert older.detail == "the record has leader epoch 1; the leader was asked for it and named an older epoch"
    assert none.detail == "the record has leader epoch 0; the leader was asked for it and named no epoch"


UNANSWERED = HistoryBatch([asked(offset=None, timestamp_ms=None, error="NOT_LEADER_OR_FOLLOWER")])


def test_lookups_without_an_answer_are_a_doubt(spark: SparkSession) -> None:
    (verdict,) = UNANSWERED.verdicts(spark)
    assert verdict.status is Status.INCONCLUSIVE
    (doubt,) = verdict.doubts
    assert doubt.text == "10 requests for offsets of t/0 by time or epoch failed: NOT_LEADER_OR_FOLLOWER"
