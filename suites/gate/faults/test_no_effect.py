"""Faults of something that is not in use, or that are too short: each says why it had no effect.

The other files of faults have such tests of their own where a fault needs a cluster of another kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import clusters
from harness.clusters import Cluster
from harness.faults.nodes import rolling_restart
from harness.faults.steps import effect, step_runner
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import resolve
from harness.model.scenario.scenario import ClusterShape, Producer, Step, Topic
from harness.model.waiting import wait_for
from suites.gate.cluster_probes import RELEASE
from suites.gate.playing import Play, playing
from suites.steps_json import doubts, run_steps

pytestmark = pytest.mark.kafka

BURSTS = Producer(name="bursts", topics=("idle",), when="steps")
IDLE = Topic(name="idle", partitions=1, assignment=((1, 2, 3),))
PATIENCE_S = 2.0


@pytest.fixture(scope="module")
def cluster(backend: str) -> Iterator[Cluster]:
    release = resolve(RELEASE, maven_repo=None, cache=default_cache(), progress=print)
    running = clusters.start(release, ClusterShape(controllers=3), backend=backend, progress=print)
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the wait for a missing effect short."""

    def briefly(*args: Any, deadline_s: float, **more: Any) -> Any:
        return wait_for(*args, deadline_s=min(deadline_s, PATIENCE_S), **more)

    monkeypatch.setattr(step_runner, "wait_for", briefly)
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.5)
    monkeypatch.setattr(rolling_restart, "EFFECT_DEADLINE_S", PATIENCE_S)


@pytest.fixture
def quiet(cluster: Cluster, tmp_path: Path) -> Iterator[Play]:
    """A load with some older records, and no producer that sends."""
    with playing(cluster, tmp_path / "bundle", (IDLE,), (BURSTS,)) as play:
        play(("some", {"do": "produce", "producer": "bursts", "to": "idle/0", "records": 100}))
        play(("later", {"do": "hold", "seconds": effect.ACK_WINDOW_S + 0.1}))
        yield play


@pytest.fixture
def play(cluster: Cluster, tmp_path: Path) -> Iterator[Play]:
    """Broker 1 leads all partitions with load."""
    topics = (IDLE, Topic(name="busy", partitions=2, assignment=((1, 2, 3), (1, 3, 2))))
    with playing(
        cluster, tmp_path / "bundle", topics, (BURSTS, Producer(name="steady", topics=("busy",), rate_per_s=400))
    ) as started:
        yield started


NO_ACKS = "acks in the last second"
ACTIONS = {"rolling_restart", "elect_unclean"}  # done when they return, with nothing to heal


def at_once(do: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The step, healed after its first look for an effect."""
    return "it", {"do": do, **({} if do in ACTIONS else {"for_s": 0.2}), **arguments}


@pytest.mark.parametrize(
    ("do", "arguments", "because"),
    [
        ("terminate", {"node": "broker(1)"}, NO_ACKS),
        ("pause", {"node": "broker(2)"}, NO_ACKS),
        ("crash_loop", {"node": "broker(1)", "times": 1}, NO_ACKS),
        ("cut", {"src": "broker(2)", "dst": "broker(1)"}, NO_ACKS),
        ("cut", {"src": "client", "dst": "broker(1)"}, NO_ACKS),
        ("cut_followers", {"of": "idle/0"}, "still holds [2, 3]"),
        ("isolate", {"node": "broker(1)", "away_from": ["brokers", "controllers"]}, NO_ACKS),
        ("isolate", {"node": "broker(1)", "away_from": ["clients"]}, NO_ACKS),
        ("slow", {"src": "broker(2)", "dst": "broker(1)", "latency_ms": 400}, "there is no delay to observe"),
        ("lose_answers", {"node": "broker(1)", "for_s": 1.0}, "no client missed an answer"),
        ("controller_wiped", {"node": "controller_follower"}, NO_ACKS),
        ("rolling_restart", {"node": "broker(2)"}, "nothing shows the absence of [2]"),
    ],
)
def test_a_fault_of_something_without_load_has_no_effect(
    quiet: Play, do: str, arguments: dict[str, Any], because: str
) -> None:
    assert because in quiet.doubt(at_once(do, arguments))
    assert all(quiet.stage.cluster.running(node) for node in (1, 2, 3, 101, 102, 103))


@pytest.mark.parametrize(
    ("do", "arguments", "because"),
    [
        ("cut", {"src": "broker(2)", "dst": "broker(3)", "mode": "refusing"}, NO_ACKS),
        ("slow", {"src": "broker(2)", "dst": "broker(3)", "latency_ms": 400}, "there is no delay to observe"),
        ("lose_answers", {"node": "broker(3)", "for_s": 1.0}, "no client missed an answer"),
        (
            "damage",
            {"what": "start_offset_checkpoint", "how": "cleanly", "of": "busy/0", "node": "broker(2)"},
            "nothing",
        ),
        ("elect_unclean", {"on": ["busy/*"]}, "have a leader, so there is nothing to elect"),
    ],
)
def test_a_fault_of_the_wrong_target_has_no_effect(
    play: Play, do: str, arguments: dict[str, Any], because: str
) -> None:
    assert because in play.doubt(at_once(do, arguments))


def test_a_very_short_pause_has_no_effect(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suites.gate.faults.test_no_effect.PATIENCE_S", 0.0)
    assert "acks continued" in play.doubt(("blink", {"do": "pause", "node": "broker(2)", "for_s": 0.05}))


def test_leaders_that_never_moved_are_no_disturbance(play: Play) -> None:
    (row,) = run_steps(play.stage, [Step(do="elect_preferred", name="back", args={})])
    assert "already had their preferred leader" in row["effect"]["because"]
    assert not row["is_fault"]


def test_replicas_that_do_not_move_are_no_disturbance(play: Play) -> None:
    (row,) = rows = run_steps(play.stage, [Step(do="reassign", name="move", args={"on": ["busy/0"]})])
    assert "no replica moved to another broker" in row["effect"]["because"]
    assert [name for name, _ in doubts(rows)] == ["no_effect"]


def test_leadership_moves_only_to_replicas_that_are_not_left_out(play: Play) -> None:
    moved, *_ = play(("moved", {"do": "move_leaders", "on": ["busy/0"], "without": "broker(2)"}))
    assert moved["resolved"]["busy/0"]["leader"] == [1, 3]
    rows = play.rows(("nobody", {"do": "move_leaders", "on": ["busy/1"], "without": "brokers"}))
    assert [name for name, text in doubts(rows) if "has no other replica that can lead" in text] == ["step_failed"]


TURN = {"do": "reconfigure", "topic": "busy", "config": {"segment.bytes": "1048576"}}


def test_settings_change_and_are_reverted_under_load(play: Play) -> None:
    turned, *_ = play(("turned", TURN | {"for_s": 1.0}))
    assert "with acks on busy/0, busy/1" in turned["effect"]["because"]
    play.without_load()
    assert "no partition had acks in the last second" in play.doubt(("idle", TURN | {"for_s": 1.5}))


def test_a_recreated_topic_gets_acks_or_has_no_effect(play: Play) -> None:
    again, *_ = play(("again", {"do": "recreate_topic", "topic": "busy"}))
    assert "had acks until the topic was deleted" in again["effect"]["because"]
    play.without_load()
    assert "acks of the new busy" in play.doubt(("once", {"do": "recreate_topic", "topic": "busy", "deadline_s": 2.0}))
