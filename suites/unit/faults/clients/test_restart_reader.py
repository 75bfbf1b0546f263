"""Restarts of members of a group: settings of each protocol, the replacement, and the proof of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from harness.faults.clients.restart_reader import RestartReader
from harness.faults.steps.registry import check_steps
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.scenario import Reader, Scenario
from harness.model.scenario.toml import from_plain
from harness.workload.consumers import live_readers
from harness.workload.consumers.crashing_consumer import CrashingReader, Restart
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.producers.recording_producer import Target

DESK = ReadContext(bootstrap="", targets={"t": Target(topic="t", topic_id="id", partitions=2)}, run=1)
PLACES = frozenset({("t", 0), ("t", 1)})


class Coordinator:
    """Accepts every commit, and remembers where it had to begin."""

    def __init__(self, committed: int = 3) -> None:
        self.offset = committed
        self.closed = False
        self.starts: list[int] = []

    def committed(self, wanted: list[TopicPartition], timeout_s: float) -> list[TopicPartition]:
        return [TopicPartition(w.topic, w.partition, self.offset) for w in wanted]

    def incremental_assign(self, starts: list[TopicPartition]) -> None:
        self.starts += [start.offset for start in starts]

    def close(self) -> None:
        self.closed = True


def member(**spec: Any) -> CrashingReader:
    table = cast(Any, SimpleNamespace(append=lambda row: None))
    return CrashingReader(Reader(name="r", topics=("t",), group="g", **spec), DESK, table, table)


def test_each_protocol_has_settings_of_its_own() -> None:
    classic, consumer = member()._settings(), member(protocol="consumer", static=True)._settings()
    assert (classic["group.protocol"], classic["session.timeout.ms"]) == ("classic", 6000)
    assert "group.instance.id" not in classic
    assert (consumer["group.protocol"], consumer["group.instance.id"]) == ("consumer", "r")
    # librdkafka accepts no client with these settings then: the coordinator decides.
    refused = {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"}
    assert refused <= classic.keys()
    assert not refused & consumer.keys()


@pytest.mark.parametrize(
    ("at_end", "committed", "start"),
    [(False, 3, 3), (False, -1, OFFSET_BEGINNING), (True, 3, OFFSET_END)],
)
def test_another_member_takes_its_place_and_continues_at_the_committed_offset(
    monkeypatch: pytest.MonkeyPatch, at_end: bool, committed: int, start: int
) -> None:
    reader, first, second = member(), Coordinator(), Coordinator(committed)
    begun: list[Any] = []

    def begin(settings: dict[str, Any]) -> Coordinator:
        begun.append(settings["group.protocol"])
        return second

    monkeypatch.setattr(live_readers, "Consumer", begin)
    monkeypatch.setattr(reader, "_begin", lambda consumer: None)
    monkeypatch.setattr(reader, "_mine", set(PLACES))
    ordered = reader.restart("consumer", at_end=at_end)
    assert not ordered.begun
    assert reader._current(cast(Any, first)) is cast(Any, second)
    assert (ordered.begun, first.closed, begun, reader.protocol) == (True, True, ["consumer"], "consumer")
    assert reader.places == frozenset()
    reader._assigned(cast(Any, second), [TopicPartition("t", 0)])
    assert (second.starts, reader.places) == ([start], frozenset({("t", 0)}))


class Member:
    """Restarts at once when ordered, and commits at each look."""

    def __init__(self, name: str, places: frozenset[Any], *, static: bool, comes_back_to: Any = None) -> None:
        self.spec = Reader(name=name, topics=("t",), group="g", static=static)
        self.places = places
        self.protocol = "classic"
        self.rebalances = 1
        self._commits = 0
        self._back_to = places if comes_back_to is None else comes_back_to
        self.others: list[Member] = []

    @property
    def acked_commits(self) -> int:
        self._commits += 1
        return self._commits

    def restart(self, protocol: Any, *, at_end: bool) -> Restart:
        self.places, self.protocol = self._back_to, protocol or self.protocol
        for other in self.others:
            other.rebalances += 1
        return Restart(cast(Any, self.protocol), at_end, begun=True)


def played(me: Member, other: Member, group_type: str = "classic", **step: Any) -> Any:
    context: Any = SimpleNamespace(
        load=SimpleNamespace(other_members=lambda reader: {"me": me, "other": other}),
        admin=SimpleNamespace(group_type=lambda group: group_type),
    )
    effect = RestartReader(reader="me", deadline_s=0.2, **step).perform(context).effect
    assert effect is not None
    return effect


MINE, THEIRS = frozenset({("t", 0)}), frozenset({("t", 1)})


def test_a_static_member_gets_its_own_partitions_again() -> None:
    effect = played(Member("me", MINE, static=True), Member("other", THEIRS, static=True))
    assert effect.held
    assert effect.seen == {"had": ["t/0"], "has": ["t/0"], "protocol": "classic"}


def test_a_static_member_with_other_partitions_has_no_effect_proof() -> None:
    effect = played(Member("me", MINE, static=True, comes_back_to=THEIRS), Member("other", THEIRS, static=True))
    assert (effect.held, effect.because) == (False, "it got other partitions than it had before")


def test_a_static_member_must_not_cause_a_rebalance() -> None:
    me, other = Member("me", MINE, static=True), Member("other", THEIRS, static=True)
    me.others = [other]
    effect = played(me, other)
    assert (effect.held, effect.because) == (False, "the group was rebalanced: other gained or lost partitions")
    me, other = Member("me", MINE, static=False), Member("other", THEIRS, static=False)
    me.others = [other]
    assert played(me, other).held  # the restart of a dynamic member causes a rebalance, as it should


@pytest.mark.parametrize(
    ("protocol", "reported", "held"),
    [
        ("consumer", "consumer", True),
        ("consumer", "classic", False),
        ("", "classic", True),
        ("", "consumer", False),
        ("consumer", "", True),
    ],
)
def test_the_group_must_have_the_protocol_of_its_members(protocol: str, reported: str, held: bool) -> None:
    me, other = Member("me", MINE, static=False), Member("other", THEIRS, static=False)
    assert played(me, other, reported, protocol=protocol).held is held


def test_a_member_without_partitions_is_waited_for() -> None:
    me = Member("me", MINE, static=True, comes_back_to=frozenset())
    with pytest.raises(HarnessTimeout, match="me to get partitions again"):
        played(me, Member("other", THEIRS, static=True))


def scenario(reader: dict[str, Any], *steps: dict[str, Any]) -> Scenario:
    plain = {"title": "t", "property": "g", "topics": {"t": {}}, "producers": {"p": {"topics": ["t"]}}}
    return from_plain({**plain, "readers": {"r": {"topics": ["t"], **reader}}, "steps": list(steps)}, "s", check_steps)


@pytest.mark.parametrize(
    ("reader", "steps", "said"),
    [
        ({"static": True}, (), "static and protocol are settings of a group member"),
        ({"protocol": "consumer"}, (), "static and protocol are settings of a group member"),
        ({"group": "g", "protocol": "next"}, (), "unknown value 'next'"),
        ({}, ({"do": "restart_reader", "reader": "r"},), "r is in no group, and has no committed offsets"),
        ({"group": "g"}, ({"do": "restart_reader", "reader": "x"},), "reader: no reader 'x'"),
    ],
)
def test_settings_without_a_meaning_are_refused(reader: dict[str, Any], steps: tuple[Any, ...], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        scenario(reader, *steps)
    assert said in str(refused.value)
    scenario({"group": "g", "static": True, "protocol": "consumer"}, {"do": "restart_reader", "reader": "r"})
