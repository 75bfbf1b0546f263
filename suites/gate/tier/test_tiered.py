"""A remote tier on real brokers: what is copied, what its faults do, and when they have no effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.evidence import BundleWriter
from harness.kafka.admin.client import AdminView
from harness.kafka.storage.local_tier import LOG, ROOT, objects_of, read_object
from harness.model.scenario.scenario import ClusterShape, Producer, Scenario, Topic
from harness.run.tier_probe import TierProbe
from suites.gate.playing import Play
from suites.gate.tier.far_topic import BULK, FAR, IDLE, TIERED, acks, end_of, heal, store

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SHAPE = ClusterShape(tier="local")
TOPICS = (
    FAR,
    Topic(name="near", partitions=1, assignment=((1, 2, 3),)),
)
PRODUCERS = (
    BULK,
    Producer(name="plain", topics=("near",), rate_per_s=100),
)
IDLE_TOO = ("idle_too", IDLE[1])


def damaged(what: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "damaged", {"do": "damage_object", "of": "far/0", "what": what, **more}


def test_segments_that_brokers_deleted_are_complete_in_the_tier(play: Play, admin: AdminView, tmp_path: Path) -> None:
    looks = TierProbe(
        play.stage.cluster,
        admin,
        Scenario(name="s", title="", property="", shape=SHAPE, topics=TOPICS, producers=PRODUCERS),
        BundleWriter(tmp_path / "looks"),
    )
    assert looks.filled(5).ok
    play.stage.load.stop_producers()  # type: ignore[attr-defined]
    settled = looks.at_rest()
    assert settled is not None
    assert settled.ok, settled.last_seen
    reported = admin.tiered_replicas(["far"])
    assert len(reported) == 3
    (local_start,) = {replica.local_log_start for replica in reported.values()}
    assert {replica.log_start for replica in reported.values()} == {0}
    assert {replica.highest_tiered for replica in reported.values()} == {local_start - 1}
    logs = [one for one in objects_of(store(play), ["far"]) if one.kind == LOG]
    assert end_of(logs) == local_start
    looks.look("end")
    assert {"tier_objects", "tier_replicas"} <= {path.name for path in (tmp_path / "looks").iterdir()}


def test_an_outage_of_the_tier_has_an_effect_and_heals(play: Play) -> None:
    outage, *_, caught_up, _ = play(
        ("outage", {"do": "tier_outage"}),
        acks(1000),
        heal("outage"),
        TIERED,
    )
    assert outage["effect"]["seen"]["failed"] == [play.stage.partition(("far", 0)).leader]
    assert caught_up["resolved"]["tiered_below"]["far/0"] > 0
    assert sorted(path.name for path in store(play).iterdir()) == [ROOT]


def test_an_outage_without_load_has_no_effect(play: Play) -> None:
    play.stage.load.stop_producers()  # type: ignore[attr-defined]
    said = play.doubt(IDLE, TIERED, ("outage", {"do": "tier_outage"}), heal("outage"))
    assert "no partition of the remote tier had acks" in said


@pytest.mark.parametrize(
    ("what", "reported"), [("lost", ""), ("flip", "other bytes"), ("cut", ""), ("zero", ""), ("another", "other bytes")]
)
def test_a_damaged_object_is_served_differently_until_healing(play: Play, what: str, reported: str) -> None:
    play(acks(1000), TIERED)
    (before, *_) = [one for one in objects_of(store(play), ["far"]) if one.kind == LOG]
    was = read_object(before)
    damage, *_ = play(damaged(what), heal("damaged"))
    assert damage["effect"]["held"]
    assert reported in damage["effect"]["because"]
    assert read_object(before) == was


def test_no_leader_serves_deleted_objects(play: Play) -> None:
    play(acks(2000), TIERED)
    play.stage.load.stop_producers()  # type: ignore[attr-defined]
    play(IDLE, ("left", {"do": "wait_tiered", "deleted": True}))
    deleted, *_ = play(("deleted", {"do": "delete_objects", "of": "far/0", "segments": 2}))
    older, newer = [event for event in deleted["events"] if event["kind"] == "objects_deleted"]
    assert older["last_offset"] + 1 == newer["base_offset"] < newer["local_start"]
    served = [play.stage.admin.fetch("far", 0, event["base_offset"], 1000) for event in (older, newer)]
    assert [one.error for one in served if one] == ["UNKNOWN_SERVER_ERROR"] * 2
    before = play.stage.admin.fetch("far", 0, 0, 1000)
    assert before is not None
    assert (before.error, bool(before.records)) == (None, True)


def deleting(node: str) -> tuple[str, dict[str, Any]]:
    return "deleting", {"do": "kill_deleting", "node": node, "of": "far/0"}


@pytest.mark.parametrize("node", ["leader(far/0)", "broker(3)"])
def test_a_broker_dies_while_it_deletes_segments(play: Play, node: str) -> None:
    killed, *_ = play(deleting(node), acks(2000), heal("deleting"), TIERED)
    renamed, left = killed["resolved"]["renamed"], killed["resolved"]["left"]
    assert killed["effect"]["seen"]["renamed"] == renamed
    assert renamed
    assert max(renamed) < max(left)


def test_without_load_no_broker_deletes_segments(play: Play) -> None:
    play(acks(2000), TIERED)
    play.stage.load.stop_producers()  # type: ignore[attr-defined]
    said = play.doubt(IDLE, TIERED, IDLE_TOO, deleting("broker(3)"), heal("deleting"))
    assert "broker 3 was not killed while it deleted segments of far/0" in said


SWAPPED = ("swapped", {"do": "tier_swapped"})


def logs(play: Play) -> dict[str, str]:
    """The logs in the tier, by name, with their content."""
    found = [one for one in objects_of(store(play), ["far"]) if one.kind == LOG]
    return {one.path.name: content.sha256 for one in found if (content := read_object(one)) is not None}


def test_another_folder_gets_the_copies_until_healing(play: Play) -> None:
    play(acks(2000), TIERED)
    before = logs(play)
    swapped, *_ = play(SWAPPED, acks(2000), heal("swapped"), TIERED)
    after = logs(play)
    assert swapped["effect"]["seen"]["copied"] >= 1
    assert {name: after[name] for name in before} == before
    assert len(after) >= len(before) + swapped["effect"]["seen"]["copied"]
    assert sorted(path.name for path in store(play).iterdir()) == [ROOT]


def test_without_load_nothing_is_copied_into_another_folder(play: Play) -> None:
    play(acks(2000), TIERED)
    play.stage.load.stop_producers()  # type: ignore[attr-defined]
    said = play.doubt(IDLE, TIERED, SWAPPED, heal("swapped"))
    assert "no broker has copied a segment into the other folder" in said


OFF = ("off", {"do": "tier_off", "topic": "far"})


def test_a_topic_leaves_the_tier_and_returns(play: Play, admin: AdminView) -> None:
    _, _, off, *_ = play(acks(2000), TIERED, OFF, heal("off"), TIERED)
    (event,) = off["events"]
    first = event["before_offset"]
    assert first > 0
    assert off["resolved"] == {"keeps": {"far/0": first}}
    assert off["effect"]["seen"] == {"far/0": {1: first, 2: first, 3: first}}
    reported = admin.tiered_replicas(["far"])
    assert min(replica.local_log_start for replica in reported.values()) > first


def test_leaving_a_tier_without_records_of_its_own_has_no_effect(play: Play) -> None:
    play(acks(2000), TIERED)
    play.stage.load.stop_producers()  # type: ignore[attr-defined]
    play(TIERED)
    end = max(replica.local_log_start for replica in play.stage.admin.tiered_replicas(["far"]).values())
    play.stage.admin.delete_records({("far", 0): end})
    said = play.doubt(OFF, heal("off"))
    assert "no record of far was only in the remote tier" in said


def test_leaving_the_tier_without_load_has_no_effect(play: Play) -> None:
    play(acks(2000), TIERED)
    play.stage.load.stop_producers()  # type: ignore[attr-defined]
    said = play.doubt(IDLE, TIERED, OFF, heal("off"))
    assert "far/0 had no acks in the last second" in said


def test_an_object_below_the_log_start_offset_is_not_served(play: Play) -> None:
    """The tier deletes an expired object later; until then it is there, and no consumer may read it."""
    play(acks(2000), TIERED)
    end = play.stage.admin.tiered_replicas(["far"])["far", 0, 1].local_log_start
    play.stage.admin.delete_records({("far", 0): end})
    served = play.stage.admin.fetch("far", 0, 0, 1 << 20)
    assert served is not None
    assert (served.error, served.records) == ("OFFSET_OUT_OF_RANGE", b"")
