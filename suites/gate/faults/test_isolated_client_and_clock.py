"""Clocks that are set, and isolated clients, on a real cluster with a shape that has both."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from harness.clusters import Cluster
from harness.clusters.choosing import able
from harness.faults.nodes import clock
from harness.model.scenario.scenario import ClusterShape, Producer, Topic
from suites.gate.playing import Play, running

pytestmark = pytest.mark.kafka

SHAPE = ClusterShape(controllers=3, clock=True, isolated_client=True)
TOPICS = (
    Topic(name="busy", partitions=2, assignment=((1, 2, 3), (2, 3, 1))),
    Topic(name="own", partitions=2, assignment=((1, 2, 3), (2, 3, 1))),
)
PRODUCERS = (
    Producer(name="steady", topics=("busy",), rate_per_s=600),
    Producer(name="alone", topics=("own",), rate_per_s=300, isolated_client=True),
)


@pytest.fixture(scope="module")
def cluster(backend: str) -> Iterator[Cluster]:
    if "clock" not in able(backend):
        pytest.skip("this machine cannot set clocks")
    with running(backend, SHAPE) as started:
        yield started
    shared = [path.name for path in Path("/dev/shm").glob("*faketime*")]  # the name ends with a process id
    assert [name for name in shared if not psutil.pid_exists(int(name.rpartition("_")[2]))] == []


@pytest.mark.parametrize("node", ["leader(busy/0)", "controller"])
@pytest.mark.parametrize("jump_s", [600.0, -600.0])
def test_a_clock_jumps_and_is_set_right(play: Play, node: str, jump_s: float) -> None:
    jumped, *_ = play(("jumped", {"do": "clock", "node": node, "jump_s": jump_s}))
    (shift_s,) = jumped["effect"]["seen"]["ahead_s"].values()
    assert abs(shift_s - jump_s) < 2
    (victim,) = jumped["resolved"]["nodes"]
    right, *_ = play(("again", {"do": "clock", "node": f"broker({victim})" if victim < 100 else node, "rate": 2.0}))
    assert right["effect"]["held"]


def test_clocks_of_all_brokers_drift(play: Play) -> None:
    drift, *_ = play(("drift", {"do": "clock", "node": "brokers", "rate": 0.5}))
    assert all(shift_s < 0 for shift_s in drift["effect"]["seen"]["ahead_s"].values())


def test_the_clock_of_a_killed_broker_is_still_wrong_when_it_returns(play: Play) -> None:
    rows = play(
        ("ahead", {"do": "clock", "node": "broker(1)", "jump_s": 600.0}),
        ("felt", {"do": "wait_effect", "fault": "ahead"}),
        ("down", {"do": "kill", "node": "broker(1)"}),
        ("up", {"do": "heal", "fault": "down"}),
    )
    assert rows[0]["effect"]["held"]
    lines = play.stage.cluster.server_log(1).read_text().splitlines()
    first, *_, last = (datetime.fromisoformat(line[1:20]) for line in lines if "Kafka Server started" in line)
    assert 600 <= (last - first).total_seconds() < 1200


def test_a_clock_that_is_set_without_load_has_no_effect(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "DEADLINE_S", 3.0)
    play.without_load()
    idle = ("idle", {"do": "clock", "node": "broker(1)", "jump_s": 600.0})
    assert "no partition that they lead or follow had acks" in play.doubt(idle)


@pytest.mark.parametrize("arguments", [{"mode": "silent"}, {"mode": "refusing"}, {"direction": "answers"}])
def test_only_the_isolated_client_is_cut_off(play: Play, arguments: dict[str, str]) -> None:
    cut, *_ = play(("cut", {"do": "cut", "src": "isolated_client", "dst": "brokers", **arguments}))
    assert cut["resolved"]["links"] == [["isolated_client", "b1"], ["isolated_client", "b2"], ["isolated_client", "b3"]]
    assert "and continued for the other clients on busy/" in cut["effect"]["because"]


def test_cutting_off_all_clients_proves_nothing_about_the_isolated_one(play: Play) -> None:
    text = play.doubt(
        ("all", {"do": "cut", "src": "client", "dst": "brokers"}),
        ("isolated_client", {"do": "cut", "src": "isolated_client", "dst": "brokers"}),
    )
    assert "acks stopped for all clients" in text
