"""The look at coordinators beside their logs. The logs are real files, and the brokers that answer are scripted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.kafka.admin.client import PartitionState
from harness.kafka.admin.coordinator_answers import GroupAnswer
from harness.kafka.admin.groups import Committed, TransactionState
from harness.kafka.admin.share_groups import ShareOffset
from harness.kafka.storage.uuids import kafka_uuid
from harness.model.contract.internal_topics import OFFSETS, SHARE_STATE, TRANSACTIONS
from harness.model.documents.coordinators import CoordinatorLook, CoordinatorState, differing
from harness.model.errors import HarnessTimeout
from harness.model.place import Place
from harness.run import coordinator_states
from harness.run.coordinator_states import CoordinatorStates
from suites.unit.kafka.storage.coordinator_bytes import (
    TOPIC,
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
)

BROKERS = (1, 2, 3)
KEY = offset_key("g", "t", 0)
ONGOING, PREPARED, COMMITTED = 1, 2, 4
ASSIGNED = {"a": [(kafka_uuid(TOPIC), 0)]}
LOGS = {
    OFFSETS: [
        record(0, KEY, offset_value(4), epoch=1),
        record(1, KEY, offset_value(9), epoch=1),
        record(2, group_key(3, "g"), epoch_value(8), epoch=1),
        record(3, group_key(6, "g"), epoch_value(8), epoch=1),
        record(4, group_key(8, "g", "a"), member_value(8), epoch=1),
    ],
    TRANSACTIONS: [
        record(0, transaction_key("p"), transaction_value(PREPARED)),
        record(1, transaction_key("p"), transaction_value(COMMITTED)),
    ],
    SHARE_STATE: [record(0, share_key("s", 0), snapshot_value(5))],
}


@dataclass
class Brokers:
    """Three brokers that answer as their logs say, until a test changes an answer."""

    root: Path
    marks: dict[tuple[str, int], int] = field(
        default_factory=lambda: {(topic, 0): len(log) for topic, log in LOGS.items()}
    )
    leader: PartitionState = field(
        default_factory=lambda: PartitionState(
            topic="", topic_id="", partition=0, leader=2, leader_epoch=3, isr=BROKERS, replicas=BROKERS
        )
    )
    offsets: Any = field(default_factory=lambda: {("t", 0): Committed(9, 5)})
    group: Any = field(default_factory=lambda: GroupAnswer("Stable", 8, 8, {"a": 8}, ASSIGNED))
    transaction: Any = field(
        default_factory=lambda: TransactionState("p", "CompleteCommit", 7, 3, 60_000, 1, (("t", 0),))
    )
    share: Any = field(default_factory=lambda: {("t", 0): ShareOffset(5, 0)})
    groups: Any = field(default_factory=lambda: {1: [], 2: ["g", "s"], 3: []})
    ids: Any = field(default_factory=lambda: {1: {}, 2: {"p": "CompleteCommit"}})

    def __post_init__(self) -> None:
        for broker in BROKERS:
            for topic, batches in LOGS.items():
                self.write(broker, topic, *batches)

    def write(self, broker: int, topic: str, *batches: bytes) -> None:
        log_folder(self.root / str(broker), topic, 0, *batches)

    def partitions(self, topics: Any) -> list[PartitionState]:
        ids = {"t": kafka_uuid(TOPIC)}
        return [replace(self.leader, topic=topic, topic_id=ids.get(topic, "")) for topic in topics]

    def high_watermark(self, topics: Any) -> dict[tuple[str, int], int]:
        del topics
        return dict(self.marks)

    def share_offsets(self, group: str, deadline_s: float) -> dict[tuple[str, int], ShareOffset]:
        if isinstance(self.share, str):
            raise HarnessTimeout(f"{self.share} about {group} in {deadline_s} s")
        return dict(self.share)

    def groups_by_coordinator(self) -> Any:
        return self.groups

    def transactions_by_coordinator(self) -> Any:
        return self.ids

    @property
    def answers(self) -> Any:
        return SimpleNamespace(
            offsets=lambda broker, group: self.offsets,
            consumer_group=lambda broker, group: self.group,
            classic_group=lambda broker, group: self.group,
            transactions=lambda broker, ids: dict.fromkeys(ids, self.transaction),
        )

    def look(self, *, began: int = 0, under_load: bool = False) -> CoordinatorLook:
        marks, self.marks = self.marks, dict.fromkeys(self.marks, began)
        scenario = SimpleNamespace(
            groups=("g",),
            share_groups={"s": []},
            producers=[SimpleNamespace(name="p", transactions=object())],
            topics=[SimpleNamespace(name="t")],
        )
        cluster = SimpleNamespace(brokers=BROKERS, log_directories=lambda broker: [self.root / str(broker)])
        states = CoordinatorStates(cast(Any, cluster), cast(Any, self), cast(Any, scenario))
        self.marks = marks
        return states.look_under_load(deadline_s=0.05) if under_load else states.look(deadline_s=0.05)

    def commit_meanwhile(self) -> None:
        """From now on the group commits between each first reading of the logs and the high watermark."""
        marks, log = self.high_watermark, [*LOGS[OFFSETS]]

        def moved(topics: Any) -> dict[tuple[str, int], int]:
            log.append(record(len(log), KEY, offset_value(9), epoch=1))
            for broker in BROKERS:
                self.write(broker, OFFSETS, *log)
            return marks(topics) | {(OFFSETS, 0): len(log)}

        self.high_watermark = moved  # type: ignore[method-assign]

    def one(self, kind: str) -> CoordinatorState:
        look = self.look()
        assert look.unknown == ()
        (state,) = (one for one in look.states if one.kind == kind)
        return state


def at(offset: int, leader_epoch: int = 5, metadata: str = "") -> dict[str, int | str]:
    """The value of a committed offset."""
    return {"offset": offset, "leader_epoch": leader_epoch, "metadata": metadata}


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Brokers:
    monkeypatch.setattr(coordinator_states, "_INTERVAL_S", 0.001)
    return Brokers(tmp_path)


def test_what_agrees(brokers: Brokers) -> None:
    look = brokers.look()
    assert (look.unknown, look.elsewhere) == ((), ())
    assert {one.kind for one in look.states} == {"offset", "group", "transaction", "share_state"}
    for one in look.states:
        assert one.steady
        assert (one.logged, one.coordinator, one.leader_epoch) == (one.answered, 2, 3)
        assert [(copy.broker, copy.logged) for copy in one.copies] == [(1, one.logged), (3, one.logged)]
    (offset,) = (one for one in look.states if one.kind == "offset")
    assert (offset.name, offset.offset, offset.written_epoch, offset.was) == ("g t/0", 1, 1, False)
    (transaction,) = (one for one in look.states if one.kind == "transaction")
    assert (transaction.commits, transaction.commit_records) == (1, 1)


def test_a_broker_that_lists_what_another_one_coordinates(brokers: Brokers) -> None:
    brokers.groups, brokers.ids = {2: ["g"], 3: ["g"]}, {1: {"p": "Empty"}, 2: {}}
    found = [
        (one.kind, one.name, one.topic, one.partition, one.broker, one.coordinator) for one in brokers.look().elsewhere
    ]
    assert found == [("group", "g", OFFSETS, 0, 3, 2), ("transaction", "p", TRANSACTIONS, 0, 1, 2)]


def test_a_list_while_the_leader_changes_proves_nothing(brokers: Brokers) -> None:
    brokers.groups, partitions = {3: ["g"]}, brokers.partitions

    def moving(topics: Any) -> list[PartitionState]:
        brokers.leader = replace(brokers.leader, leader_epoch=brokers.leader.leader_epoch + 1)
        return partitions(topics)

    brokers.partitions = moving  # type: ignore[method-assign]
    assert brokers.look().elsewhere == ()


def test_an_older_answer(brokers: Brokers) -> None:
    brokers.offsets = {("t", 0): Committed(4, 5)}
    state = brokers.one("offset")
    assert (state.logged, state.answered, state.steady, state.was) == (at(9), at(4), True, True)


def test_a_commit_with_another_leader_epoch(brokers: Brokers) -> None:
    brokers.offsets = {("t", 0): Committed(9, -1)}
    state = brokers.one("offset")
    assert (state.logged, state.answered, state.steady, state.was) == (at(9), at(9, -1), True, False)


def test_a_commit_with_another_text(brokers: Brokers) -> None:
    brokers.offsets = {("t", 0): Committed(9, 5, "mine")}
    state = brokers.one("offset")
    assert (state.logged, state.answered, state.steady, state.was) == (at(9), at(9, metadata="mine"), True, False)


def test_an_offset_that_only_the_coordinator_knows(brokers: Brokers) -> None:
    brokers.offsets = {("t", 0): Committed(9, 5), ("t", 1): Committed(3, -1)}
    states = {one.name: one for one in brokers.look().states if one.kind == "offset"}
    other = states["g t/1"]
    assert (other.logged, other.answered, other.offset, other.steady) == (None, at(3, -1), None, True)


def test_members_that_have_other_partitions_than_in_the_log(brokers: Brokers) -> None:
    brokers.group = GroupAnswer("Stable", 8, 8, {"a": 8}, {"a": []})
    state = brokers.one("group")
    assert state.logged is not None
    assert state.answered is not None
    assert (state.logged["assigned"], state.answered["assigned"]) == (f"a {kafka_uuid(TOPIC)}/0", "")
    assert (state.steady, state.was) == (True, False)


def test_partitions_of_a_topic_that_was_deleted_are_not_compared(brokers: Brokers, monkeypatch: Any) -> None:
    monkeypatch.setattr(Brokers, "partitions", lambda self, of: [replace(self.leader, topic=t) for t in of])
    brokers.group = GroupAnswer("Stable", 8, 8, {"a": 8}, {"a": []})
    answered = brokers.one("group").answered
    assert answered is not None
    assert "assigned" not in answered


def test_a_state_that_the_coordinator_does_not_know(brokers: Brokers) -> None:
    brokers.offsets, brokers.group, brokers.transaction = {}, None, None
    states = {one.kind: one for one in brokers.look().states if one.kind != "share_state"}
    assert {one.answered for one in states.values()} == {None}
    assert len(states) == 3


def test_what_is_not_below_the_high_watermark_is_not_steady(brokers: Brokers) -> None:
    brokers.marks[OFFSETS, 0] = 1
    assert not brokers.one("offset").steady


def test_a_write_about_another_state_changes_nothing(brokers: Brokers) -> None:
    brokers.commit_meanwhile()
    steady = {one.kind: one.steady for one in brokers.look().states}
    assert steady == {"offset": False, "group": True, "transaction": True, "share_state": True}


def test_under_load_only_what_is_steady_counts(brokers: Brokers) -> None:
    brokers.commit_meanwhile()
    brokers.share = "no answer"
    look = brokers.look(under_load=True)
    assert {one.kind for one in look.states} == {"group", "transaction"}
    assert look.unknown == ()


def test_another_leader_epoch_is_not_steady(brokers: Brokers) -> None:
    first = brokers.partitions

    def moving(topics: Any) -> list[PartitionState]:
        brokers.leader = replace(brokers.leader, leader_epoch=brokers.leader.leader_epoch + 1)
        return first(topics)

    brokers.partitions = moving  # type: ignore[method-assign]
    assert not brokers.one("offset").steady


def test_an_open_transaction_may_change_an_offset(brokers: Brokers) -> None:
    log = [*LOGS[OFFSETS], record(5, KEY, offset_value(11), producer=7)]
    for broker in BROKERS:
        brokers.write(broker, OFFSETS, *log)
    brokers.marks[OFFSETS, 0] = 6
    assert not brokers.one("offset").steady


def test_a_transaction_with_markers_under_way_is_not_steady(brokers: Brokers) -> None:
    for broker in BROKERS:
        brokers.write(broker, TRANSACTIONS, LOGS[TRANSACTIONS][0])
    brokers.marks[TRANSACTIONS, 0] = 1
    assert not brokers.one("transaction").steady


@pytest.mark.parametrize(
    ("started_ms", "places", "differs"),
    [
        (1, (("t", 0),), []),
        (1, (), ["partitions"]),
        (1, (("t", 0), ("t", 1)), ["partitions"]),
        (2, (("t", 0),), ["started_ms"]),
    ],
)
def test_an_open_transaction(brokers: Brokers, started_ms: int, places: tuple[Place, ...], differs: list[str]) -> None:
    for broker in BROKERS:
        brokers.write(broker, TRANSACTIONS, record(0, transaction_key("p"), transaction_value(ONGOING)))
    brokers.marks[TRANSACTIONS, 0] = 1
    brokers.transaction = TransactionState("p", "Ongoing", 7, 3, 60_000, started_ms, places)
    state = brokers.one("transaction")
    assert state.steady
    assert differing(state.logged, state.answered) == differs


def test_what_the_log_had_before_the_run_is_not_counted(brokers: Brokers) -> None:
    (state,) = (one for one in brokers.look(began=1).states if one.kind == "transaction")
    assert (state.commits, state.commit_records) == (0, 0)


def test_a_copy_that_differs(brokers: Brokers) -> None:
    brokers.write(3, OFFSETS, *LOGS[OFFSETS][:1], record(1, KEY, offset_value(7), epoch=1), *LOGS[OFFSETS][2:])
    copies = {copy.broker: copy.logged for copy in brokers.one("offset").copies}
    assert copies == {1: at(9), 3: at(7)}


def test_a_copy_that_is_not_in_sync_is_not_read(brokers: Brokers) -> None:
    brokers.write(3, OFFSETS, *LOGS[OFFSETS][:1])
    brokers.leader = replace(brokers.leader, isr=(1, 2))
    assert [copy.broker for copy in brokers.one("offset").copies] == [1]


@pytest.mark.parametrize(
    ("broker", "batches", "why"),
    [
        (3, LOGS[OFFSETS][:1], "the log of __consumer_offsets-0 on broker 3: it ends at 1, below the high watermark 5"),
        (2, [*LOGS[OFFSETS][:1], record(1, KEY, b"\0\x05")], "has no version 5 here"),
    ],
)
def test_a_log_that_is_not_whole_is_unknown(brokers: Brokers, broker: int, batches: list[bytes], why: str) -> None:
    brokers.write(broker, OFFSETS, *batches)
    assert any(why in text for text in brokers.look().unknown)


def test_no_answer_is_unknown(brokers: Brokers) -> None:
    brokers.offsets = brokers.group = brokers.transaction = brokers.share = "COORDINATOR_LOAD_IN_PROGRESS"
    unknown = brokers.look().unknown
    assert unknown[:3] == tuple(
        f"broker 2 did not answer about {what}: COORDINATOR_LOAD_IN_PROGRESS"
        for what in ("the offsets of group g", "group g", "transactional id p")
    )
    assert "about s in" in unknown[3]


def test_no_leader_is_unknown(brokers: Brokers) -> None:
    brokers.leader = replace(brokers.leader, leader=-1)
    assert "__consumer_offsets-0 with the state of g has no leader" in brokers.look().unknown
