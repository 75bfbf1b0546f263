"""Steps of operators without a cluster: what they refuse, what they compute, and when they have an effect."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.faults.disks import move_log_dirs
from harness.faults.operations import reconfigure
from harness.faults.operations.reconfigure import Reconfigure
from harness.faults.operations.recreate_topic import RecreateTopic
from harness.faults.operations.throttle import held_back, lists_of
from harness.faults.steps.registry import build_step
from harness.faults.steps.step import Injection
from harness.faults.steps.step_context import StepContext
from harness.kafka.admin.client import LogDirectories, PartitionState, Reassignment, ReplicaDirectory
from harness.kafka.admin.topics import TopicsSeen
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.scenario import Step, Topic
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on
from suites.unit.faults.steps.test_step_validation import with_steps
from suites.unit.model.scenario.test_toml import read, refused

MOVING = '{ do = "reassign", on = ["two/0"], wait = false }'


@pytest.mark.parametrize(
    ("step", "reported"),
    [
        ('do = "throttle", rate_kb_s = 0', "rate_kb_s = 0; give a number from 1"),
        ('do = "throttle"', "'rate_kb_s' is missing"),
        ('do = "throttle", rate_kb_s = 1, side = "leaders"', "did you mean 'leader'?"),
        ('do = "create_partitions", topic = "plain", total = 3', "plain already has 3 partitions"),
        ('do = "create_partitions", topic = "plain", total = 1001', "total = 1001; give a number from 2 to 1000"),
        ('do = "create_partitions", topic = "held", total = 4', 'no producer with when = "always" writes to held'),
        ('do = "wait_reassigning"', 'give one: do = "reassign", wait = false'),
        ('do = "wait_reassigned"', 'give one: do = "reassign", wait = false'),
        ('do = "kill", node = "adding(two/0)"', "no earlier step leaves a reassignment under way"),
        ('do = "reconfigure", config = { "segment.bytes" = 1000 }', "give either `topic` or `node`"),
        (
            'do = "reconfigure", topic = "plain", node = "brokers", config = { "segment.bytes" = 1000 }',
            "give either `topic` or `node`",
        ),
        ('do = "reconfigure", topic = "plain"', "names no setting"),
        (
            'do = "reconfigure", topic = "plain", config = { "retention.ms" = 1 }',
            "retention.ms changes what Kafka promises",
        ),
        (
            'do = "reconfigure", node = "brokers", config = { "log.retention.ms" = 1 }',
            "log.retention.ms changes what Kafka promises",
        ),
        ('do = "reconfigure", node = "controller", config = { "num.io.threads" = 1 }', "takes brokers only"),
        (
            'do = "alter_topic", topic = "plain", config = { "message.timestamp.type" = "CreateTime" }',
            "as the topic declares it",
        ),
        ('do = "move_log_dirs", node = "broker(1)"', "set log_dirs = 2 in [shape]"),
        ('do = "recreate_topic", topic = "plain"', "grouped reads plain in a group"),
        ('do = "recreate_topic", topic = "held"', 'no producer with when = "always" writes to held'),
    ],
)
def test_steps_that_can_only_fail_or_prove_nothing_are_refused(step: str, reported: str) -> None:
    assert reported in refused(with_steps(f'{{ {step}, name = "it" }}'))


def test_a_wait_for_a_reassignment_and_its_new_replica_may_be_named() -> None:
    waits = '{ do = "wait_reassigning" }', '{ do = "kill", node = "adding(two/0)" }', '{ do = "wait_reassigned" }'
    assert len(read(with_steps(MOVING, *waits)).steps) == 4


def test_later_steps_may_name_partitions_that_a_step_adds() -> None:
    grow = '{ do = "create_partitions", topic = "plain", total = 5 }'
    waits = '{ do = "wait_acks", on = ["plain/4"] }', '{ do = "kill", node = "leader(plain/4)" }'
    assert len(read(with_steps(grow, *waits)).steps) == 3
    assert "plain has 3 partitions, counted from 0" in refused(with_steps(*waits, grow))
    assert "plain already has 5 partitions" in refused(with_steps(grow, grow))


def test_a_topic_with_changed_settings_cannot_be_recreated() -> None:
    alter = '{ do = "alter_topic", topic = "two", config = { "retention.ms" = 1 } }'
    recreate = '{ do = "recreate_topic", topic = "two" }'
    assert "an earlier alter_topic changed settings of two" in refused(with_steps(alter, recreate))
    assert len(read(with_steps(recreate, alter)).steps) == 2


def test_the_input_of_a_processor_cannot_be_recreated() -> None:
    worker = (
        'worker = { topics = ["plain"], when = "input", transactions = {}, '
        'processes = { reads = ["two"], group = "workers" } }'
    )
    text = with_steps('{ do = "recreate_topic", topic = "two" }').replace("[producers]", f"[producers]\n{worker}")
    assert "worker reads two in a group that loses its offsets with the topic" in refused(text)


@pytest.mark.parametrize(("ids", "reported"), [(("old", "new"), [("t", "new")]), (("old", ""), [])])
def test_the_load_gets_the_new_topic_id_even_if_not_every_broker_has_the_topic(
    ids: tuple[str, ...], reported: list[tuple[str, str]]
) -> None:
    """Else records of the old and of the new topic would have the same offsets of one topic."""
    recorded: list[tuple[str, str]] = []
    common: dict[str, Any] = {"leader": 1, "leader_epoch": 1, "isr": (1,), "replicas": (1,)}

    def late(_: Topic) -> str:
        raise HarnessTimeout("every broker to have the new topic t")

    def seen(_: Any) -> dict[int, TopicsSeen]:
        states = [PartitionState(topic="t", partition=0, topic_id=id_, **common) for id_ in ids]
        return {n: TopicsSeen(0, {("t", 0): state}) for n, state in enumerate(states)}

    load = SimpleNamespace(
        stop_reading=lambda *_: None,
        recreated=lambda topic, new: recorded.append((topic, new)),
        last_ack_ns=lambda *_: 2**62,
    )
    admin = SimpleNamespace(
        recreate_topic=late,
        partitions_by_broker=seen,
        partitions=lambda _: [PartitionState(topic="t", partition=0, topic_id="old", **common)],
    )
    context: Any = replace(context_of(admin), load=cast(Any, load))
    with pytest.raises(HarnessTimeout, match="every broker to have the new topic"):
        RecreateTopic(topic="t").perform(context)
    assert recorded == reported


def test_new_replicas_are_throttled_as_followers_and_old_ones_as_leaders() -> None:
    holders = {("t", 0): (1, 2), ("t", 1): (3, 1)}
    leaders, followers = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
    assert lists_of(holders, (1, 2, 3), ["leader", "follower"], everybody=False) == {
        "t": {leaders: "0:1,0:2,1:1,1:3", followers: "0:3,1:2"}
    }
    assert lists_of(holders, (1, 2, 3), ["follower"], everybody=True) == {"t": {followers: "0:1,0:2,0:3,1:1,1:2,1:3"}}


class Copies:
    """An admin of partition t/0, led by 1, to which broker 3 is being added; the test sets the log end offsets."""

    def __init__(self) -> None:
        self.leader, self.copy = 1000, 0
        self.isr: tuple[int, ...] = (1, 2)
        self.moves: dict[tuple[str, int], Reassignment] = {}
        self.settings: list[Mapping[str, str | None]] = []

    def partitions(self, topics: Any) -> list[PartitionState]:
        replicas = (1, 2, 3)
        common = {"topic_id": "i", "leader": 1, "leader_epoch": 1, "isr": self.isr, "replicas": replicas}
        return [PartitionState(topic="t", partition=0, **cast(Any, common))]

    def replica_offsets(self, topics: Any) -> dict[tuple[str, int, int], tuple[int, int]]:
        return {("t", 0, 1): (0, self.leader), ("t", 0, 2): (0, self.leader), ("t", 0, 3): (0, self.copy)}

    def reassignments(self) -> dict[tuple[str, int], Reassignment]:
        return self.moves

    def alter_topic_config(self, topic: str, config: Mapping[str, str | None]) -> None:
        self.settings.append(config)

    def alter_broker_config(self, brokers: Any, config: Mapping[str, str | None]) -> None:
        self.settings.append(config)


def context_of(admin: Any, *, acks: bool = True) -> StepContext:
    topic = Topic(name="t", partitions=1, replicas=2, config={"segment.bytes": "5000"})
    brokers = SimpleNamespace(brokers=(1, 2, 3), controllers=(101,))
    return context_on(brokers, admin=admin, topic=topic, last_ack_ns=lambda t, p: 2**62 if acks else 0)


def test_a_replica_that_does_not_get_nearer_proves_the_throttle(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    copies = Copies()
    probe = held_back(context_of(copies), [("t", 0)])
    assert not probe().held
    now_s[0], copies.copy = 1.9, 0
    assert not probe().held
    now_s[0], copies.leader = 2.1, 1500
    assert probe().seen == {"t/0 on 3": {"lacked": 1000, "lacks": 1500}}


def test_the_time_starts_again_when_a_replica_gets_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    copies = Copies()
    probe = held_back(context_of(copies), [("t", 0)])
    for at_s in range(10):
        now_s[0], copies.copy = float(at_s), 100 * at_s
        effect = probe()
        assert not effect.held
    assert "still get nearer" in effect.because
    copies.copy = copies.leader
    assert "only such replicas are throttled" in probe().because


def test_without_a_reassignment_adding_names_no_node() -> None:
    copies = Copies()
    with pytest.raises(HarnessTimeout, match=r"adding\(t/0\) names no node now"):
        context_of(copies).nodes("adding(t/0)")
    copies.moves["t", 0] = Reassignment((2, 3, 1), (3,), (1,))
    assert context_of(copies).nodes("adding(t/0)") == (3,)


@pytest.mark.parametrize(("copy", "reached"), [(0, False), (10, True), (1000, False)])
def test_a_reassignment_copies_while_the_new_replica_has_some_records_and_not_all(copy: int, reached: bool) -> None:
    copies = Copies()
    copies.moves["t", 0], copies.copy = Reassignment((2, 3, 1), (3,), (1,)), copy
    (row,) = run_steps(context_of(copies), [Step(do="wait_reassigning", name="w", args={"deadline_s": 0.1})])
    assert ("error" not in row) == reached
    copies.moves.clear()
    (row,) = run_steps(context_of(copies), [Step(do="wait_reassigning", name="w", args={"deadline_s": 0.1})])
    assert "no replica is being added" in row["error"]


def test_a_reassignment_is_over_when_it_is_not_listed_and_all_are_in_sync() -> None:
    copies = Copies()
    step = Step(do="wait_reassigned", name="w", args={"deadline_s": 0.1})
    (row,) = run_steps(context_of(copies), [step])
    assert "[3] not in sync" in row["error"]
    copies.isr = (1, 2, 3)
    assert "error" not in run_steps(context_of(copies), [step])[0]
    copies.moves["t", 0] = Reassignment((2, 3, 1), (3,), (1,))
    assert "adding [3]" in run_steps(context_of(copies), [step])[0]["error"]


@pytest.mark.parametrize(
    ("acks", "reported"), [(True, "with acks on t/0"), (False, "no partition had acks in the last second")]
)
def test_settings_change_under_load_and_are_reverted_at_the_end(
    monkeypatch: pytest.MonkeyPatch, acks: bool, reported: str
) -> None:
    monkeypatch.setattr(reconfigure, "Injection", partial(Injection, deadline_s=2.0))
    copies, args = Copies(), {"topic": "t", "config": {"segment.bytes": 1000, "max.message.bytes": 900}}
    rows = run_steps(context_of(copies, acks=acks), [Step(do="reconfigure", name="turn", args=args | {"for_s": 0.1})])
    assert reported in rows[0]["effect"]["because"]
    assert bool(doubts(rows)) != acks
    assert copies.settings[0] == {"segment.bytes": "1000", "max.message.bytes": "900"}
    assert copies.settings[-1] == {"segment.bytes": "5000", "max.message.bytes": None}


def test_new_settings_have_no_victims() -> None:
    assert Reconfigure(node="brokers", config={"num.io.threads": "2"}).victims() == ""


class Directories(Copies):
    """Broker 1 has its replica in the first of two directories, and copies it to the second while `lag` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.path = "/a"
        self.lag: int | None = None
        self.ordered: dict[tuple[str, int], str] = {}

    def log_directories(self, broker: int) -> LogDirectories | None:
        future = None if self.lag is None else "/b"
        replica = ReplicaDirectory(path=self.path, future=future, future_lag=self.lag or 0)
        return LogDirectories(("/a", "/b"), {("t", 0): replica})

    def move_replicas(self, broker: int, to: dict[tuple[str, int], str]) -> None:
        self.ordered = to


