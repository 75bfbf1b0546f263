"""A read of a copy counts if it reached its target and the wanted broker served it. Gaps in the log."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition

from harness.model.documents.reads import OffsetGap
from harness.model.wait_budget import WaitBudget
from harness.workload.consumers.live_readers import ReadContext, serving_brokers
from harness.workload.drain import offset_gaps, replica_reads
from harness.workload.drain.replica_reads import Copy, CopyReader, ReadProgress, ReadTimeouts
from harness.workload.producers.recording_producer import Target

COPY = Copy(topic="t", partition=0, leader=1, logs={1: (5, 40), 2: (5, 42), 3: (7, 40)})
PLACE = ("t", 0)
CONTEXT = ReadContext(bootstrap="", targets={"t": Target(topic="t", topic_id="id", partitions=1)}, run=1)


def reader(broker: int | None, sentinels: dict[tuple[str, int], int] | None = None) -> CopyReader:
    return CopyReader(
        CONTEXT, [COPY], sentinels or {}, isolation="read_committed", broker=broker, timeouts=ReadTimeouts()
    )


def statistics(broker: int, received: int) -> str:
    partitions = {"0": {"broker": broker, "rxmsgs": received}, "-1": {"broker": -1, "rxmsgs": 0}}
    return json.dumps({"topics": {"t": {"partitions": partitions}}})


def read(**changes: Any) -> ReadProgress:
    row = reader(2).reads[PLACE]
    for name, value in changes.items():
        setattr(row, name, value)
    return row


def test_the_target_is_the_highest_log_end_of_any_replica() -> None:
    assert reader(None).reads[PLACE].target == 42


def test_a_sentinel_above_every_log_end_is_part_of_the_target() -> None:
    assert reader(None, {PLACE: 43}).reads[PLACE].target == 44


@pytest.mark.parametrize(("broker", "replica", "start"), [(None, 1, 5), (2, 2, 5), (3, 3, 7)])
def test_a_copy_is_read_from_its_own_log_start(broker: int | None, replica: int, start: int) -> None:
    row = reader(broker).reads[PLACE]
    assert (row.replica, row.start) == (replica, start)


def test_the_leader_s_copy_is_not_read_twice() -> None:
    assert reader(1).reads == {}


def test_a_replica_without_log_offsets_is_not_read() -> None:
    assert reader(4).reads == {}


@pytest.mark.parametrize(
    ("changes", "reached"),
    [
        ({"position": 42}, True),
        ({"position": 41}, False),
        ({"position": 42, "stuck_reason": "broker 1 served it instead of broker 2"}, False),
        ({}, False),
    ],
)
def test_a_read_is_complete_at_its_target_without_a_stuck_reason(changes: dict[str, Any], reached: bool) -> None:
    assert read(**changes).record().reached is reached


def test_statistics_name_the_serving_broker() -> None:
    assert serving_brokers(statistics(2, 10)) == {PLACE: (2, 10)}


@pytest.mark.parametrize(
    ("seen", "served_by"),
    [
        ([(2, 0), (2, 30)], {2}),
        ([(2, 0), (1, 30)], {1, 2}),
        ([(1, 0), (2, 30)], {1, 2}),  # between two statistics it may have been either
        ([(2, 0), (1, 0), (2, 0), (2, 30)], {2}),
        ([(2, 0), (-1, 0), (2, 30)], {2}),  # without a broker no record arrived
        ([(2, 0), (-1, 30), (2, 30)], {2}),
        ([(2, 0), (-1, 0), (1, 30)], {1}),
        ([(2, 0), (-1, 0), (-1, 30)], {-1}),  # records arrived from an unknown broker
        ([(-1, 0), (2, 0)], set()),
    ],
)
def test_records_between_two_statistics_came_from_a_broker_that_one_of_them_names(
    seen: list[tuple[int, int]], served_by: set[int]
) -> None:
    copy = reader(2)
    for look in seen:
        copy._on_statistics(statistics(*look))
    assert copy.reads[PLACE].served_by == served_by


@pytest.mark.parametrize(
    ("broker", "changes", "failed"),
    [
        (2, {"position": 42, "served_by": {2}}, []),
        (2, {"position": 41, "served_by": {2}}, [PLACE]),
        (2, {"position": 42, "served_by": {1, 2}}, [PLACE]),
        (2, {"position": 42, "served_by": {-1}}, [PLACE]),
        (None, {"position": 42, "served_by": {1, 3}}, []),  # the leader may change
        (None, {"position": 42, "stuck_reason": "broke off"}, [PLACE]),
    ],
)
def test_a_read_fails_if_it_stopped_early_or_met_another_broker(
    broker: int | None, changes: dict[str, Any], failed: list[tuple[str, int]]
) -> None:
    copy = reader(broker)
    for name, value in changes.items():
        setattr(copy.reads[PLACE], name, value)
    assert copy.failed() == failed


def event(error: int) -> Message:
    """An error that a poll returns in place of a record."""
    return Message(topic="t", partition=0, error=KafkaError(error))


class Scripted:
    """A consumer that returns the given polls, each together with its statistics."""

    def __init__(self, copy: CopyReader, *polls: tuple[list[Message], str], seekable: bool = True) -> None:
        self.copy = copy
        self.polls = list(polls)
        self.seekable = seekable
        self.assigned: list[int] = []
        self.sought: list[int] = []
        self.paused: list[tuple[str, int]] = []

    def pause(self, places: list[Any]) -> None:
        self.paused += [(place.topic, place.partition) for place in places]

    def consume(self, records: int, timeout_s: float) -> list[Message]:
        events, text = self.polls.pop(0) if len(self.polls) > 1 else self.polls[0]
        self.copy._on_statistics(text)
        return events

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return 30, 42

    def assignment(self) -> list[Any]:
        return [TopicPartition(*PLACE)]

    def incremental_unassign(self, places: list[Any]) -> None:
        self.assigned.append(-1)

    def incremental_assign(self, places: list[Any]) -> None:
        self.assigned.append(places[0].offset)

    def seek(self, start: Any) -> None:
        if not self.seekable:
            raise KafkaException("no position")
        self.sought.append(start.offset)


def test_a_jump_before_the_redirect_starts_at_the_new_log_start() -> None:
    copy = reader(2)
    jump = event(KafkaError._AUTO_OFFSET_RESET)
    consumer = Scripted(copy, ([], statistics(1, 0)), ([jump], statistics(1, 0)), ([], statistics(2, 0)))
    copy._wait_for_followers(cast(Any, consumer))
    assert (consumer.assigned, consumer.sought) == ([-1, 30], [30])
    assert (copy.reads[PLACE].start, copy.reads[PLACE].stuck_reason) == (30, None)


def test_a_position_that_cannot_be_sought_is_assigned_again() -> None:
    copy = reader(2)
    consumer = Scripted(copy, ([], statistics(2, 0)), seekable=False)
    copy._wait_for_followers(cast(Any, consumer))
    assert consumer.assigned == [-1, 5]


def test_reading_records_again_is_no_progress() -> None:
    """Otherwise a read before a gap in the log would end only at its total timeout."""
    copy = reader(None)
    consumer = Scripted(copy, ([event(KafkaError._AUTO_OFFSET_RESET)], statistics(1, 0)))
    observer: Any = SimpleNamespace(
        next_offset={PLACE: 7}, rows={PLACE: 0}, observe=lambda records: None, new_session=lambda _: None
    )
    moved = []
    for offset in (7, 3, 7, 8):
        observer.next_offset[PLACE] = offset
        consumer.polls = [([Message(topic="t", partition=0, offset=offset - 1)], statistics(1, 0))]
        moved.append(copy._turn(cast(Any, consumer), observer))
    assert moved == [True, False, False, True]
    consumer.polls = [([event(KafkaError._AUTO_OFFSET_RESET)], statistics(1, 0))]
    moved = [copy._turn(cast(Any, consumer), observer) for _ in range(8)]
    assert not any(moved)
    begin = OFFSET_BEGINNING
    assert [at for at in consumer.assigned if at != -1] == [begin, begin, 8, begin, 8, 8, 8, begin]


@pytest.mark.parametrize(("times", "ended"), [(4, False), (5, True)])
def test_a_read_ends_if_it_is_given_the_same_records_again_and_again(
    times: int, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row of the same offset is compared with all others, so a broker without end makes evidence without end."""
    monkeypatch.setattr(replica_reads, "_REPEATED_LEAST", 0)
    copy = reader(None)
    consumer = Scripted(copy, ([Message(topic="t", partition=0, offset=20)], statistics(1, 0)))
    observer: Any = SimpleNamespace(next_offset={PLACE: 21}, rows={PLACE: times * (42 - 5)}, observe=lambda _: None)
    copy._turn(cast(Any, consumer), observer)
    assert consumer.paused == ([PLACE] if ended else [])
    why = "t[0] gave 185 records for 37 offsets, the same ones again and again, and the read was at offset 21 of 42"
    assert copy.reads[PLACE].stuck_reason == (why if ended else None)


