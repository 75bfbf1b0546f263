"""A member of a group that dies: its commits, its processed records, the offsets between. The consumer is a fake."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition

from harness.faults.clients.reader_dies import ReaderDies
from harness.faults.steps.registry import check_steps
from harness.faults.steps.waits import WaitRead
from harness.model.documents.steps import Event
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.scenario import Producer, Reader, Scenario, Step, Topic
from harness.workload.consumers import live_readers
from harness.workload.consumers.consumer_group import group_lag
from harness.workload.consumers.crashing_consumer import CrashingReader, Death, spans
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.producers.recording_producer import Target
from suites.steps_json import untimed

CONTEXT = ReadContext(bootstrap="", targets={"t": Target(topic="t", topic_id="id", partitions=2)}, run=1)


class Message:
    """A record that has only its topic, partition and offset."""

    def __init__(self, partition: int, offset: int) -> None:
        self.at = ("t", partition, offset)

    def topic(self) -> str:
        return self.at[0]

    def partition(self) -> int:
        return self.at[1]

    def offset(self) -> int:
        return self.at[2]


class Coordinator:
    """Accepts every commit, or none."""

    def __init__(self) -> None:
        self.committed_at: list[dict[int, int]] = []
        self.refuses = False
        self.closed = False

    def committed(self, wanted: list[TopicPartition], timeout_s: float) -> list[TopicPartition]:
        return wanted

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        self.committed_at.append({one.partition: one.offset for one in offsets})
        return [] if self.refuses else offsets

    def close(self) -> None:
        self.closed = True


class Observed:
    """A fake observer, which keeps the records that count as read."""

    def __init__(self) -> None:
        self.records: list[tuple[str, int, int]] = []
        self.next_offset: dict[tuple[str, int], int] = {}
        self.seen = 0

    def observe(self, records: list[Any]) -> None:
        self.records += [record.at for record in records]
        for record in records:
            self.next_offset["t", record.partition()] = record.offset() + 1


class Member(CrashingReader):
    """A reader that keeps its observations in memory and discards the rows of its commits."""

    def __init__(self, commits: str) -> None:
        table = cast(Any, SimpleNamespace(append=lambda row: None))
        super().__init__(Reader(name="r", topics=("t",), group="g", commits=commits), CONTEXT, table, table)
        self.seen_by = Observed()
        self._observer = cast(Any, self.seen_by)
        self._mine = {("t", 0), ("t", 1)}
        self.begun: list[Any] = []

    def _begin(self, consumer: Any) -> None:
        self.begun.append(consumer)


def given(member: Member, consumer: Coordinator, *offsets: int, partition: int = 0) -> None:
    member._process(cast(Any, consumer), cast(Any, [Message(partition, offset) for offset in offsets]))


def offsets(member: Member) -> list[int]:
    return [offset for _, _, offset in member.seen_by.records]


def test_a_member_that_commits_before_processing_skips_records_when_it_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    member, consumer = Member("before"), Coordinator()
    given(member, consumer, 0, 1)
    assert (consumer.committed_at, offsets(member)) == ([{0: 2}], [0, 1])
    death = member.die(3)
    given(member, consumer, 2, 3)
    assert (death.between, consumer.committed_at, offsets(member)) == (None, [{0: 2}], [0, 1])
    given(member, consumer, 4)
    assert (death.between, consumer.committed_at[1:], offsets(member)) == ({("t", 0): (2, 5)}, [{0: 5}], [0, 1])
    assert_replaced(member, consumer, monkeypatch, [0, 1, 5])


def test_a_member_that_commits_after_processing_gets_records_again_when_it_dies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member, consumer = Member("after"), Coordinator()
    given(member, consumer, 0, 1)
    member._commit(cast(Any, consumer))
    death = member.die(2)
    given(member, consumer, 2, 3, partition=1)
    assert (death.between, consumer.committed_at, offsets(member)) == ({("t", 1): (2, 4)}, [{0: 2}], [0, 1, 2, 3])
    assert_replaced(member, consumer, monkeypatch, [0, 1, 2, 3, 5])


def assert_replaced(member: Member, consumer: Coordinator, monkeypatch: pytest.MonkeyPatch, seen: list[int]) -> None:
    """Asserts that the dead member commits nothing more, and that a new one replaces it and processes records."""
    before = len(consumer.committed_at)
    member._revoked(cast(Any, consumer), [TopicPartition("t", 0)])
    another = Coordinator()
    monkeypatch.setattr(live_readers, "Consumer", lambda settings: another)
    assert member._current(cast(Any, consumer)) is cast(Any, another)
    assert (consumer.closed, len(consumer.committed_at), member.begun) == (True, before, [another])
    member._mine = {("t", 0), ("t", 1)}
    given(member, another, 5)
    assert offsets(member) == seen


def test_a_member_whose_last_commit_fails_lives_on() -> None:
    member, consumer = Member("before"), Coordinator()
    consumer.refuses = True
    death = member.die(1)
    given(member, consumer, 0)
    given(member, consumer, 1)
    assert (death.refused, death.between, offsets(member)) == (True, None, [0, 1])


def test_records_that_were_held_are_processed_after_a_death_is_called_off() -> None:
    member, consumer = Member("after"), Coordinator()
    death = member.die(5)
    given(member, consumer, 0, 1)
    death.called_off = True
    given(member, consumer)
    assert (death.between, offsets(member)) == (None, [0, 1])
    member.die(5)
    given(member, consumer, 2)
    member._end(cast(Any, consumer))
    assert (offsets(member), consumer.committed_at[-1]) == ([0, 1, 2], {0: 3})


def test_records_of_a_partition_that_a_member_loses_are_no_longer_held() -> None:
    """Its next owner receives them again, and that may be the same member in the same session."""
    member, consumer = Member("after"), Coordinator()
    death = member.die(9)
    given(member, consumer, 0, 1)
    given(member, consumer, 5, partition=1)
    member._revoked(cast(Any, consumer), [TopicPartition("t", 0)])
    death.called_off = True
    given(member, consumer)
    assert member.seen_by.records == [("t", 1, 5)]


@pytest.mark.parametrize(("reset", "sessions"), [("earliest", [[("t", 0), ("t", 1)]]), (None, [])])
def test_a_member_that_resumes_begins_a_session_if_its_client_may_reset_its_position(
    reset: Any, sessions: list[Any]
) -> None:
    member = Member("after")
    member.spec = replace(member.spec, reset=reset)
    begun: list[Any] = []
    member._observer = cast(
        Any, SimpleNamespace(next_offset={}, observe=lambda records: None, new_session=begun.append)
    )
    calls: dict[str, Any] = {name: lambda *_: None for name in ("pause", "resume")} | {"consume": lambda *_: []}
    consumer = cast(Any, SimpleNamespace(**calls))
    paused = member.pause()
    member._turn(consumer)
    assert (paused.resumed, begun) == (False, [])
    paused.over.set()
    member._turn(consumer)
    assert (paused.resumed, begun) == (True, sessions)


def test_spans_go_from_the_first_offset_to_the_one_after_the_last() -> None:
    records = [Message(0, 7), Message(1, 2), Message(0, 9)]
    assert spans(cast(Any, records)) == {("t", 0): (7, 10), ("t", 1): (2, 3)}


def test_the_lag_of_a_group_is_that_of_its_most_advanced_member() -> None:
    members: Any = [
        SimpleNamespace(positions={("t", 0): 4}, committed={("t", 0): 2}, spec=SimpleNamespace(topics=("t",))),
        SimpleNamespace(positions={("t", 0): 6}, committed={}, spec=SimpleNamespace(topics=("t",))),
    ]
    assert group_lag(members, {("t", 0): 9, ("t", 1): 0, ("other", 0): 9}) == {"t/0": 4, "t/1": 1}
    assert group_lag(members, {("t", 0): 5}) == {}
    assert group_lag(members, {("t", 0): 5}, committed=True) == {"t/0": 4}


class Load:
    """A load with one reader, which dies as given."""

    def __init__(self, **death: Any) -> None:
        self.death = Death(2, **death)

    def crash_member(self, group: str, records: int, *, frozen: bool) -> Death:
        assert (group, records, frozen) == ("g", 2, False)
        return self.death

    def highest_acked(self) -> dict[tuple[str, int], int]:
        return {("t", 0): 2}

    def behind(self, group: str, acked: dict[tuple[str, int], int], *, committed: bool) -> dict[str, int]:
        assert acked == {("t", 0): 2}
        return {} if self.death.between else {"t/0": 3}


def stage(load: Load) -> Any:
    events: list[Event] = []
    return SimpleNamespace(load=load, events=events, record_event=events.append)


def test_the_step_has_an_effect_when_the_reader_is_dead_and_records_the_offsets() -> None:
    played = stage(Load(between={("t", 0): (5, 7)}))
    with ReaderDies(group="g", records=2).active(played) as injected:
        assert injected.probe().because == "the member of g died with 2 offsets between commit and processing"
    assert untimed(played.events) == [
        {"kind": "reader_died", "topic": "t", "partition": 0, "group": "g", "from_offset": 5, "before_offset": 7}
    ]
    assert played.load.death.called_off


def test_the_step_has_no_effect_while_the_reader_lives() -> None:
    for load, said in (
        (Load(held=cast(Any, [1])), "group g received 1 of 2 records"),
        (Load(refused=True), "the commit of group g before its death was not acknowledged"),
    ):
        played = stage(load)
        with ReaderDies(group="g", records=2).active(played) as injected:
            assert (injected.probe().held, injected.probe().because) == (False, said)
        assert (played.events, load.death.called_off) == ([], True)


def test_a_group_that_has_not_read_everything_is_waited_for() -> None:
    WaitRead(group="g", deadline_s=1).perform(stage(Load(between={("t", 0): (5, 7)})))
    with pytest.raises(HarnessTimeout, match="group g to receive all acknowledged records"):
        WaitRead(group="g", deadline_s=0.01).perform(stage(Load()))


def test_the_step_is_refused_for_a_group_with_several_members() -> None:
    readers = tuple(Reader(name=name, topics=("t",), group="g") for name in ("a", "b"))
    scenario = Scenario(
        name="s",
        title="",
        property="",
        topics=(Topic(name="t", partitions=1),),
        producers=(Producer(name="p", topics=("t",)),),
        readers=readers,
        steps=(Step(do="reader_dies", name="it", args={"group": "g"}),),
    )
    with pytest.raises(BadInput, match="g has several members, a, b, and this step needs the only one"):
        check_steps(scenario)
