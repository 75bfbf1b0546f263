"""A remote tier in S3 on real brokers: segments are copied and read back, and faults of its server."""

from __future__ import annotations

import pytest

from harness.kafka.admin.client import AdminView
from harness.kafka.storage.local_tier import LOG, objects_of
from harness.model.scenario.scenario import ClusterShape
from suites.gate.playing import Play
from suites.gate.tier.far_topic import BULK, FAR, IDLE, REPLAY, TIERED, acks, end_of, heal, store

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SHAPE = ClusterShape(tier="s3", tier_faults=True)
TOPICS, PRODUCERS = (FAR,), (BULK,)


def test_segments_that_brokers_deleted_are_complete_in_the_bucket_and_are_read_back(
    play: Play, admin: AdminView
) -> None:
    play(acks(2000), TIERED, REPLAY, heal("replay"))
    local_start = min(replica.local_log_start for replica in admin.tiered_replicas(["far"]).values())
    assert local_start > 0
    logs = [one for one in objects_of(store(play), ["far"]) if one.kind == LOG]
    assert end_of(logs) >= local_start


@pytest.mark.parametrize("mode", ["refusing", "silent"])
def test_a_server_that_cannot_be_reached_has_an_effect_and_recovers(play: Play, mode: str) -> None:
    cut, *_ = play(("cut", {"do": "tier_cut", "mode": mode}), acks(2000), heal("cut"), TIERED)
    assert cut["effect"]["seen"]["failed"] == [play.stage.partition(("far", 0)).leader]


def test_revoked_keys_have_an_effect_and_are_restored(play: Play) -> None:
    denied, *_ = play(("denied", {"do": "tier_denied"}), acks(2000), heal("denied"), TIERED)
    assert denied["effect"]["seen"]["failed"] == [play.stage.partition(("far", 0)).leader]


def test_revoked_keys_without_load_have_no_effect(play: Play) -> None:
    play.stage.load.stop_producers()  # type: ignore[attr-defined]
    said = play.doubt(IDLE, TIERED, ("denied", {"do": "tier_denied"}), heal("denied"))
    assert "no partition of the remote tier had acks" in said


def test_a_cut_from_a_broker_without_leadership_has_no_effect(play: Play) -> None:
    other = play.stage.partition(("far", 0)).leader % 3 + 1
    said = play.doubt(("cut", {"do": "tier_cut", "node": f"broker({other})"}), acks(2000), heal("cut"))
    assert "no broker failed to copy a segment" in said


def test_a_tier_in_s3_with_the_faulty_storage_takes_orders(play: Play) -> None:
    half = {"do": "tier_errors", "ops": ["copy"], "share": 0.5, "half": True}
    reported, *_ = play(("half", half), acks(2000), heal("half"), TIERED)
    assert reported["effect"]["seen"]["deeds"]["copy stopped half way"] >= 1
