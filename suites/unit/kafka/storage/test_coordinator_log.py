"""Logs of coordinators, decoded and folded: the last value counts, and a transactional commit from its marker on."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kafka.storage.coordinator_log import CoordinatorLog, CoordinatorLogs
from harness.kafka.storage.coordinator_state import LoggedState, assigned_topics, commits_since, states_of
from harness.kafka.storage.uuids import kafka_uuid
from harness.model.contract.internal_topics import OFFSETS, SHARE_STATE, TRANSACTIONS
from suites.unit.kafka.storage.coordinator_bytes import (
    TOPIC,
    classic_value,
    epoch_value,
    group_key,
    log_folder,
    member_value,
    offset_key,
    offset_value,
    record,
    share_key,
    snapshot_value,
    transaction_key,
    transaction_value,
    update_value,
)
from suites.unit.kafka.storage.test_record_batch import marker

KEY = offset_key("g", "t", 0)
COMMIT, ABORT = 1, 0
PREPARED, COMMITTED = 2, 4


def read(tmp_path: Path, topic: str, *batches: bytes) -> CoordinatorLog:
    log_folder(tmp_path, topic, 3, *batches)
    return CoordinatorLogs().read(1, [tmp_path], [(topic, 3)])[topic, 3]


def at(offset: int, leader_epoch: int = 5) -> dict[str, int | str]:
    """The value of a committed offset."""
    return {"offset": offset, "leader_epoch": leader_epoch, "metadata": ""}


def only(log: CoordinatorLog) -> LoggedState:
    assert log.problems == []
    (state,) = states_of(log).values()
    return state


@pytest.mark.parametrize("version", range(5))
def test_a_committed_offset_of_every_version(tmp_path: Path, version: int) -> None:
    log = read(tmp_path, OFFSETS, record(0, KEY, offset_value(4)), record(1, KEY, offset_value(9, version), epoch=2))
    state = only(log)
    assert (state.kind, state.name, state.owner, state.value()) == (
        "offset",
        "g t/0",
        "g",
        at(9, 5 if version >= 3 else -1),
    )
    assert (state.last.offset, state.last.epoch, log.end) == (1, 2, 2)
    assert state.was(at(4))
    assert not state.was(state.value())
    assert state.was(None)  # before its first record


def test_a_tombstone_deletes(tmp_path: Path) -> None:
    assert only(read(tmp_path, OFFSETS, record(0, KEY, offset_value(4)), record(1, KEY, None))).value() is None


def test_a_transactional_commit_counts_from_its_marker_on(tmp_path: Path) -> None:
    first, second = record(0, KEY, offset_value(4)), record(1, KEY, offset_value(9), producer=7)
    state = only(read(tmp_path, OFFSETS, first, second))
    assert (state.value(), state.pending) == (at(4), True)
    state = only(read(tmp_path, OFFSETS, first, second, marker(2, COMMIT)))
    assert (state.value(), state.last.settled, state.pending) == (at(9), 2, False)
    assert only(read(tmp_path, OFFSETS, first, second, marker(2, ABORT))).value() == at(4)


def test_a_later_commit_outlives_a_transaction_that_ends_after_it(tmp_path: Path) -> None:
    open_first = record(0, KEY, offset_value(4), producer=7), record(1, KEY, offset_value(9))
    assert only(read(tmp_path, OFFSETS, *open_first, marker(2, COMMIT))).value() == at(9)


def test_a_tombstone_deletes_a_pending_commit(tmp_path: Path) -> None:
    state = only(read(tmp_path, OFFSETS, record(0, KEY, offset_value(4), producer=7), record(1, KEY, None)))
    assert (state.value(), state.pending) == (None, False)


@pytest.mark.parametrize("version", [0, 1])
def test_a_transaction_of_every_version(tmp_path: Path, version: int) -> None:
    value = transaction_value(COMMITTED, 70, 5, version)
    state = only(read(tmp_path, TRANSACTIONS, record(0, transaction_key("p"), value)))
    wanted = {"state": "CompleteCommit", "producer_id": 70, "producer_epoch": 5, "timeout_ms": 60_000}
    assert (state.kind, state.name, state.value()) == ("transaction", "p", wanted)


def test_a_repeated_decision_is_one_transaction(tmp_path: Path) -> None:
    values = [transaction_value(PREPARED, started_ms=ms) for ms in (1, 2, 2)]
    batches = [record(at, transaction_key("p"), value) for at, value in enumerate(values)]
    state = only(read(tmp_path, TRANSACTIONS, *batches))
    assert commits_since(state, 0) == (3, 2)
    assert commits_since(state, 1) == (2, 1)


def test_a_consumer_group(tmp_path: Path) -> None:
    values = {
        group_key(3, "g"): epoch_value(8),
        group_key(6, "g"): epoch_value(7),
        group_key(8, "g", "b"): member_value(7),
        group_key(8, "g", "a"): member_value(8),
        group_key(5, "g", "a"): b"not compared",
    }
    batches = [record(at, key, value) for at, (key, value) in enumerate(values.items())]
    state = only(read(tmp_path, OFFSETS, *batches))
    place = f"{kafka_uuid(TOPIC)}/0"
    value = state.value()
    assert value == {"epoch": 8, "assignment_epoch": 7, "members": "a 8, b 7", "assigned": f"a {place}, b {place}"}
    assert assigned_topics(value) == {kafka_uuid(TOPIC)}
    left = record(5, group_key(8, "g", "a"), None)
    found = only(read(tmp_path, OFFSETS, *batches, left)).value()
    assert found is not None
    assert found["members"] == "b 7"
    assert only(read(tmp_path, OFFSETS, *batches, record(5, group_key(3, "g"), None))).value() is None


@pytest.mark.parametrize("version", range(4))
def test_a_classic_group(tmp_path: Path, version: int) -> None:
    state = only(read(tmp_path, OFFSETS, record(0, group_key(2, "g"), classic_value("b", "a", version=version))))
    assert (state.kind, state.value()) == ("group", {"members": "a, b"})


def test_a_share_partition(tmp_path: Path) -> None:
    key, update = share_key("g", 0), share_key("g", 0, update=True)
    steps = [(key, snapshot_value(5)), (update, update_value(9)), (update, update_value(-1))]
    batches = [record(at, *of) for at, of in enumerate(steps)]
    state = only(read(tmp_path, SHARE_STATE, *batches))
    assert (state.name, state.value()) == (f"g {kafka_uuid(TOPIC)}/0", {"start": 9})
    assert only(read(tmp_path, SHARE_STATE, *batches, record(3, key, snapshot_value(11)))).value() == {"start": 11}
    assert only(read(tmp_path, SHARE_STATE, *batches, record(3, key, None))).value() is None


def test_a_value_of_a_later_version_is_not_skipped(tmp_path: Path) -> None:
    state = only(read(tmp_path, OFFSETS, record(0, KEY, offset_value(4)), record(1, KEY, b"\0\x05" + b"?" * 20)))
    with pytest.raises(ValueError, match="OffsetCommitValue has no version 5 here"):
        state.value()


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (record(0, KEY, offset_value(4) + b"\0" * 500, codec=1), "compression gzip"),
        (record(0, b"\x7f\x00" + b"key", b""), "no offsets_key has the number 32512"),
        (record(0, KEY[:-1], b""), "offset 0"),
        (record(0, KEY, offset_value(4))[:-1] + b"!", "a damaged batch"),
    ],
)
def test_what_cannot_be_decoded_is_a_problem(tmp_path: Path, batch: bytes, why: str) -> None:
    log = read(tmp_path, OFFSETS, batch)
    assert len(log.problems) == 1
    assert why in log.problems[0]


def test_a_torn_end_ends_the_log(tmp_path: Path) -> None:
    log = read(tmp_path, OFFSETS, record(0, KEY, offset_value(4)), record(1, KEY, offset_value(9))[:-3])
    assert (log.end, log.problems, only(log).value()) == (1, [], at(4))


def test_a_gap_may_be_compaction(tmp_path: Path) -> None:
    assert read(tmp_path, OFFSETS, record(0, KEY, offset_value(4))).compacted_to == 0
    assert read(tmp_path, OFFSETS, record(0, KEY, offset_value(4)), record(7, KEY, offset_value(4))).compacted_to == 8
