"""Which of several answers counts. suites/gate compares the view of a real cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evidence.documents import plain
from harness.kafka.admin import groups, snapshots, topics
from harness.kafka.admin.topics import PartitionState, TopicsSeen, newest
from harness.kafka.admin.wire import Unanswered, Wire, error_name
from harness.kafka.storage.uuids import kafka_uuid
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.scenario import Topic


def state(leader: int, epoch: int, *, isr: tuple[int, ...] = (1, 2, 3), topic_id: str = "old") -> PartitionState:
    return PartitionState(
        topic="t",
        topic_id=topic_id,
        partition=0,
        leader=leader,
        leader_epoch=epoch,
        isr=isr,
        replicas=(1, 2, 3),
    )


def seen(offset: int, *states: PartitionState) -> TopicsSeen:
    return TopicsSeen(offset, {(s.topic, s.partition): s for s in states})


def test_the_highest_leader_epoch_counts() -> None:
    assert newest([seen(90, state(2, 5)), seen(80, state(1, 4))]) == [state(2, 5)]
    # The metadata offset is only a lower bound: a broker may have learned more between its two answers.
    assert newest([seen(90, state(1, 4)), seen(80, state(2, 5))]) == [state(2, 5)]


def test_at_one_leader_epoch_the_newest_metadata_counts() -> None:
    shrunk = state(1, 4, isr=(1,))
    assert newest([seen(80, state(1, 4)), seen(90, shrunk), seen(70, state(1, 4))]) == [shrunk]


def test_a_topic_created_again_begins_at_leader_epoch_zero() -> None:
    assert newest([seen(90, state(3, 0, topic_id="new")), seen(80, state(1, 7))]) == [state(3, 0, topic_id="new")]


def test_a_topic_that_the_newest_metadata_lacks_is_deleted() -> None:
    assert newest([seen(90), seen(80, state(1, 7))]) == []


def test_without_an_answer_there_are_no_partitions() -> None:
    assert newest([]) == []


@given(st.permutations([seen(80, state(1, 4)), seen(90, state(2, 5)), seen(95, state(2, 5, isr=(2,)))]))
def test_the_order_of_answers_does_not_matter(answers: list[TopicsSeen]) -> None:
    assert newest(answers) == [state(2, 5, isr=(2,))]


@given(st.uuids())
def test_topic_ids_have_the_form_of_kafkas_tools(uuid: UUID) -> None:
    text = kafka_uuid(uuid)
    assert len(text) == 22
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_the_topic_id_of_the_metadata_log() -> None:
    # Uuid.METADATA_TOPIC_ID, as `kafka-dump-log` prints it.
    assert kafka_uuid(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_error_codes_have_kafkas_names() -> None:
    assert error_name(0) is None
    assert error_name(6) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(88) == "UNSTABLE_OFFSET_COMMIT"
    assert error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert error_name(31000) == "error 31000"


@pytest.mark.parametrize(("hangs", "reported"), [(False, {}), (True, {"stable": False})])
def test_unstable_offsets_of_a_group_are_an_error(
    hangs: bool, reported: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def offsets(
        wire: object, group: str, places: list[tuple[str, int]], *, stable: bool, deadline_s: float
    ) -> dict[tuple[str, int], int]:
        if hangs and stable:
            raise HarnessTimeout("a transaction is pending")
        return dict.fromkeys(places, 4)

    monkeypatch.setattr(groups, "group_offsets", offsets)
    (row,) = map(plain, snapshots._offsets_of(Wire({}), "g", [state(1, 4)]))
    assert cast(int, row.pop("at_ns")) > 0
    assert row == {"group": "g", "topic": "t", "partition": 0, "offset": 4} | reported


def test_a_group_without_a_coordinator_is_unknown_and_costs_the_next_one_less(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool, float]] = []

    def offsets(
        wire: object, group: str, places: list[tuple[str, int]], *, stable: bool, deadline_s: float
    ) -> dict[tuple[str, int], int]:
        asked.append((group, stable, deadline_s))
        if group != "known":
            raise HarnessTimeout("COORDINATOR_NOT_AVAILABLE")
        return dict.fromkeys(places, 4)

    monkeypatch.setattr(groups, "group_offsets", offsets)
    rows = list(snapshots._offsets(Wire({}), ["known", "gone", "gone_too"], [state(1, 4)]))
    assert [(row.group, row.offset, row.stable) for row in rows] == [
        ("known", 4, None),
        ("gone", None, False),
        ("gone_too", None, False),
    ]
    assert [deadline_s for _, _, deadline_s in asked] == [20, 20, 20, 5, 5]


class OneController:
    """Controller 101 leads and does every request; the first `lost` answers are lost."""

    controllers = (101,)
    brokers = (1,)

    def __init__(self, *, existing: set[str], lost: int) -> None:
        self.topics = existing
        self.lost = lost

    def gather(self, questions: Any, timeout_s: float, *, often: bool = False) -> Any:
        part = SimpleNamespace(
            error_code=0, leader_id=101, leader_epoch=1, high_watermark=9, current_voters=[], observers=[]
        )
        return {101: (SimpleNamespace(error_code=0, topics=[SimpleNamespace(partitions=[part])]),)}

    def ask(self, node: int, question: Any, timeout_s: float) -> Any:
        known, self.topics = set(self.topics), {*self.topics, "t"}
        self.lost -= 1
        if self.lost >= 0:
            raise Unanswered("node 101 gave no answer")
        code = 36 if "t" in known else 0
        return SimpleNamespace(topics=[SimpleNamespace(name="t", error_code=code, error_message="")])


@pytest.mark.parametrize("lost", [0, 1])
def test_a_topic_created_by_an_unanswered_request_is_accepted(lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_without_leader", lambda wire, wanted: set())
    monkeypatch.setattr(topics, "partitions", lambda wire, names, often: [state(1, 0)])
    wire: Any = OneController(existing=set(), lost=lost)
    assert topics.create_topics(wire, [Topic(name="t", partitions=1)], 5.0) == {"t": "old"}


def test_a_topic_that_existed_before_is_refused() -> None:
    wire: Any = OneController(existing={"t"}, lost=0)
    with pytest.raises(BadInput, match="TOPIC_ALREADY_EXISTS"):
        topics.create_topics(wire, [Topic(name="t", partitions=1)], 5.0)
