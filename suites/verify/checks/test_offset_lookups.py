"""Answers of leaders about times and leader epochs, compared with the log."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from harness.model.schemas import EARLIEST, MAX_TIMESTAMP
from harness.model.verdict import Status, Verdict
from suites.verify.edits import Edit, contract, start_at
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported
from suites.verify.metadata import Metadata

# Offset 4 is the marker, of the sixth millisecond; nothing was written in the third.
TEXT: Final = "AA(AA)AA"
HONEST: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 6: 4, 7: 5, 8: 6, 9: None, EARLIEST: 0, MAX_TIMESTAMP: 6}
WRITTEN_MS: Final = {0: 1, 1: 2, 2: 4, 3: 5, 4: 6, 5: 7, 6: 8}


def asked(answers: Mapping[int, int | None] = MappingProxyType({}), edit: Edit | None = None, **more: Any) -> Built:
    """A correct leader's answer about each millisecond, except for these; `more` is part of every row."""
    history = History(TEXT).build(edit)
    for ms, offset in {**HONEST, **answers}.items():
        at_ms = None if offset is None or ms == EARLIEST else START_NS // MS + WRITTEN_MS[offset]
        time_ms = ms if ms < 0 else START_NS // MS + ms
        row = {"topic": "t", "topic_id": "T", "partition": 0, "time_ms": time_ms, "asked_ns": START_NS}
        row |= {"offset": offset, "timestamp_ms": at_ms, "leader_epoch": 0, "error": None}
        history.tables["lookups"].append(row | more)
    return history