def read_with_gap(
    broker: int | None,
    monkeypatch: pytest.MonkeyPatch,
    *,
    jumps: int,
    comes_to: int,
    timeouts: ReadTimeouts | None = None,
) -> tuple[CopyReader, list[int]]:
    """A read at offset 7 that gets `jumps` out-of-range errors, and then the record before `comes_to`.

    Also returns the offsets that it assigned.
    """
    monkeypatch.setattr(offset_gaps, "GAP_AFTER_S", 0.0)
    copies = [replace(COPY, segment_starts=(5, 20, 30))]
    timeouts = timeouts or ReadTimeouts()
    copy = CopyReader(CONTEXT, copies, {}, isolation="read_committed", broker=broker, timeouts=timeouts)
    consumer = Scripted(copy)
    observer: Any = SimpleNamespace(
        next_offset={PLACE: 7}, rows={PLACE: 0}, observe=lambda records: None, new_session=lambda _: None
    )
    copy.reads[PLACE].position = 7
    jump = event(KafkaError._AUTO_OFFSET_RESET)
    for _ in range(jumps):
        consumer.polls = [([jump], statistics(1, 0))]
        copy._turn(cast(Any, consumer), observer)
    observer.next_offset[PLACE] = comes_to
    consumer.polls = [([Message(topic="t", partition=0, offset=comes_to - 1)], statistics(1, 0))]
    copy._turn(cast(Any, consumer), observer)
    return copy, [at for at in consumer.assigned if at != -1]