MOVE_IT = Step(do="move_log_dirs", name="move", args={"node": "broker(1)", "rate_kb_s": 5})


def test_a_replica_moves_to_the_next_directory_and_is_waited_for() -> None:
    directories = Directories()
    kind: Any = build_step(MOVE_IT)
    with kind.active(context_of(directories)) as injection:
        assert directories.ordered == {("t", 0): "/b"}
        directories.lag = 70
        assert injection.probe().seen == {"lacks": {"t/0": 70}}
        directories.path, directories.lag = "/b", None
        assert "was seen in the making; lower rate_kb_s" in injection.probe().because
    rate = "replica.alter.log.dirs.io.max.bytes.per.second"
    assert directories.settings == [{rate: "5120"}, {rate: None}]


def test_a_move_without_load_proves_nothing() -> None:
    directories = Directories()
    kind: Any = build_step(MOVE_IT)
    with kind.active(context_of(directories, acks=False)) as injection:
        directories.lag = 70
        assert "had acks in the last second" in injection.probe().because
        directories.path, directories.lag = "/b", None


def test_a_replica_that_does_not_move_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_log_dirs, "MOVED_DEADLINE_S", 0.2)
    directories = Directories()
    directories.lag = 70
    rows = run_steps(context_of(directories), [Step(do=MOVE_IT.do, name="move", args={**MOVE_IT.args, "for_s": 0.1})])
    assert "in /a, its copy lacks 70" in rows[0]["error"]


