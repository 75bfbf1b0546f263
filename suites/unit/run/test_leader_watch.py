"""Changes of leaders that are seen by looking: which events come of them, and when one permits nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.kafka.admin.topics import PartitionState
from harness.model.documents.steps import InternalLeaderSeen, LeaderSeen, Step
from harness.model.errors import HarnessTimeout
from harness.model.waiting import wait_for
from harness.run.leader_watch import Changes, LeaderWatch, with_events

OFFSETS = "__consumer_offsets"
FIRST = PartitionState(
    topic="plain", topic_id="A", partition=0, leader=1, leader_epoch=4, isr=(1, 2), replicas=(1, 2, 3), elr=()
)


def events(*states: PartitionState) -> list[LeaderSeen | InternalLeaderSeen]:
    changes = Changes({OFFSETS})
    for number, state in enumerate(states, 1):
        changes.looked([state], number)
    return changes.seen


def test_a_new_leader_from_the_isr_is_a_clean_election() -> None:
    (event,) = events(FIRST, replace(FIRST, leader=2, leader_epoch=5, isr=(2,)))
    assert isinstance(event, LeaderSeen)
    assert (event.topic, event.partition, event.at_ns) == ("plain", 0, 2)
    assert (event.old_leader, event.new_leader, event.leader_epoch, event.clean) == (1, 2, 5, True)


def test_a_new_leader_from_the_elr_is_a_clean_election() -> None:
    first = replace(FIRST, isr=(1,), elr=(3,))
    (event,) = events(first, replace(first, leader=3, leader_epoch=5, isr=(3,)))
    assert event.clean is True


def test_a_new_leader_from_outside_isr_and_elr_is_an_unclean_one() -> None:
    (event,) = events(FIRST, replace(FIRST, leader=3, leader_epoch=5, isr=(3,)))
    assert event.clean is False


def test_a_partition_that_lost_its_leader_between_two_looks_counts_as_one_change() -> None:
    """Two epochs: no leader, and then the new one."""
    (event,) = events(FIRST, replace(FIRST, leader=3, leader_epoch=6, isr=(3,)))
    assert event.clean is False


def test_after_several_changes_between_two_looks_nothing_is_said() -> None:
    (event,) = events(FIRST, replace(FIRST, leader=3, leader_epoch=7, isr=(3,)))
    assert event.clean is None


def test_the_loss_of_a_leader_is_an_event_that_says_nothing_about_elections() -> None:
    gone, back = replace(FIRST, leader=-1, leader_epoch=5, isr=(1,)), replace(FIRST, leader_epoch=6, isr=(1,))
    lost, found = events(FIRST, gone, back)
    assert (lost.old_leader, lost.new_leader, lost.clean) == (1, -1, None)
    assert (found.old_leader, found.new_leader, found.clean) == (-1, 1, True)


def test_an_epoch_without_another_leader_is_no_event() -> None:
    assert events(FIRST, replace(FIRST, leader_epoch=5, isr=(1,))) == []


def test_the_answer_of_a_broker_that_is_behind_is_no_event() -> None:
    newer = replace(FIRST, leader=2, leader_epoch=5, isr=(2,))
    assert len(events(FIRST, newer, FIRST, newer)) == 1


def test_a_topic_that_was_created_again_begins_anew() -> None:
    again = replace(FIRST, topic_id="B", leader=3, leader_epoch=0, isr=(3,))
    assert events(FIRST, again) == []
    assert len(events(FIRST, again, replace(again, leader=1, leader_epoch=1))) == 1


def test_a_topic_of_kafka_has_events_with_the_times_that_a_judge_needs() -> None:
    own = replace(FIRST, topic=OFFSETS)
    alone = replace(own, isr=(1,))
    (event,) = events(own, alone, replace(own, leader=2, leader_epoch=5, isr=(2,)))
    assert isinstance(event, InternalLeaderSeen)
    assert (event.at_ns, event.since_ns, event.in_sync_ns, event.clean) == (3, 2, 1, False)


def row(name: str, started_ns: int | None) -> Step:
    return Step(
        name=name,
        do="wait",
        started_ns=started_ns,
        ended_ns=None,
        healed_ns=None,
        is_fault=False,
        facts=(),
        events=(),
    )


def seen(at_ns: int) -> LeaderSeen:
    return LeaderSeen(topic="t", partition=0, at_ns=at_ns, old_leader=1, new_leader=2, leader_epoch=at_ns, clean=True)


def test_an_event_belongs_to_the_last_step_that_had_begun() -> None:
    rows = (row("one", 10), row("two", 20), row("never", None))
    found = with_events(rows, [seen(5), seen(12), seen(20), seen(99)])
    assert [[event.at_ns for event in one.events] for one in found] == [[5, 12], [20, 99], []]


def test_without_a_step_that_began_there_is_nowhere_for_an_event() -> None:
    assert with_events((row("never", None),), [seen(1)]) == (row("never", None),)
    assert with_events((), [seen(1)]) == ()


def test_the_watch_looks_until_it_ends_and_survives_brokers_that_do_not_answer() -> None:
    looks = [[FIRST], None, [replace(FIRST, leader=2, leader_epoch=5, isr=(2,))]]
    asked: list[Sequence[str]] = []

    def look(topics: object) -> list[PartitionState]:
        asked.append(list(topics))  # type: ignore[call-overload]
        found = looks[min(len(asked), len(looks)) - 1]
        if found is None:
            raise HarnessTimeout("no broker answers")
        return found

    with LeaderWatch(look, ["plain"], [OFFSETS]) as watch:
        wait_for(watch.seen, until=bool, deadline_s=10, what="the second leader", interval_s=0.01)
    assert [event.new_leader for event in watch.of_topics()] == [2]
    assert asked[0] == ["plain", OFFSETS]
