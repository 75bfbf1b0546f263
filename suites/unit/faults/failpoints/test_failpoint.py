"""Failpoints on a scripted broker: when they have an effect, what their facts say, and their near misses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.choosing import CAPABILITIES, check_plan
from harness.faults.failpoints import acting, failpoint
from harness.faults.failpoints.code_point import IO_EXCEPTION, Site
from harness.faults.failpoints.failpoint import Failpoint
from harness.faults.failpoints.points import POINTS
from harness.faults.failpoints.rule import HALTED
from harness.faults.steps import effect
from harness.faults.steps.registry import check_steps, lacking
from harness.kafka.admin.client import PartitionState
from harness.kafka.release.class_files import Method
from harness.model.doubt_names import DoubtName
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scenario.scenario import Step
from harness.model.scenario.toml import parse
from suites.steps_json import doubts, run_steps
from suites.unit.faults.failpoints.agent import FakeAgent
from suites.unit.faults.steps.scripted import context_on
from suites.unit.faults.steps.test_step_validation import HOLD, with_steps

HALTS = f"exit code {HALTED}"
OFFLINE = "INFO Shutdown broker because all log dirs in /x have failed (kafka.log.LogManager)\n"


@dataclass
class Scripted:
    """Broker 1 leads t/0. Its agent takes a rule, and then the broker does what the test says."""

    folder: Path
    acts: int = 1  # so often the rule acts at once
    ends: str = ""
    says: str = ""
    acks_ago_s: float = 0.1
    brokers: tuple[int, ...] = (1, 2, 3)
    controllers: tuple[int, ...] = (101,)
    halts: dict[int, int] = field(default_factory=dict)
    let: list[int] = field(default_factory=list)
    ended: bool = False
    deaths: int = 0

    def __post_init__(self) -> None:
        self.agent = FakeAgent(on_load=self.loaded)
        self.release: Any = type("Release", (), {"classpath": (), "version": "4.4.0"})
        for log in (self.console_log(1), self.server_log(1)):
            log.touch()

    def loaded(self, name: str) -> None:
        action = self.agent.rules[name].partition(" acts: ")[2].partition('"')[0]
        with self.console_log(1).open("a") as console:
            console.write(f"{name} acts: {action}\n" * self.acts)
        if self.says:
            self.server_log(1).write_text(self.says)
        self.ended = bool(self.ends)
        self.deaths += self.ended

    def release_of(self, node: int) -> Any:
        return self.release

    def agent_address(self, node: int) -> tuple[str, int]:
        return self.agent.address

    def let_halt(self, node: int, code: int) -> None:
        self.halts[node] = code

    def let_end(self, node: int) -> None:
        self.let.append(node)

    def console_log(self, node: int) -> Path:
        return self.folder / "console.log"

    def server_log(self, node: int) -> Path:
        return self.folder / "server.log"

    def how_it_ended(self, node: int) -> str:
        return self.ends if self.ended else ""

    def running(self, node: int) -> bool:
        return not self.ended

    def start(self, *nodes: int) -> None:
        self.ended = self.ended and not nodes

    def wait_started(self, node: int, deadline_s: float) -> None:
        assert not self.ended

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        leader, epoch = (2, 5) if self.deaths else (1, 4)
        return [
            PartitionState(
                topic="t", topic_id="i", partition=0, leader=leader, leader_epoch=epoch, isr=(1, 2, 3), replicas=(1, 2)
            )
        ]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    monkeypatch.setattr(failpoint, "DEADLINE_S", 0.3)
    monkeypatch.setattr(acting, "_END_S", 0.3)
    monkeypatch.setattr(Site, "found_in", lambda site, _: Method(site.method, (), (IO_EXCEPTION,)))
    scripted = Scripted(tmp_path)
    yield scripted
    scripted.agent.close()


def played(
    cluster: Scripted, action: str = "kill", **more: object
) -> tuple[dict[str, Any], list[tuple[DoubtName, str]]]:
    """The row of the step, and its doubts. Afterwards the node runs and has no rule."""
    args = {"node": "leader(t/0)", "point": "roll", "action": action, **more}
    rows = run_steps(context_on(cluster), [Step(do="failpoint", name="it", args=args)])
    assert not cluster.ended
    assert cluster.agent.rules == {} or cluster.deaths  # a node that ended has lost its rule
    return rows[0], doubts(rows)


def test_a_killed_leader_proves_the_effect_and_its_end_is_a_stop_at_that_time(cluster: Scripted) -> None:
    cluster.ends = HALTS
    row, found = played(cluster)
    assert found == []
    assert "kill at 'roll': node 1 (1 x); node 1 ended there; led t/0" in row["effect"]["because"]
    assert cluster.halts == {1: HALTED}
    (fact,) = row["facts"]
    assert (fact["kind"], fact["how"], fact["nodes"]) == ("stopped", "killed", [1])
    assert row["started_ns"] <= fact["from_ns"] <= fact["to_ns"] <= row["healed_ns"]


def test_a_node_that_halts_before_its_agent_has_answered_was_killed(cluster: Scripted) -> None:
    cluster.ends, cluster.agent.silent = HALTS, True
    assert played(cluster)[1] == []


def test_an_agent_that_does_not_answer_while_its_node_runs_is_an_error(cluster: Scripted) -> None:
    cluster.agent.silent = True
    with pytest.raises(HarnessFailure, match="ended the connection before it had answered LOAD"):
        played(cluster)


def test_a_rule_that_never_acts_has_no_effect_and_stops_nothing(cluster: Scripted) -> None:
    cluster.acts = 0
    row, ((name, text),) = played(cluster, skip=3, of="t/0")
    assert name == "no_effect"
    assert "node 1 did not pass 'roll' for t/0 more than 3 times" in text
    assert row["facts"] == []


def test_a_node_that_ends_otherwise_was_not_killed_by_the_rule(cluster: Scripted) -> None:
    cluster.ends = "exit code 1"
    row, ((name, text),) = played(cluster)
    assert (name, row["facts"]) == ("no_effect", [])
    assert "node 1 ended otherwise (exit code 1)" in text


def test_without_load_a_kill_proves_nothing(cluster: Scripted) -> None:
    cluster.ends, cluster.acks_ago_s = HALTS, 5.0
    assert [name for name, _ in played(cluster)[1]] == ["no_effect"]


def test_a_delay_is_a_freeze_of_the_node_until_it_is_healed(cluster: Scripted) -> None:
    cluster.acts = 3
    row, found = played(cluster, "delay", node="brokers")
    assert found == []
    assert row["effect"]["seen"]["acted"]["2"] >= 3
    (fact,) = row["facts"]
    assert (fact["kind"], fact["nodes"], fact["to_ns"]) == ("frozen", [1, 2, 3], row["healed_ns"])


@pytest.mark.parametrize(("says", "proves"), [(OFFLINE, True), ("", False)])
def test_an_error_of_the_disk_is_proven_by_the_log_of_the_broker(cluster: Scripted, says: str, proves: bool) -> None:
    cluster.ends, cluster.says = "exit code 1", says
    row, found = played(cluster, "io_error")
    assert [name for name, _ in found] == ([] if proves else ["no_effect"])
    assert cluster.let == [1]
    assert [(fact["kind"], fact.get("how")) for fact in row["facts"]] == [("disk_failed", None), ("stopped", "crashed")]


def test_a_rule_that_the_agent_refuses_is_an_error(cluster: Scripted) -> None:
    cluster.agent.refuses = "EXCEPTION org.jboss.byteman.rule.exception.ParseException: rule it"
    with pytest.raises(HarnessFailure, match=r"refused LOAD: EXCEPTION org\.jboss"):
        played(cluster)


def test_a_rule_that_the_agent_could_not_inject_is_named(cluster: Scripted) -> None:
    cluster.acts, cluster.agent.listing = 0, "RULE it\nTransformed in:\nfailed to compile\n"
    assert "the agent of node 1 could not inject the rule: failed to compile" in played(cluster)[1][0][1]


def test_a_release_without_the_method_is_named(cluster: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Site, "found_in", lambda *_: None)
    text = played(cluster)[1][0][1]
    assert "Kafka 4.4.0 does not have the point 'roll': it has no method org.apache.kafka" in text


def test_a_method_that_declares_no_io_exception_gets_none(cluster: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Site, "found_in", lambda *_: Method("roll", (), ()))
    assert "roll of Kafka 4.4.0 declares no IOException" in played(cluster, "io_error")[1][0][1]


IT = '{{ do = "failpoint", {}, name = "it" }}'
AGENT = "agent = true"


@pytest.mark.parametrize(
    ("args", "shape", "reported"),
    [
        ('node = "leader(plain/0)", point = "roll"', "", "set agent = true in [shape]"),
        ('node = "leader(plain/0)", point = "role"', AGENT, "did you mean 'rolled'?"),
        ('node = "leader(plain/0)", point = "append", action = "io_error"', AGENT, "no error of a disk can show"),
        ('node = "leader(plain/0)", point = "become_leader", action = "halt"', AGENT, "action"),
        ('node = "leader(plain/0)", point = "alter_partition_sent", of = "plain/0"', AGENT, "belongs to no log"),
        ('node = "leader(plain/0)", point = "raft_append"', AGENT, "is passed by controllers"),
        ('node = "controller", point = "roll"', AGENT, "is passed by brokers"),
        ('node = "brokers", point = "roll"', AGENT, "kill ends one node, and 'brokers' names 3"),
        ('node = "controller", point = "raft_flush"', AGENT, "no majority of 1 is left"),
        ('node = "leader(plain/0)", point = "tier_copy"', AGENT, "needs a remote tier"),
        ('node = "broker(3)", point = "roll", of = "two/0"', AGENT, "broker(3) has no replica of two/0"),
        ('node = "leader(plain/0)", point = "roll", delay_ms = 0', AGENT, "give a number from 1"),
        (
            'node = "leader(plain/0)", point = "roll", action = "io_error"',
            f"{AGENT}\nlog_dirs = 2",
            "one log directory",
        ),
    ],
)
def test_a_failpoint_that_cannot_have_an_effect_is_refused(args: str, shape: str, reported: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse(with_steps(IT.format(args), shape=shape), "t", check_steps)
    assert reported in str(refused.value)


def test_delays_of_several_nodes_and_points_of_internal_topics_are_accepted() -> None:
    some = IT.format('node = "brokers", point = "roll", action = "delay", of = "__consumer_offsets/0"')
    assert [step.do for step in parse(with_steps(some, shape=AGENT), "t", check_steps).steps] == ["failpoint"]


def test_a_delayed_node_may_be_killed_and_a_killed_one_may_not() -> None:
    second = IT.format('node = "broker(1)", point = "roll"')
    for first, refused in (('action = "delay"', False), ('action = "kill"', True)):
        begun = f'{{ do = "failpoint", node = "broker(1)", point = "append", {first}, name = "begun" }}'
        with pytest.raises(BadInput) if refused else nullcontext():
            parse(with_steps(f"{begun}, {second}", shape=AGENT), "t", check_steps)


@pytest.mark.parametrize("action", ["kill", "delay", "io_error"])
def test_each_action_declares_facts_of_kinds_of_its_class(action: Any) -> None:
    declared = Failpoint(node="broker(1)", point="roll", action=action).declared()
    assert {fact.kind for fact in declared} <= {fact.kind for fact in Failpoint.facts}


def test_every_point_says_what_a_node_does_there() -> None:
    assert len(POINTS) >= 25
    assert len({(point.sites, point.where, point.only) for point in POINTS.values()}) == len(POINTS)
    assert all(replace(point).text and point.sites and point.roles for point in POINTS.values())


def test_only_local_processes_load_an_agent() -> None:
    reported = Failpoint.lacks(CAPABILITIES["containers"])
    assert reported is not None
    assert "only the local processes of --backend processes load an agent" in reported
    assert Failpoint.lacks(CAPABILITIES["processes"]) is None
    idle = parse(with_steps(HOLD, shape=AGENT), "t", check_steps)
    assert "shape: agent = true: only the local processes" in str(lacking(idle, CAPABILITIES["containers"]))
    assert lacking(idle, CAPABILITIES["processes"]) is None
    with pytest.raises(BadInput, match="use --backend processes"):
        check_plan("containers", idle.shape)


def test_a_delay_does_not_start_a_node_that_another_fault_stopped(cluster: Scripted) -> None:
    cluster.ends = "signal SIGKILL"
    args = {"node": "brokers", "point": "roll", "action": "delay"}
    run_steps(context_on(cluster), [Step(do="failpoint", name="it", args=args)])
    assert cluster.ended