def moving(directories: Directories) -> tuple[Any, Any]:
    """A move that has begun, and the context in which a later step may redirect it."""
    kind: Any = build_step(MOVE_IT)
    context = context_of(directories)
    manager = kind.active(context)
    context.victims["move"] = manager.__enter__().nodes
    directories.lag = 70
    return context, manager


class Droppable(Directories):
    """Drops the second copy when the replica is to be where it is, or moves it to another directory."""

    def move_replicas(self, broker: int, to: dict[tuple[str, int], str]) -> None:
        super().move_replicas(broker, to)
        self.lag = self.lag if to["t", 0] == "/b" else None


def test_a_move_that_is_called_off_stays_where_it_is_and_is_healed_there() -> None:
    directories = Droppable()
    context, manager = moving(directories)
    redirect: Any = build_step(Step(do="redirect_log_dirs", name="off", args={"fault": "move"}))
    done = redirect.perform(context)
    assert directories.ordered == {("t", 0): "/a"}
    assert (done.effect.held, done.effect.seen) == (True, {"lacked": {"t/0": 70}})
    assert done.resolved == {"nodes": [1], "to": {"t/0": "/a"}}
    manager.__exit__(None, None, None)
    assert context.moving == {}


def test_a_move_that_is_over_cannot_be_called_off() -> None:
    directories = Droppable()
    context, manager = moving(directories)
    directories.lag = None
    redirect: Any = build_step(Step(do="redirect_log_dirs", name="off", args={"fault": "move"}))
    assert not redirect.perform(context).effect.held
    manager.__exit__(None, None, None)
    with pytest.raises(BadInput, match="already healed"):
        redirect.perform(context)


def test_a_move_goes_to_the_directory_that_it_names() -> None:
    directories = Directories()
    kind: Any = build_step(Step(do="move_log_dirs", name="move", args={"node": "broker(1)", "to": 1}))
    with kind.active(context_of(directories)):
        assert directories.ordered == {("t", 0): "/a"}