def test_after_a_gap_the_leaders_copy_is_read_from_the_next_start_that_exists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy, assigned = read_with_gap(None, monkeypatch, jumps=2, comes_to=42)
    assert assigned == [20, 30]
    assert copy.reads[PLACE].record().holes == (OffsetGap(from_offset=7, to_offset=30),)
    assert copy.reads[PLACE].reached
    assert (copy.failed(), copy.unsure()) == ([], [PLACE])


def test_no_gap_is_recorded_if_the_read_continues_at_the_log_start(monkeypatch: pytest.MonkeyPatch) -> None:
    copy, assigned = read_with_gap(None, monkeypatch, jumps=3, comes_to=42)
    assert assigned == [20, 30, OFFSET_BEGINNING]
    assert copy.reads[PLACE].record().holes == ()
    assert copy.unsure() == []


def test_no_gap_is_recorded_if_no_record_comes_from_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    copy, _ = read_with_gap(None, monkeypatch, jumps=2, comes_to=7)
    assert (copy.reads[PLACE].holes, copy.failed()) == ([], [PLACE])


def test_the_read_of_a_follower_ends_before_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    copy, assigned = read_with_gap(2, monkeypatch, jumps=3, comes_to=7)
    assert not {20, 30} & set(assigned)
    assert copy.reads[PLACE].holes == []
    assert copy.failed() == [PLACE]
    assert "is stuck at offset 7 of 42 before a gap in the log" in (copy.reads[PLACE].stuck_reason or "")


def unreadable(offset: int, *, segment_starts: tuple[int, ...] = (5, 20, 30), times: int = 1) -> CopyReader:
    """A read at offset 7; its leader fails `times` times to read an offset."""
    copies = [replace(COPY, segment_starts=segment_starts)]
    copy = CopyReader(CONTEXT, copies, {}, isolation="read_committed", broker=None, timeouts=ReadTimeouts())
    observer: Any = SimpleNamespace(
        next_offset={PLACE: 7}, rows={PLACE: 0}, observe=lambda records: None, new_session=lambda _: None
    )
    copy.reads[PLACE].position = 7
    failed = Message(topic="t", partition=0, offset=offset, error=KafkaError(KafkaError.UNKNOWN))
    for _ in range(times):
        copy._on_event(cast(Any, Scripted(copy)), observer, failed)
    return copy


