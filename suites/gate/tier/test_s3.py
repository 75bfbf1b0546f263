"""A remote tier in S3 on real brokers: segments are copied and read back, and faults of its server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.clusters import Cluster
from harness.kafka.admin.client import AdminView
from harness.kafka.storage.local_tier import LOG, objects_of, read_object
from harness.model.scenario.scenario import ClusterShape, Producer, Topic
from suites.gate.playing import Play, running

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SHAPE = ClusterShape(tier="s3", tier_faults=True)
SMALL = {"remote.storage.enable": "true", "segment.bytes": "1048576", "local.retention.bytes": "1"}
TOPICS = (Topic(name="far", partitions=1, config=SMALL, assignment=((1, 2, 3),)),)
PRODUCERS = (Producer(name="bulk", topics=("far",), value_bytes=4000, rate_per_s=1000),)
WHOLE = ("tiered", {"do": "wait_tiered"})
SOME = ("some", {"do": "wait_acks", "on": ["far/0"], "records": 2000})


@pytest.fixture(scope="module")
def cluster(backend: str) -> Iterator[Cluster]:
    with running(backend, SHAPE) as started:
        yield started
    assert not started.directory.exists()


@pytest.fixture
def play(cluster: Cluster, play: Play) -> Iterator[Play]:
    yield play
    assert cluster.unexpected_exits() == []


def heal(fault: str) -> tuple[str, dict[str, Any]]:
    return f"heal_{fault}", {"do": "heal", "fault": fault}


def test_segments_that_brokers_deleted_are_complete_in_the_bucket_and_are_read_back(
    play: Play, admin: AdminView
) -> None:
    play(SOME, WHOLE, ("replay", {"do": "replay", "on": ["far/0"]}), heal("replay"))
    local_start = min(replica.local_log_start for replica in admin.tiered_replicas(["far"]).values())
    assert local_start > 0
    store = play.stage.cluster.tier_store
    assert store is not None
    at = 0
    for one in (one for one in objects_of(store, ["far"]) if one.kind == LOG):
        content = read_object(one)
        assert content is not None
        assert (content.first_offset, content.faulty) == (at, "")
        at = (content.last_offset or 0) + 1
    assert at >= local_start


@pytest.mark.parametrize("mode", ["refusing", "silent"])
def test_a_server_that_cannot_be_reached_has_an_effect_and_recovers(play: Play, mode: str) -> None:
    cut, *_ = play(("cut", {"do": "tier_cut", "mode": mode}), SOME, heal("cut"), WHOLE)
    assert cut["effect"]["seen"]["failed"] == [play.stage.partition(("far", 0)).leader]


def test_revoked_keys_have_an_effect_and_are_restored(play: Play) -> None:
    denied, *_ = play(("denied", {"do": "tier_denied"}), SOME, heal("denied"), WHOLE)
    assert denied["effect"]["seen"]["failed"] == [play.stage.partition(("far", 0)).leader]


def test_revoked_keys_without_load_have_no_effect(play: Play) -> None:
    play.stage.load.stop_producers()  # type: ignore[attr-defined]
    idle = ("idle", {"do": "hold", "seconds": 1.5})  # acks of the last second are over then
    said = play.doubt(idle, WHOLE, ("denied", {"do": "tier_denied"}), heal("denied"))
    assert "no partition of the remote tier had acks" in said


def test_a_cut_from_a_broker_without_leadership_has_no_effect(play: Play) -> None:
    other = play.stage.partition(("far", 0)).leader % 3 + 1
    said = play.doubt(("cut", {"do": "tier_cut", "node": f"broker({other})"}), SOME, heal("cut"))
    assert "no broker failed to copy a segment" in said


def test_a_tier_in_s3_with_the_faulty_storage_takes_orders(play: Play) -> None:
    half = {"do": "tier_errors", "ops": ["copy"], "share": 0.5, "half": True}
    reported, *_ = play(("half", half), SOME, heal("half"), WHOLE)
    assert reported["effect"]["seen"]["deeds"]["copy stopped half way"] >= 1
