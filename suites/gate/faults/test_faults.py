"""Each fault on a real cluster under load: it has an effect, it heals, and its proof is true."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from harness.clusters import Cluster
from harness.kafka.admin.client import AdminView
from harness.model.scenario.scenario import ClusterShape, Producer, Step, Topic
from suites.gate.playing import WHOLE, Play
from suites.steps_json import doubts, run_steps

pytestmark = pytest.mark.kafka

LED_BY_ONE = ((1, 2, 3), (1, 3, 2))

SHAPE = ClusterShape(controllers=3)
# Two partitions led by broker 1 under a steady load, and one only for bursts.
TOPICS = (
    Topic(name="busy", partitions=2, assignment=LED_BY_ONE),
    Topic(name="counted", partitions=1, assignment=((1, 2, 3),), config={"min.insync.replicas": "1"}),
)
PRODUCERS = (
    Producer(name="steady", topics=("busy",), rate_per_s=600),
    Producer(name="counted", topics=("counted",), when="steps"),
)


@pytest.mark.parametrize("do", ["kill", "terminate", "pause"])
def test_a_leader_that_stops_is_replaced_and_returns(play: Play, do: str) -> None:
    down, *_ = play(("down", {"do": do, "node": "leader(busy/0)"}), ("up", {"do": "heal", "fault": "down"}))
    assert down["resolved"]["nodes"] == [1]
    assert "leader epoch rose" in down["effect"]["because"]
    assert down["healed_ns"] > down["started_ns"]
    assert play.stage.cluster.running(1)


def test_a_paused_follower_leaves_the_isr(play: Play) -> None:
    down, *_ = play(("down", {"do": "pause", "node": "follower(busy/0)", "for_s": 5.0}))
    assert down["resolved"]["nodes"] == [2]
    assert "[2] left the ISR" in down["effect"]["because"] or "acks stopped" in down["effect"]["because"]


def test_another_controller_takes_over_from_the_active_one(play: Play) -> None:
    down, moved, *_ = play(
        ("down", {"do": "kill", "node": "controller"}),
        ("moved", {"do": "wait_failover", "node": "controller", "since": "down"}),
        ("up", {"do": "heal", "fault": "down"}),
    )
    (old,) = down["resolved"]["nodes"]
    assert moved["resolved"]["nodes"] != [old]
    assert f"moved from {old}" in down["effect"]["because"]


def test_all_brokers_are_killed_and_return(play: Play) -> None:
    down, *_ = play(("down", {"do": "kill", "node": "brokers"}), ("up", {"do": "heal", "fault": "down"}))
    assert down["resolved"]["nodes"] == [1, 2, 3]


@pytest.mark.parametrize("mode", ["silent", "refusing"])
def test_a_cut_follower_leaves_the_isr(play: Play, mode: str) -> None:
    arguments = {"do": "cut", "src": "follower(busy/0)", "dst": "leader(busy/0)", "mode": mode}
    cut, *_ = play(
        ("cut", arguments),
        ("out", {"do": "wait_out_of_sync", "on": ["busy/0"], "node": "broker(2)"}),
        ("mended", {"do": "heal", "fault": "cut"}),
    )
    assert cut["resolved"]["links"] == [["b2", "b1"]]
    assert "[2] left the ISR" in cut["effect"]["because"]


def test_a_flapping_link_is_healed_and_cut_again(play: Play) -> None:
    arguments = {"do": "flap", "src": "follower(busy/0)", "dst": "leader(busy/0)", "down_s": 3.0, "up_s": 0.5}
    flap, *_ = play(("flap", arguments))
    assert "the links were healed" in flap["effect"]["because"]
    assert flap["effect"]["seen"]["flaps"] >= 2


def test_links_that_flap_too_fast_have_no_effect(play: Play) -> None:
    arguments = {"src": "controllers", "dst": "controllers", "down_s": 0.01, "up_s": 5.0}
    rows = run_steps(play.stage, [Step(do="flap", name="flap", args=arguments)])
    assert [name for name, _ in doubts(rows)] == ["no_effect"]
    assert play.stage.cluster.links.active() == []


def test_a_broker_is_killed_repeatedly_during_recovery(play: Play) -> None:
    loop, *_ = play(
        ("loop", {"do": "crash_loop", "node": "leader(busy/0)", "times": 2}),
        ("up", {"do": "heal", "fault": "loop"}),
    )
    assert loop["resolved"] == {"nodes": [1], "crashes_in_recovery": 2}
    assert "killed 2 times during recovery" in loop["effect"]["because"]
    assert play.stage.cluster.running(1)


def test_acks_stop_for_clients_that_are_cut_off(play: Play) -> None:
    cut, *_ = play(("cut", {"do": "isolate", "node": "leader(busy/0)", "away_from": ["clients"], "for_s": 1.0}))
    assert cut["resolved"]["links"] == [["client", "b1"]]


def test_an_isolated_leader_is_replaced(play: Play) -> None:
    arguments = {"do": "isolate", "node": "leader(busy/0)", "away_from": ["brokers", "controllers"]}
    island, *_ = play(("island", arguments))
    assert "leader epoch rose" in island["effect"]["because"]


def test_a_limited_link_shrinks_the_isr_and_a_delayed_one_shows(play: Play) -> None:
    narrow, late, *_ = play(
        ("narrow", {"do": "slow", "src": "follower(busy/0)", "dst": "leader(busy/0)", "rate_kb_s": 2, "for_s": 0.1}),
        ("late", {"do": "slow", "src": "broker(3)", "dst": "leader(busy/0)", "latency_ms": 400, "for_s": 0.1}),
    )
    assert narrow["effect"]["held"]
    assert late["effect"]["held"]


def test_clients_retry_after_lost_answers(play: Play) -> None:
    lost, *_ = play(("lost", {"do": "lose_answers", "node": "leader(busy/0)", "for_s": 1.5}))
    assert re.search(r"retried \d+ records", lost["effect"]["because"])


def test_leadership_moves_and_returns(play: Play) -> None:
    *_, back, _ = play(
        ("down", {"do": "terminate", "node": "leader(busy/0)"}),
        ("up", {"do": "heal", "fault": "down"}),
        ("whole_again", WHOLE),
        ("back", {"do": "elect_preferred"}),
    )
    assert back["resolved"]["busy/0"]["leader"][1] == 1


def test_partitions_move_to_other_brokers_and_back(play: Play, admin: AdminView) -> None:
    admin.reassign({("busy", 0): [1, 2], ("busy", 1): [1, 3]})
    play(("settled", {"do": "wait_isr_full", "on": ["busy/*"]}))
    # The expressions of the scenario do not know that two replicas were removed here.
    move, *_ = rows = run_steps(play.stage, [Step(do="reassign", name="move", args={"on": ["busy/*"], "shift": 1})])
    assert doubts(rows) == []
    assert move["resolved"]["moves"]["busy/0"] == {"replicas": [[1, 2], [2, 3]]}


def test_a_rolling_restart_proves_the_absence_of_each_broker(play: Play) -> None:
    roll, *_ = play(("roll", {"do": "rolling_restart"}))
    assert sorted(roll["effect"]["seen"]) == ["1", "2", "3"]


def test_an_unclean_election_measures_the_surviving_log_end(play: Play, admin: AdminView) -> None:
    rows = play(
        ("kept", {"do": "produce", "producer": "counted", "to": "counted/0", "records": 70}),
        ("cut", {"do": "cut_followers", "of": "counted/0"}),
        ("tail", {"do": "produce", "producer": "counted", "to": "counted/0", "records": 30}),
        ("alone", {"do": "wait_isr_alone", "on": ["counted/0"]}),
        ("down", {"do": "kill", "node": "leader(counted/0)"}),
        ("deposed", {"do": "wait_deposed", "on": ["counted/0"], "since": "down"}),
        ("gone", {"do": "wait_no_leader", "on": ["counted/0"]}),
        ("joined", {"do": "heal", "fault": "cut"}),
        ("elect", {"do": "elect_unclean", "on": ["counted/0"]}),
        ("up", {"do": "heal", "fault": "down"}),
    )
    elect = next(row for row in rows if row["name"] == "elect")
    (event,) = [e for e in elect["events"] if e["kind"] == "unclean_election"]
    assert event["log_end"] == 70
    assert event["leader"] in (2, 3)
    assert admin.high_watermark(["counted"])["counted", 0] == 70


def test_records_are_deleted_before_the_recorded_offset(play: Play, admin: AdminView) -> None:
    *_, delete, _ = play(
        ("some", {"do": "produce", "producer": "counted", "to": "counted/0", "records": 100}),
        ("delete", {"do": "delete_records", "on": ["counted/0"], "share": 0.25}),
    )
    (event,) = [e for e in delete["events"] if e["kind"] == "delete_records"]
    assert event["before_offset"] == 25
    assert admin.replica_offsets(["counted"])["counted", 0, 1][0] == 25


def test_a_fault_without_load_has_no_effect(cluster: Cluster, admin: AdminView, play: Play) -> None:
    play.without_load()
    rows = run_steps(play.stage, [Step(do="kill", name="down", args={"node": "leader(busy/0)"})])
    ((name, text),) = doubts(rows)
    assert name == "no_effect"
    assert "acks in the last second" in text


OF_BUSY = {"do": "damage", "of": "busy/0", "node": "broker(2)"}


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("flip", "killed"),
        ("torn_tail", "killed"),
        ("torn_tail", "cleanly"),
        ("index", "killed"),
        ("index", "cleanly"),
        ("time_index", "killed"),
        ("leader_epoch_checkpoint", "killed"),
        ("producer_snapshot", "cleanly"),
    ],
)
def test_a_damaged_disk_is_noticed_and_repaired(play: Play, what: str, how: str) -> None:
    damage, *_ = play(("damage", OF_BUSY | {"what": what, "how": how}), ("up", {"do": "heal", "fault": "damage"}))
    assert "its replicas have recovered" in damage["effect"]["because"]


def test_a_lost_log_start_is_fetched_from_the_leader(play: Play, admin: AdminView) -> None:
    *_, damage, _, _ = play(
        ("delete", {"do": "delete_records", "on": ["busy/0"], "share": 0.5}),
        ("damage", OF_BUSY | {"what": "start_offset_checkpoint", "how": "cleanly"}),
        ("up", {"do": "heal", "fault": "damage"}),
    )
    assert "a log that starts at 0" in damage["effect"]["because"]
    offsets = admin.replica_offsets(["busy"])
    assert offsets["busy", 0, 2][0] == offsets["busy", 0, 1][0] > 0


@pytest.mark.parametrize("how", ["killed", "cleanly"])
def test_an_empty_disk_is_filled_again(play: Play, how: str) -> None:
    arguments = {"do": "damage", "what": "wiped", "node": "leader(busy/0)", "how": how}
    swap, *_ = play(("swap", arguments), ("up", {"do": "heal", "fault": "swap"}))
    assert "the broker found no logs" in swap["effect"]["because"]


def test_damage_to_an_idle_partition_has_no_effect(play: Play) -> None:
    rows = run_steps(
        play.stage,
        [
            Step(do="produce", name="some", args={"producer": "counted", "to": "counted/0", "records": 100}),
            Step(do="hold", name="idle", args={"seconds": 1.5}),
            Step(do="damage", name="flip", args={"what": "flip", "of": "counted/0", "node": "broker(2)"}),
        ],
    )
    ((name, text),) = doubts(rows)
    assert name == "no_effect"
    assert "acks in the last second" in text


def test_a_broker_ends_at_a_file_size_limit_and_returns_without_it(cluster: Cluster, play: Play) -> None:
    if "disk.full" not in cluster.capabilities:
        pytest.skip("this backend cannot limit the size of files")
    full, *_ = play(("full", {"do": "disk_full", "node": "leader(busy/0)"}), ("up", {"do": "heal", "fault": "full"}))
    assert "took its log directory offline and ended" in full["effect"]["because"]
    assert cluster.unexpected_exits() == []
    assert play.stage.cluster.running(1)


def test_a_file_size_limit_without_load_has_no_effect(cluster: Cluster, play: Play) -> None:
    if "disk.full" not in cluster.capabilities:
        pytest.skip("this backend cannot limit the size of files")
    play.without_load()
    rows = run_steps(play.stage, [Step(do="disk_full", name="full", args={"node": "broker(1)"})])
    assert [name for name, _ in doubts(rows)] == ["no_effect"]
    assert cluster.running(1)


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_without_a_majority_no_controller_leads(play: Play, how: str) -> None:
    lost, *_ = play(("lost", {"do": "quorum_lost", "how": how}), ("back", {"do": "heal", "fault": "lost"}))
    assert len(lost["resolved"]["nodes"]) == 2
    assert "there is none" in lost["effect"]["because"]


def test_stopping_one_controller_of_three_does_not_lose_the_quorum(play: Play) -> None:
    rows = run_steps(play.stage, [Step(do="quorum_lost", name="lost", args={"node": "controller"})])
    ((name, text),) = doubts(rows)
    assert name == "no_effect"
    assert "are a majority" in text


@pytest.mark.parametrize("node", ["controller_follower", "controller"])
def test_a_wiped_controller_fetches_all_metadata(play: Play, node: str) -> None:
    wipe, *_ = play(("wipe", {"do": "controller_wiped", "node": node}), ("back", {"do": "heal", "fault": "wipe"}))
    assert "started with an empty log and caught up" in wipe["effect"]["because"]


def test_an_interrupt_leaves_nothing_broken(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> Callable[[], None]:
        raise KeyboardInterrupt

    from harness.faults.steps import waits

    monkeypatch.setattr(waits.Hold, "perform", interrupt)
    steps = [
        Step(do="pause", name="frozen", args={"node": "broker(3)"}),
        Step(do="cut", name="cut", args={"src": "broker(2)", "dst": "broker(1)"}),
        Step(do="hold", name="stop", args={"seconds": 1.0}),
    ]
    with pytest.raises(KeyboardInterrupt):
        run_steps(play.stage, steps)
    assert play.stage.cluster.links.active() == []
    assert not play.stage.cluster.paused(3)
