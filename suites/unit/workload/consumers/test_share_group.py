"""Share groups without a JVM: their rules in a scenario, acknowledgements and death of a member, the wait for lag."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException
from msgspec import convert, to_builtins

from harness.commands.options import GateOptions
from harness.commands.scenario_selection import Wanted, assign_backends
from harness.faults.clients.reader_dies import ReaderDies
from harness.faults.steps.registry import check_steps
from harness.kafka.admin import share_groups
from harness.kafka.admin.share_groups import ShareOffset
from harness.kafka.messages import DescribeShareGroupOffsetsResponse as Answer
from harness.kafka.release import java_clients
from harness.kafka.release.release import Release
from harness.model.contract.contract import contract_of
from harness.model.documents.contract import Contract
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Reader, Scenario
from harness.model.scenario.toml import parse
from harness.run.share_groups import drained, set_up
from harness.workload.consumers.crashing_consumer import Death
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.consumers.share_group import ShareReader
from harness.workload.java.java_process import JavaError
from harness.workload.java.java_share import Answers
from harness.workload.producers.recording_producer import Target
from suites.unit.faults.steps.scripted import context_on

TEXT = """
title = "t"
property = "g"
STEPS
[topics]
t = { partitions = 2 }
[producers]
p = { topics = ["t"] }
[readers]
one = { topics = ["t"], client = "java", group = "jobs", protocol = "share" MORE }
"""
DIES = 'steps = [{ do = "reader_dies", group = "jobs" }, { do = "heal", fault = "reader_dies" }]'
CONTEXT = ReadContext(bootstrap="", targets={"t": Target(topic="t", topic_id="T", partitions=2)}, run=1)


def read(more: str = "", steps: str = "", rest: str = "") -> Scenario:
    return parse(TEXT.replace("MORE", more).replace("STEPS", steps) + rest, "s", check_steps)


def refused(more: str = "", steps: str = "", rest: str = "") -> str:
    with pytest.raises(BadInput) as reported:
        read(more, steps, rest)
    assert "\n" not in str(reported.value)
    return str(reported.value)


TWO = 'two = { topics = ["t"], client = "java", group = "jobs" PROTOCOL }'


@pytest.mark.parametrize(
    ("more", "rest", "reported"),
    [
        (', commits = "before"', "", "acknowledges each record; leave out static and commits"),
        (", static = true", "", "acknowledges each record; leave out static and commits"),
        (", releases = 2", "", "releases_every; set that, too"),
        (', group_config = { "share.isolation.level" = "read_committed" }', "", "set isolation = 'read_committed'"),
        (', group_config = { "session.timeout.ms" = 1 }', "", "they begin with share."),
        (', group_config = { "share.delivery.count.limit" = "x" }', "", "'x'; give a whole number"),
        ("", TWO.replace("PROTOCOL", ""), "which has no members of another protocol"),
        (
            "",
            TWO.replace("PROTOCOL", ', protocol = "share", isolation = "read_uncommitted"'),
            "have different group_config",
        ),
        (
            "",
            'two = { topics = ["t"], group = "g", protocol = "share" }',
            'set client = "java" with protocol = "share"',
        ),
        ("", 'two = { topics = ["t"], group = "g", releases_every = 2 }', 'rejects_every need protocol = "share"'),
    ],
)
def test_invalid_readers_of_share_groups_are_refused(more: str, rest: str, reported: str) -> None:
    assert reported in refused(more, rest=rest)


def test_steps_that_do_not_work_with_share_groups_are_refused() -> None:
    anew = 'steps = [{ do = "recreate_topic", topic = "t", name = "anew" }]'
    assert "steps: anew: share group jobs would begin again on the new topic" in refused(steps=anew)
    again = 'steps = [{ do = "restart_reader", reader = "one" }]'
    assert "one is in a share group; its members own no partitions" in refused(steps=again)
    rolled = 'fresh = true\nsteps = [{ do = "roll", to = "tested" }]'
    assert "has no share groups; start on 4.2" in refused(steps=rolled, rest='[shape]\nstarts_on = "4.1.0"')
    assert "may have no share groups" in refused(steps=rolled, rest='[shape]\nstarts_on = "previous minor"')
    kills = 'steps = [{ do = "kill", node = "share_coordinator(GROUP:t/0)" }]'
    assert "no share group 'job'; did you mean 'jobs'?" in refused(steps=kills.replace("GROUP", "job"))
    read(steps=kills.replace("GROUP", "jobs"))
    away = 'steps = [{ do = "reader_away", group = "jobs", name = "away" }, { do = "heal", fault = "away" }]'
    assert "jobs is a share group, which commits no offsets" in refused(steps=away)
    read(steps=DIES, rest=TWO.replace("PROTOCOL", ', protocol = "share"'))  # one of two may die
    frozen = DIES.replace('"jobs" }', '"g", frozen = true }')
    assert "g is no share group, so no records are locked" in refused(
        steps=frozen, rest='g = { topics = ["t"], group = "g" }'
    )


def test_the_contract_takes_the_delivery_limit_from_the_group_or_the_brokers() -> None:
    plain = contract_of(read())
    (share,) = plain.shares.values()
    assert (share.group, share.topics, share.isolation, share.limit) == ("jobs", ("t",), "read_committed", 5)
    assert plain.readers == {}
    assert convert(to_builtins(plain), Contract) == plain
    brokers = '[shape.config]\n"group.share.delivery.count.limit" = 4'
    assert contract_of(read(rest=brokers)).shares["jobs"].limit == 4
    own = ', group_config = { "share.delivery.count.limit" = 3 }'
    assert contract_of(read(own, rest=brokers)).shares["jobs"].limit == 3
    assert read().groups == ()


def test_an_older_release_has_no_share_groups() -> None:
    with pytest.raises(
        BadInput, match=r"Kafka 4\.1\.0 does not have share groups for production, which came with 4\.2; give"
    ):
        assign_backends(GateOptions(seed=1), [Wanted(read(), read())], ["processes"], Release("4.1.0", "a", "here", ()))


@pytest.mark.parametrize(("version", "has"), [("4.2.0", True), ("4.1.1", False), ("3.9.1", False)])
def test_the_share_consumer_is_compiled_only_for_releases_that_have_it(
    version: str, has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def note(*_: Any, also: Any, **__: Any) -> Any:
        compiled.extend(path.name for path in also)
        return java_clients.DRIVER

    monkeypatch.setattr(java_clients, "compiled", note)
    release = Release(version, "c", "s", ())
    java_clients.with_java_clients(release, maven_repo=None, cache=java_clients.DRIVER.parent, progress=print)
    assert ("ClientShare.java" in compiled) is has


# --- a member ---------------------------------------------------------------------------------------------------------


class Record:
    """A record that has only its topic, partition and offset."""

    def __init__(self, partition: int, offset: int) -> None:
        self.at = ("t", partition, offset)

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return self.at[0]

    def partition(self) -> int:
        return self.at[1]

    def offset(self) -> int:
        return self.at[2]


class Broker:
    """Returns the given polls one after another, each with this delivery count."""

    def __init__(self, *polls: list[Record], count: int = 1) -> None:
        self.polls = list(polls)
        self.count = count
        self.counts: list[int] = []
        self.answered: list[Mapping[tuple[str, int], Answers]] = []
        self.refuses: Exception | None = None
        self.errors: dict[tuple[str, int], str] = {}
        self.killed = False
        self.frozen = False

    def consume(self, _: int, __: float) -> list[Record]:
        found = self.polls.pop(0)
        self.counts = [self.count] * len(found)
        return found

    def acknowledge(self, answers: Mapping[tuple[str, int], Answers]) -> dict[tuple[str, int], str]:
        self.answered.append(answers)
        if self.refuses:
            raise self.refuses
        return self.errors

    def kill(self) -> None:
        self.killed = True

    def freeze(self) -> None:
        self.frozen = True


class Member(ShareReader):
    def __init__(self, acked: dict[tuple[str, int], int] | None = None, *, alone: bool = True, **more: Any) -> None:
        self.rows: list[dict[str, Any]] = []
        self.sessions: list[list[int]] = []
        table = cast(Any, SimpleNamespace(append=self.rows.append))
        spec = Reader(name="one", topics=("t",), client="java", group="jobs", protocol="share", **more)
        super().__init__(spec, CONTEXT, table, table, lambda: acked or {}, alone=alone)
        self._observer = cast(Any, SimpleNamespace(new_session=lambda _: None, observe=self.observe, seen=0))

    def observe(self, records: list[Any]) -> None:
        self.sessions.append([record.offset() for record in records])


def some(*offsets: int, partition: int = 0) -> list[Record]:
    return [Record(partition, offset) for offset in offsets]


def test_each_record_is_observed_and_accepted() -> None:
    member, broker = Member(), Broker(some(0, 1, 4) + some(7, partition=1))
    member._turn(cast(Any, broker))
    assert member.sessions == [[0, 1], [4], [7]]  # other members may have got the offsets between
    assert broker.answered == [
        {("t", 0): [(0, "accept"), (1, "accept"), (4, "accept")], ("t", 1): [(7, "accept")]},
    ]
    assert [(row["offset"], row["outcome"], row["error"]) for row in member.rows] == [
        ([0, 1, 4], "acked", None),
        ([7], "acked", None),
    ]
    assert (member.positions, member.acked_commits) == ({("t", 0): 5, ("t", 1): 8}, 2)


def test_the_same_offsets_are_released_or_rejected_each_time() -> None:
    for member, answer in ((Member(releases_every=3), "release"), (Member(rejects_every=3), "reject")):
        broker = Broker(some(0, 1, 2, 3), some(2))
        member._turn(cast(Any, broker))
        member._turn(cast(Any, broker))
        assert [row["answer"] for row in member.rows] == [["accept", "accept", answer, "accept"], [answer]]


def test_a_record_is_released_as_often_as_its_reader_says_and_then_rejected_or_accepted() -> None:
    for member, last in (
        (Member(releases_every=3, releases=2), "accept"),
        (Member(releases_every=3, releases=2, rejects_every=3), "reject"),
    ):
        for count in (1, 2, 3):
            member._turn(cast(Any, Broker(some(2), count=count)))
        assert [row["answer"] for row in member.rows] == [["release"], ["release"], [last]]


def test_a_failed_acknowledgement_is_unknown() -> None:
    member, broker = Member(), Broker(some(0) + some(1, partition=1))
    broker.errors = {("t", 1): "InvalidRecordStateException"}
    member._turn(cast(Any, broker))
    assert [(row["outcome"], row["error"]) for row in member.rows] == [
        ("acked", None),
        ("unknown", "InvalidRecordStateException"),
    ]
    broker = Broker(some(2))
    broker.refuses = KafkaException(JavaError("TimeoutException", 2))
    member._turn(cast(Any, broker))
    assert (member.rows[-1]["outcome"], member.rows[-1]["error"]) == ("unknown", "TimeoutException")
    broker = Broker(some(3))
    broker.refuses = KafkaException(JavaError("IllegalStateException", 1))
    with pytest.raises(KafkaException):
        member._turn(cast(Any, broker))
    assert member.rows[-1]["outcome"] == "unknown"


def test_the_only_member_waits_for_enough_records_and_dies_with_them() -> None:
    acked = {("t", 0): 1, ("other", 0): 99}
    member, broker = Member(acked), Broker(some(0, 1, 2))
    death = member.die(3)
    member._turn(cast(Any, broker))
    assert broker.polls  # two of three
    acked["t", 0] = 2
    member._turn(cast(Any, broker))
    assert broker.killed
    assert broker.answered == []
    assert death.between == {("t", 0): (0, 3)}
    assert [(row["offset"], row["answer"], row["outcome"]) for row in member.rows] == [([0, 1, 2], None, None)]


def test_one_of_several_members_dies_with_the_first_large_enough_poll() -> None:
    member, broker = Member(alone=False), Broker(some(0), some(1, 2))
    death = member.die(2)
    member._turn(cast(Any, broker))
    assert (broker.killed, death.between, len(death.held)) == (False, None, 1)
    member._turn(cast(Any, broker))
    assert (broker.killed, death.between) == (True, {("t", 0): (1, 3)})


def test_a_frozen_member_stays_connected_until_its_death_is_called_off(monkeypatch: pytest.MonkeyPatch) -> None:
    member, broker, another = Member(alone=False), Broker(some(0, 1)), Broker(some(2), some(3))
    monkeypatch.setattr(member, "_consumer", lambda: another)
    monkeypatch.setattr(member, "_begin", lambda consumer: None)
    death = member.die(2, frozen=True)
    member._turn(cast(Any, broker))
    assert (broker.frozen, broker.killed, broker.answered) == (True, False, [])
    assert member._current(cast(Any, broker)) is cast(Any, another)
    member._turn(cast(Any, another))
    assert not broker.killed
    death.called_off = True
    member._turn(cast(Any, another))
    assert (broker.killed, another.killed, len(another.answered)) == (True, False, 2)


def test_a_frozen_member_ends_with_its_reader() -> None:
    member, broker = Member(alone=False), Broker(some(0))
    member.die(1, frozen=True)
    member._turn(cast(Any, broker))
    member._close_consumer(cast(Any, SimpleNamespace(close=lambda: None)))
    assert broker.killed


def test_a_member_lives_on_after_its_death_is_called_off() -> None:
    member, broker = Member(), Broker(some(0))
    member.die(5).called_off = True
    member._turn(cast(Any, broker))
    assert not broker.killed
    assert len(broker.answered) == 1


def test_the_step_reports_the_offsets_with_which_the_member_died() -> None:
    death = Death(2)
    stage = context_on(SimpleNamespace(acks_ago_s=0.0), crash_member=lambda group, records, frozen: death)
    with ReaderDies(group="jobs", records=2).active(stage) as injected:
        assert not injected.probe().held
        death.between = {("t", 0): (3, 5)}
        assert injected.probe().held
        assert injected.probe().seen == {"t/0": [3, 5]}
    assert death.called_off


# --- the group --------------------------------------------------------------------------------------------------------


class Admin:
    """An admin client that returns the given share offsets one after another; the last one repeats."""

    def __init__(self, *reported: dict[tuple[str, int], ShareOffset]) -> None:
        self.reported = list(reported)
        self.config: dict[str, dict[str, str]] = {}

    def alter_group_config(self, group: str, config: dict[str, str]) -> None:
        self.config[group] = config

    def share_offsets(self, _: str, __: float) -> dict[tuple[str, int], ShareOffset]:
        return self.reported.pop(0) if len(self.reported) > 1 else self.reported[0]


def test_a_group_starts_at_the_log_start_by_default() -> None:
    admin = Admin()
    set_up(cast(Any, admin), read())
    assert admin.config == {"jobs": {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}}
    set_up(cast(Any, admin), read(', group_config = { "share.auto.offset.reset" = "latest" }'))
    assert admin.config["jobs"]["share.auto.offset.reset"] == "latest"


def test_the_contract_says_where_a_group_begins() -> None:
    assert contract_of(read()).shares["jobs"].reset == "earliest"
    late = read(', group_config = { "share.auto.offset.reset" = "latest" }')
    assert contract_of(late).shares["jobs"].reset == "latest"
    told = refused(', group_config = { "share.auto.offset.reset" = "by_duration:PT1H" }')
    assert told.endswith("share.auto.offset.reset = 'by_duration:PT1H'; it is one of earliest; latest")


def test_the_drain_waits_until_no_partition_has_lag() -> None:
    some_left = {("t", 0): ShareOffset(3, 0), ("t", 1): ShareOffset(0, 2)}
    done = {("t", 0): ShareOffset(3, 0), ("t", 1): ShareOffset(2, 0)}
    rows = drained(cast(Any, Admin({}, some_left, done)), read())
    assert [(r.group, r.topic, r.partition, r.start, r.lag) for r in rows] == [
        ("jobs", "t", 0, 3, 0),
        ("jobs", "t", 1, 2, 0),
    ]


def test_the_remaining_lag_is_returned_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.run.share_groups._MARGIN_S", 0.1)
    own = ', group_config = { "share.record.lock.duration.ms" = 100 }'
    (first, second) = drained(cast(Any, Admin({("t", 0): ShareOffset(3, 4)})), read(own))
    assert (first.start, first.lag) == (3, 4)
    assert (second.start, second.lag) == (None, None)


def answer(lag: int, error: int = 0, of_group: int = 0) -> Any:
    group = Answer.DescribeShareGroupOffsetsResponseGroup
    topic = group.DescribeShareGroupOffsetsResponseTopic
    row = topic.DescribeShareGroupOffsetsResponsePartition(
        partition_index=1, start_offset=7, leader_epoch=0, lag=lag, error_code=error, error_message=None
    )
    rows = [topic(topic_name="t", topic_id=None, partitions=[row])]
    return Answer(
        throttle_time_ms=0, groups=[group(group_id="g", topics=rows, error_code=of_group, error_message=None)]
    )


def test_offsets_and_errors_are_read_from_a_response() -> None:
    assert share_groups._reported(answer(3)) == ({("t", 1): ShareOffset(7, 3)}, None)
    assert share_groups._reported(answer(-1)) == ({("t", 1): ShareOffset(7, None)}, None)
    assert share_groups._reported(answer(0, error=3)) == ({}, "UNKNOWN_TOPIC_OR_PARTITION")
    assert share_groups._reported(answer(0, of_group=16)) == ({}, "NOT_COORDINATOR")
