"""What leaders answer about times and epochs, against what was read: only what the log has not so is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.edits import contract
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import Entered, reported

# Offset 4 is the marker, of the sixth millisecond; nothing was written in the third.
TEXT: Final = "AA(AA)AA"
HONEST: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 6: 4, 7: 5, 8: 6, 9: None}
WRITTEN_MS: Final = {0: 1, 1: 2, 2: 4, 3: 5, 4: 6, 5: 7, 6: 8}


def asked(answers: Mapping[int, int | None] = MappingProxyType({}), **more: Any) -> Built:
    """What an honest leader answers about each millisecond, but for these; `more` is of every row."""
    history = History(TEXT).build()
    for ms, offset in {**HONEST, **answers}.items():
        at_ms = None if offset is None else START_NS // MS + WRITTEN_MS[offset]
        row = {"topic": "t", "topic_id": "T", "partition": 0, "time_ms": START_NS // MS + ms, "asked_ns": START_NS}
        row |= {"offset": offset, "timestamp_ms": at_ms, "leader_epoch": 0, "error": None}
        history.tables["lookups"].append(row | more)
    return history


CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    "as it is": (asked(), []),
    "the marker is gone by": (asked({6: 5}), []),
    "a later one": (asked({2: 2}), ["offset_lookup 1"]),
    "one of after a marker": (asked({5: 5}), ["offset_lookup 1"]),
    "none": (asked({7: None}), ["offset_lookup 1"]),
    "an older one": (asked({5: 2}), ["offset_lookup 1"]),
    "one where there is none": (asked({9: 6}), ["offset_lookup 1"]),
    "two that are wrong": (asked({2: 2, 5: 5}), ["offset_lookup 1", "offset_lookup 1"]),
    "one wrong answer to several questions": (asked({3: 3, 4: 3}), ["offset_lookup 1"]),
    "with another time": (
        asked().change("lookups", {"timestamp_ms": START_NS // MS}, time_ms=START_NS // MS + 2),
        ["offset_lookup 1"],
    ),
    "retention may have taken it": (contract(asked({0: 3}), retention_bytes=300), []),
    "nobody asked": (History(TEXT).build(), []),
}


ENTERED = Entered(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_wrong_answer_is_named_and_nothing_else(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts
    assert any(
        said.startswith("answers of leaders about times and epochs, of topics that") for said in verdict.not_covered
    )


def test_a_finding_says_what_was_asked_and_what_was_answered(judged: dict[str, Verdict]) -> None:
    (late,), (none,), (early,) = (judged[name].findings for name in ("a later one", "none", "an older one"))
    assert late.detail == "the first of its time or later, and the leader, asked for that, names offset 2"
    assert late.offset_first == 1
    assert none.detail == "the first of its time or later, and the leader, asked for that, says there is none"
    assert early.detail == f"of before the time that the leader names it for, time {START_NS // MS + 5} ms"
    assert early.offset_first == 2


# Offsets 0 to 2 are of epoch 0, 3 of epoch 1, and 4 to 6 of epoch 2; 5 is a marker.
LINE: Final = "AAA|A|(A)A"
ENDS: Final = {0: (0, 3), 1: (1, 4), 2: (2, 7)}


def epochs(answers: Mapping[int, tuple[int, int] | None] = MappingProxyType({})) -> Built:
    """What an honest leader answers about each epoch, but for these."""
    history = History(LINE).build()
    for epoch, told_ in {**ENDS, **answers}.items():
        row = {"topic": "t", "topic_id": "T", "partition": 0, "epoch": epoch, "asked_ns": START_NS, "error": None}
        row |= {"reported_epoch": told_ and told_[0], "end_offset": told_ and told_[1]}
        history.tables["epoch_ends"].append(row)
    return history


EPOCHS: Final[dict[str, tuple[Built, list[str]]]] = {
    "as it is": (epochs(), []),
    "one that nothing was written in": (epochs({3: (2, 7)}), []),
    "one that is not known, of which nothing is": (epochs({3: None}), []),
    "one that ends too soon": (epochs({0: (0, 2)}), ["epoch_lookup 1"]),
    "the last one ends too soon": (epochs({2: (2, 6)}), ["epoch_lookup 1"]),
    "one that goes too far": (epochs({0: (0, 4)}), ["epoch_lookup 1"]),
    "an older one in its place": (epochs({1: (0, 3)}), ["epoch_lookup 1"]),
    "none": (epochs({0: None}), ["epoch_lookup 1"]),
    "none of all that there was up to it": (epochs({1: None}), ["epoch_lookup 1", "epoch_lookup 1"]),
    "two that are wrong, side by side": (epochs({0: (0, 2), 1: (1, 3)}), ["epoch_lookup 2"]),
    "retention may have taken it": (contract(epochs({0: (0, 2)}), retention_bytes=300), []),
}


EPOCHS_ENTERED = Entered(history for history, _ in EPOCHS.values())


@pytest.fixture(scope="module")
def judged_epochs(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(EPOCHS, EPOCHS_ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", EPOCHS)
def test_each_wrong_end_of_an_epoch_is_named_and_nothing_else(name: str, judged_epochs: dict[str, Verdict]) -> None:
    verdict, expected = judged_epochs[name], EPOCHS[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


def test_a_finding_says_which_record_speaks_against_it(judged_epochs: dict[str, Verdict]) -> None:
    names = ("one that ends too soon", "one that goes too far", "an older one in its place", "none")
    (short,), (beyond,), (older,), (none,) = (judged_epochs[name].findings for name in names)
    assert (short.offset_first, beyond.offset_first, older.offset_first, none.offset_first) == (2, 3, 3, 0)
    assert short.detail == "the leader says that its epoch ended before it, at offset 2"
    assert beyond.detail == "of a later leader epoch than the one that ended, as the leader says, behind it at offset 4"
    assert older.detail == "of leader epoch 1, of which the leader knows nothing when it is asked for that"
    assert none.detail == "of leader epoch 0, and the leader, asked for that, says there is none"


UNANSWERED = Entered([asked(offset=None, timestamp_ms=None, error="NOT_LEADER_OR_FOLLOWER")])


def test_no_answer_is_a_doubt(spark: SparkSession) -> None:
    (verdict,) = UNANSWERED.verdicts(spark)
    assert verdict.status is Status.INCONCLUSIVE
    (doubt,) = verdict.doubts
    assert doubt.text == "10 questions about offsets of t/0 had no answer: NOT_LEADER_OR_FOLLOWER"