@pytest.mark.parametrize(
    ("offset", "segment_starts", "over"),
    [
        (7, (5, 20, 30), {PLACE: (7, 20)}),
        (7, (5, 7, 20), {}),  # a part of the log starts there: it exists, and cannot be read
        (6, (5, 20, 30), {}),  # the error is about an offset that it has passed
        (7, (5,), {}),  # no part of the log starts after it
    ],
)
def test_an_unreadable_offset_is_a_gap_only_if_no_part_of_the_log_starts_there(
    offset: int, segment_starts: tuple[int, ...], over: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_gaps, "GAP_AFTER_S", 0.0)
    assert unreadable(offset, segment_starts=segment_starts)._skipping == over
    # Repeated errors do not make it skip the next part as well.
    assert unreadable(offset, segment_starts=segment_starts, times=3)._skipping == over


def test_an_offset_that_is_unreadable_for_a_moment_is_no_gap() -> None:
    assert unreadable(7, times=3)._skipping == {}


@pytest.mark.parametrize(("received", "served_by"), [((10, 10), [2]), ((10, 20), [1, 2])])
def test_the_last_serving_broker_counts_only_if_records_arrived(
    received: tuple[int, int], served_by: list[int]
) -> None:
    copy = reader(2)
    copy._on_statistics(statistics(2, received[0]))
    consumer = Scripted(copy, ([], statistics(1, received[1])))
    copy._confirm_brokers(cast(Any, consumer), cast(Any, SimpleNamespace(observe=lambda records: None)))
    assert sorted(copy.reads[PLACE].served_by) == served_by


@pytest.mark.parametrize(("broker", "stuck"), [(2, False), (1, True), (-1, True)])
def test_an_empty_copy_is_served_by_the_broker_that_the_statistics_name(broker: int, stuck: bool) -> None:
    copy = reader(2)
    consumer = Scripted(copy, ([], statistics(broker, 0)))
    copy._confirm_brokers(cast(Any, consumer), cast(Any, SimpleNamespace(observe=lambda records: None)))
    assert copy.reads[PLACE].served_by == {broker}
    assert (copy.reads[PLACE].stuck_reason is not None) is stuck


def spent() -> ReadTimeouts:
    budget = WaitBudget(0.0)
    budget.begin("a step failed")
    return ReadTimeouts(budget=budget)


def test_with_a_spent_budget_a_read_ends_before_a_gap_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    copy, assigned = read_with_gap(None, monkeypatch, jumps=2, comes_to=7, timeouts=spent())
    row = copy.reads[PLACE].record()
    assert (assigned, row.holes, row.cut_short, row.reached) == ([], (), True, False)
    assert "before a gap in the log, cut short because of an earlier wait in vain: a step failed" in (
        row.stuck_reason or ""
    )


def test_many_gaps_in_one_log_begin_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts = ReadTimeouts()
    copy, _ = read_with_gap(None, monkeypatch, jumps=1, comes_to=42, timeouts=timeouts)
    assert timeouts.budget.left_s(30.0, 0.0) == 30.0
    copy.reads[PLACE].holes *= 3
    copy._skip_gap(cast(Any, Scripted(copy)), cast(Any, SimpleNamespace(new_session=lambda _: None)), *at_gap(copy))
    assert timeouts.budget.cause == "the read leader-committed met 4 gaps in one log"


def at_gap(copy: CopyReader) -> tuple[ReadProgress, int]:
    return copy.reads[PLACE], 30


@pytest.mark.parametrize("stalls_s", [0.0, 30.0])
def test_a_read_that_stalls_begins_the_budget_and_is_cut_short_only_by_a_spent_one(
    monkeypatch: pytest.MonkeyPatch, stalls_s: float
) -> None:
    monkeypatch.setattr(replica_reads, "STALL_LEAST_S", 0.0)
    timeouts = replace(spent(), stall_s=30.0) if stalls_s else ReadTimeouts(stall_s=0.0)
    copy = CopyReader(CONTEXT, [COPY], {}, isolation="read_committed", broker=None, timeouts=timeouts)
    monkeypatch.setattr(copy, "_turn", lambda *_: False)
    monkeypatch.setattr(copy, "_confirm_brokers", lambda *_: None)
    copy._read(cast(Any, None), cast(Any, SimpleNamespace(new_session=lambda _: None)))
    assert copy.reads[PLACE].cut_short is bool(stalls_s)
    assert copy.reads[PLACE].stuck_reason
    assert timeouts.budget.cause