def unordered(answers: Mapping[int, int | None] = MappingProxyType({})) -> Built:
    """The second record has the latest time, that of the ninth millisecond."""
    honest: dict[int, int | None] = dict.fromkeys((*range(2, 10), MAX_TIMESTAMP), 1)
    history, latest = asked({**honest, **answers}), {"timestamp_ms": START_NS // MS + 9}
    history.change("observations", latest, offset=1).change("lookups", latest, offset=1)
    return history.change("batches", {"max_timestamp_ms": START_NS // MS + 9}, base_offset=1)


def behind(ms: int, history: Built | None = None) -> Built:
    """For a time for which the log has no record, the leader names the log end with that time."""
    named = {"offset": 7, "timestamp_ms": START_NS // MS + 9}
    return (history or asked()).change("lookups", named, time_ms=ms if ms < 0 else START_NS // MS + ms)


def after_none(history: Built) -> Built:
    """The leader was asked the same before, and named none."""
    row = next(row for row in history.tables["lookups"] if row["offset"] == 7)
    history.tables["lookups"].insert(0, row | {"offset": None, "timestamp_ms": None})
    return history


def ending(high: int, stable: int, *, healed: int | None = None, isr: tuple[int, ...] = (1, 2, 3)) -> Built:
    """What the leader names as the end of the log, which is 7, at both looks, or at the earlier one `healed`."""
    history = asked()
    (row,) = history.drained["partitions"]
    row |= {"high_watermark": high, "last_stable_offset": stable, "isr": list(isr)}
    earlier = row if healed is None else row | {"high_watermark": healed}
    history.cluster["snapshots"].insert(1, history.drained | {"phase": "healed", "partitions": [earlier]})
    return history


FROM_3: Final[dict[int, int | None]] = {0: 3, 1: 3, 2: 3, 3: 3, 4: 3, EARLIEST: 3}
# What is asked, the answers, and the findings.
SHORT_LOGS: Final[list[tuple[str, dict[int, int | None], list[str]]]] = [
    ("correct answers", {}, []),
    ("a deleted record", {0: 0}, []),
    ("a later record", {6: 6}, ["offset_lookup 1"]),
    ("no record", {7: None}, ["offset_lookup 1"]),
    ("an older record", {7: 3}, ["offset_lookup 1"]),
    ("a later start", {EARLIEST: 5}, ["offset_lookup 1"]),
    ("an older record than the latest", {MAX_TIMESTAMP: 5}, ["offset_lookup 1"]),
]


def probed(history: Built, after: int) -> Built:
    """The leader reports its log start to a probe, after all questions."""
    row: dict[str, Any] = {"topic": "t", "topic_id": "T", "partition": 0, "reader": "probe", "session": 0}
    row |= {"why": "below_log_start", "isolation": "read_uncommitted", "offset": 0, "time_ms": None, "log_start": 3}
    row |= {"log_start_after": after, "records": 0, "reported": "out_of_range", "end_offset": None}
    history.tables["probes"].append(row | {"asked_ns": START_NS, "at_ns": START_NS})
    return history


def kept_by_size(answers: Mapping[int, int | None]) -> Built:
    """The log starts at 3, because retention.bytes is that small."""
    return probed(contract(asked(answers, edit=start_at(3)), retention_bytes=400), 3)


def deleted(answers: Mapping[int, int | None]) -> Built:
    """The log starts at 3, because an admin deleted the records below."""
    history = contract(asked(answers, edit=start_at(3)), delete_records=True)
    return history.event("delete_records", before_offset=3)


def still_on_disk(history: Built, ms: int) -> Built:
    """The segment of the log start has a batch below it, of this time."""
    below = {"base_offset": 2, "last_offset": 2, "base_sequence": 2, "max_timestamp_ms": START_NS // MS + ms}
    return history.copy("batches", below, base_offset=3)


def keyed(answers: Mapping[int, int | None], *, twice: bool = True, empty_ms: int | None = None) -> Built:
    """A compacted topic. For ever stay 2, 3, 5 and 6. Its leader was asked twice, before and after its disk was read.

    empty_ms: a segment on the leader's disk has no record, and that time.
    """
    history = led(contract(asked(answers), compacted=True))
    for seq, key in enumerate([1, 2, 1, 3, 2, 4]):
        history.change("ledger", {"key_hash": key}, seq=seq)
    if twice:
        history.copy("lookups", {"asked_ns": START_NS + 1}, topic="t")
    empty = {
        "broker": 1,
        "topic": "t",
        "partition": 0,
        "base_offset": 0,
        "modified_ms": START_NS // MS + (empty_ms or 0),
    }
    history.cluster["empty_segments"] = [] if empty_ms is None else [empty]
    return history


def emptied(history: Built, ms: int, broker: int = 1) -> Built:
    """A cleaner removed the only record of a batch, and left the batch with its time."""
    gone = {"count": 0, "max_timestamp_ms": START_NS // MS + ms}
    return history.change("batches", gone, broker=broker, base_offset=1)


def without_search(history: Built) -> Built:
    """The harness that ran it did not look for emptied segments."""
    del history.cluster["empty_segments"]
    return history


def led(history: Built, *metadata: Metadata) -> Built:
    """One broker led until the end, or as this metadata says; the drain read its copy."""
    history.cluster["snapshots"].insert(1, history.drained | {"phase": "healed"})
    history.metadata = (*metadata, Metadata())[0].history()
    return history


CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    "correct answers": (asked(), []),
    "the record after the marker instead of the marker": (asked({6: 5}), []),
    "a later record": (asked({2: 2}), ["offset_lookup 1"]),
    "the record after a marker instead of the one before": (asked({5: 5}), ["offset_lookup 1"]),
    "no record": (asked({7: None}), ["offset_lookup 1"]),
    "an older record": (asked({5: 2}), ["offset_lookup 1"]),
    "a marker that is older": (asked({7: 4}), ["offset_lookup 1"]),
    "a record where there is none": (asked({9: 6}), ["offset_lookup 1"]),
    "the end of the log": (behind(9), ["offset_lookup 1"]),
    "the end of the log as the latest": (behind(MAX_TIMESTAMP), ["offset_lookup 1"]),
    "the end of the log, which had no such record before": (after_none(behind(9)), []),
    "the end of the log, and no disk was read": (behind(9).drop("batches"), []),
    "the end of the log, named correctly": (ending(7, 7), []),
    "the last record as the end": (ending(6, 6), ["offset_lookup 1"]),
    "an end behind the last record": (ending(8, 7), ["offset_lookup 1"]),
    "a later stable offset": (ending(7, 9), ["offset_lookup 2"]),
    "an earlier end at the second look only": (ending(6, 6, healed=7), []),
    "the end of a log that retention shortens": (behind(9, kept_by_size({9: None} | FROM_3)), []),
    "the latest record is not the last one": (unordered(), []),
    "the last record instead of the latest": (unordered({MAX_TIMESTAMP: 6}), ["offset_lookup 1"]),
    "the last record of a time, after one that is later": (unordered({8: 6}), ["offset_lookup 1"]),
    "no record, though one before the last is late enough": (unordered({9: None}), ["offset_lookup 1"]),
    "two wrong answers": (asked({2: 2, 5: 5}), ["offset_lookup 1", "offset_lookup 1"]),
    "one wrong answer to two requests": (asked({3: 3, 4: 3}), ["offset_lookup 1"]),
    "another timestamp": (
        asked().change("lookups", {"timestamp_ms": START_NS // MS}, time_ms=START_NS // MS + 2),
        ["offset_lookup 1"],
    ),
    "another leader epoch": (
        asked().change("lookups", {"leader_epoch": 1}, time_ms=START_NS // MS + 2),
        ["offset_lookup 1"],
    ),
    "another leader epoch of a marker": (
        asked().change("lookups", {"leader_epoch": 1}, time_ms=START_NS // MS + 6),
        [],
    ),
    "no leader epoch": (asked().change("lookups", {"leader_epoch": None}, topic="t"), []),
    # Releases before 4.0 name the newest epoch with it.
    "another leader epoch of the latest record": (
        asked().change("lookups", {"leader_epoch": 1}, time_ms=MAX_TIMESTAMP),
        [],
    ),
    "retention may have deleted it": (contract(asked({0: 3}), retention_bytes=300), []),
    "no request": (History(TEXT).build(), []),
    "a later start": (asked({EARLIEST: 1}), ["offset_lookup 1"]),
    "an older record than the latest": (asked({MAX_TIMESTAMP: 5}), ["offset_lookup 1"]),
    "no latest record": (asked({MAX_TIMESTAMP: None}), ["offset_lookup 1"]),
    "another record with the latest time": (
        asked({MAX_TIMESTAMP: 5}).change("lookups", {"timestamp_ms": START_NS // MS + 8}, time_ms=MAX_TIMESTAMP),
        ["offset_lookup 1"],
    ),
    "the second record with the latest time": (
        asked({8: 5})
        .change("observations", {"timestamp_ms": START_NS // MS + 8}, offset=5)
        # The leader knows the time of the record.
        .change("lookups", {"timestamp_ms": START_NS // MS + 8}, offset=5),
        ["offset_lookup 1"],
    ),
    "a marker with the latest time": (
        asked({MAX_TIMESTAMP: 4}).change("lookups", {"timestamp_ms": START_NS // MS + 9}, time_ms=MAX_TIMESTAMP),
        [],
    ),
    **{
        f"of a log that {sort} has shortened: {what}": (shorten(FROM_3 | answers), found)
        for sort, shorten in {"retention": kept_by_size, "DeleteRecords": deleted}.items()
        for what, answers, found in SHORT_LOGS
    },
    "no record, and a deleted one in the first segment has that time": (
        still_on_disk(deleted(FROM_3 | {7: None}), 7),
        [],
    ),
    "no record, and a deleted one in the first segment is older": (
        still_on_disk(deleted(FROM_3 | {7: None}), 6),
        ["offset_lookup 1"],
    ),
    "no record, and no disk was read": (deleted(FROM_3 | {7: None}).drop("batches"), []),
    "a later record, and no disk was read": (deleted(FROM_3 | {6: 6}).drop("batches"), ["offset_lookup 1"]),
    "retention, and nobody asked for the log start after the questions": (
        kept_by_size(FROM_3 | {6: 6}).drop("probes"),
        [],
    ),
    "compaction: correct answers": (keyed({}), []),
    "compaction: the first record that stays": (keyed({0: 2, 1: 2, 2: 2}), []),
    "compaction: a later one": (keyed({1: 3}), ["offset_lookup 1"]),
    "compaction: a later one, and the leader has changed since": (
        led(keyed({1: 3}), Metadata().led(2, START_NS + 200 * MS)),
        [],
    ),
    "compaction: no record": (keyed({1: None}), ["offset_lookup 1"]),
    "compaction: no record once": (keyed({1: None}, twice=False), []),
    "compaction: no record, and an emptied segment of that time": (keyed({5: None}, empty_ms=5), []),
    "compaction: no record, and an emptied segment that is older": (keyed({5: None}, empty_ms=4), ["offset_lookup 1"]),
    "compaction: no record, and an emptied batch of that time": (emptied(keyed({5: None}), 5), []),
    "compaction: no record, and an emptied batch on another disk": (
        emptied(keyed({5: None}), 5, broker=2),
        ["offset_lookup 1"],
    ),
    "compaction: no record, and disks were not searched": (without_search(keyed({1: None})), []),
    "compaction: an older record than the latest": (keyed({MAX_TIMESTAMP: 3}), ["offset_lookup 1"]),
    "retention, and the start has moved since": (probed(kept_by_size(FROM_3 | {6: 6}), 6), []),
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
    assert any(said.startswith("offset lookups by time on topics in the remote tier") for said in verdict.not_covered)


def test_a_finding_reports_the_request_and_the_answer(judged: dict[str, Verdict]) -> None:
    (late,), (none,), (early,) = (judged[name].findings for name in ("a later record", "no record", "an older record"))
    assert late.detail == "the record is the first one of the requested time or later, and the leader answered offset 2"
    assert late.offset_first == 1
    assert none.detail == (
        "the record is the first one of the requested time or later, and the leader answered that there is none"
    )
    assert early.detail == (
        "the leader answered with the record, and it is older than the requested time, "
        f"timestamp {START_NS // MS + 5} ms"
    )
    assert early.offset_first == 2


# Offsets 0 to 2 are of epoch 0, 3 of epoch 1, and 4 to 6 of epoch 2; 5 is a marker.
LINE: Final = "AAA|A|(A)A"
ENDS: Final = {0: (0, 3), 1: (1, 4), 2: (2, 7)}


def epochs(answers: Mapping[int, tuple[int, int] | None] = MappingProxyType({}), edit: Edit | None = None) -> Built:
    """A correct leader's answer about each epoch, except for these."""
    history = History(LINE).build(edit)
    for epoch, answer in {**ENDS, **answers}.items():
        row = {"topic": "t", "topic_id": "T", "partition": 0, "epoch": epoch, "asked_ns": START_NS, "error": None}
        row |= {"reported_epoch": answer and answer[0], "end_offset": answer and answer[1]}
        history.tables["epoch_ends"].append(row)
    return history


# The log starts at 3, in epoch 1.
SHORT_LINES: Final[list[tuple[str, dict[int, tuple[int, int] | None], list[str]]]] = [
    ("correct answers", {}, []),
    ("the log start for a forgotten epoch", {0: (0, 3)}, []),
    ("a forgotten epoch ends too late", {0: (0, 4)}, ["epoch_lookup 1"]),
    ("an epoch that ends too early", {1: (1, 3)}, ["epoch_lookup 1"]),
    ("an older epoch instead", {1: (0, 3)}, ["epoch_lookup 1"]),
    ("no epoch", {1: None}, ["epoch_lookup 1"]),
]


def epochs_kept_by_size(answers: Mapping[int, tuple[int, int] | None]) -> Built:
    """The log starts at 3, in epoch 1, because retention.bytes is that small."""
    return probed(contract(epochs(answers, edit=start_at(3)), retention_bytes=400), 3)


def epochs_deleted(answers: Mapping[int, tuple[int, int] | None]) -> Built:
    """The log starts at 3, because an admin deleted the records below."""
    history = contract(epochs(answers, edit=start_at(3)), delete_records=True)
    return history.event("delete_records", before_offset=3)


def compacted(answers: Mapping[int, tuple[int, int] | None]) -> Built:
    return contract(epochs(answers), compacted=True)


def elections() -> Metadata:
    """Those of LINE."""
    return Metadata().led(2, START_NS + 4 * MS).led(1, START_NS + 6 * MS)


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
    "a newer epoch than asked for": (epochs({0: (2, 7)}), ["epoch_lookup 1"]),
    "an epoch that the log does not have": (epochs({2: (5, 7)}), ["epoch_lookup 1"]),
    "an epoch that ends past the log end": (epochs({2: (2, 8)}), ["epoch_lookup 1"]),
    "an epoch without records that ends past the log end": (epochs({3: (2, 8)}), ["epoch_lookup 1"]),
    "an epoch that ends past the log end, and no disk was read": (epochs({2: (2, 8)}).drop("batches"), []),
    "two wrong answers about adjacent epochs": (epochs({0: (0, 2), 1: (1, 3)}), ["epoch_lookup 2"]),
    "retention may have deleted it": (contract(epochs({0: (0, 2)}), retention_bytes=300), []),
    **{
        f"of a log that {sort} has shortened: {what}": (shorten(answers), found)
        for sort, shorten in {"retention": epochs_kept_by_size, "DeleteRecords": epochs_deleted}.items()
        for what, answers, found in SHORT_LINES
    },
    "retention, and the start has moved since": (probed(epochs_kept_by_size({1: (1, 5), 2: (1, 5)}), 7), []),
    "compaction, and the leader was built from a compacted copy": (compacted({0: (0, 4), 1: (0, 4)}), []),
    "compaction, and the leader has the epoch itself": (
        led(compacted({0: (0, 4), 1: (0, 4)}), elections()),
        ["epoch_lookup 1", "epoch_lookup 1"],
    ),
    "compaction, and the leader has changed since": (
        led(compacted({0: (0, 4), 1: (0, 4)}), elections().led(2, START_NS + 200 * MS)),
        [],
    ),
    "compaction, and an epoch that ends too early": (compacted({0: (0, 2)}), ["epoch_lookup 1"]),
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


def test_a_leader_that_looks_into_an_emptied_segment_makes_a_note(judged: dict[str, Verdict]) -> None:
    (note,) = judged["compaction: no record, and an emptied segment of that time"].notes
    assert note.startswith(
        "offset_lookup: the leader of a compacted topic finds no record of a time or later, and 1 such"
    )


UNANSWERED = HistoryBatch([asked(offset=None, timestamp_ms=None, error="NOT_LEADER_OR_FOLLOWER")])


def test_lookups_without_an_answer_are_a_doubt(spark: SparkSession) -> None:
    (verdict,) = UNANSWERED.verdicts(spark)
    assert verdict.status is Status.INCONCLUSIVE
    (doubt,) = verdict.doubts
    assert doubt.text == "12 requests for offsets of t/0 by time or epoch failed: NOT_LEADER_OR_FOLLOWER"
