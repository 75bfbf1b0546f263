"""Power loss and failing disks on real file systems: each has an effect, heals, and says when it had none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.disks import loop_devices
from harness.clusters.disks.unmount import mounts_below
from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.faults.disks import disk_failed, disk_filled
from harness.model.errors import HarnessFailure
from harness.model.scenario.scenario import ClusterShape, Producer, Topic
from suites.gate.playing import Play, playing, running

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

BY_ONE = ((1, 2, 3), (1, 3, 2), (1, 2, 3), (1, 3, 2))
TOPICS = (
    Topic(name="busy", partitions=4, assignment=BY_ONE),
    Topic(name="cached", partitions=1, assignment=((1, 2, 3),)),
    Topic(name="flushed", partitions=1, assignment=((1, 2, 3),), config={"flush.messages": "1"}),
)
PRODUCERS = (
    Producer(name="steady", topics=("busy",), rate_per_s=800),
    Producer(name="cached", topics=("cached",), when="steps"),
    Producer(name="flushed", topics=("flushed",), when="steps"),
)


@pytest.fixture(scope="module", params=["ext4", "xfs"])
def cluster(request: pytest.FixtureRequest, backend: str) -> Iterator[Any]:
    reason = loop_devices.missing().get(loop_devices.capability(request.param))
    if reason and os.environ.get("CI") and os.geteuid() == 0:
        pytest.fail(f"in CI nothing may be missing: {reason}")
    if reason:
        pytest.skip(reason)
    with running(backend, ClusterShape(disk=request.param, log_dirs=2)) as started:
        assert len(mounts_below(started.directory)) == 6
        yield started
    assert mounts_below(started.directory) == []


@pytest.fixture
def play(cluster: JvmCluster, play: Play) -> Iterator[Play]:
    yield play
    assert cluster.unexpected_exits() == []


def burst(topic: str, records: int = 2000) -> tuple[str, dict[str, Any]]:
    return f"to_{topic}", {"do": "produce", "producer": topic, "to": f"{topic}/0", "records": records}


def ends(play: Play, topic: str) -> set[int]:
    """The log end offsets of the replicas of partition 0."""
    offsets = play.stage.admin.replica_offsets([topic])
    return {end for (_, partition, _), (_, end) in offsets.items() if partition == 0}


def test_when_all_lose_power_only_flushed_records_are_left(play: Play) -> None:
    rows = play(
        burst("flushed"),
        burst("cached"),
        ("dark", {"do": "power_loss", "node": "brokers"}),
        ("light", {"do": "heal", "fault": "dark"}),
    )
    dark = rows[2]
    assert (ends(play, "cached"), ends(play, "flushed")) == ({0}, {2000})
    assert dark["effect"]["seen"]["records_lost_by_logs"] >= 6000
    assert {(e["topic"], e["broker"]) for e in dark["events"] if e["kind"] == "power_loss"} >= {
        ("cached", broker) for broker in (1, 2, 3)
    }


def test_one_broker_loses_power_and_fetches_its_lost_records_again(play: Play) -> None:
    *_, dark, _, _ = play(
        burst("cached"),
        ("dark", {"do": "power_loss", "node": "leader(cached/0)"}),
        ("light", {"do": "heal", "fault": "dark"}),
    )
    assert dark["resolved"]["log_ends"]["cached/0 of 1"] == [2000, 0]
    assert ends(play, "cached") == {2000}


def test_disks_that_only_pretend_to_flush_lose_what_was_flushed(play: Play) -> None:
    play(
        burst("flushed", 300),
        ("lie", {"do": "disk_lies", "node": "brokers"}),
        ("more", {"do": "produce", "producer": "flushed", "to": "flushed/0", "records": 200}),
        ("dark", {"do": "power_loss", "node": "brokers", "lying_since": "lie"}),
        ("light", {"do": "heal", "fault": "dark"}),
    )
    assert ends(play, "flushed") == {300}


def test_a_power_loss_without_load_has_no_effect(play: Play) -> None:
    play.without_load()
    dark = ("dark", {"do": "power_loss", "node": "broker(1)"})
    said = play.doubt(dark, ("mend", {"do": "heal", "fault": "dark"}))
    assert "acks in the last second" in said or "no log lost a record" in said


def test_a_broker_ends_when_the_disk_of_its_metadata_log_fails(play: Play) -> None:
    dead, *_ = play(
        ("dead", {"do": "disk_failed", "node": "leader(busy/0)"}), ("mend", {"do": "heal", "fault": "dead"})
    )
    assert "took its log directory offline and ended" in dead["effect"]["because"]


def test_a_broker_still_runs_when_one_of_its_two_disks_fails(play: Play) -> None:
    dead, *_ = play(
        ("dead", {"do": "disk_failed", "node": "broker(1)", "log_dir": 2}), ("mend", {"do": "heal", "fault": "dead"})
    )
    assert "took data-2 offline and still runs" in dead["effect"]["because"]
    assert "leader epoch rose" in dead["effect"]["because"]


def test_a_failed_disk_without_load_has_no_effect(play: Play) -> None:
    play.without_load()
    dead = ("dead", {"do": "disk_failed", "node": "broker(1)", "log_dir": 2})
    assert play.doubt(dead, ("mend", {"do": "heal", "fault": "dead"}))


def test_a_disk_becomes_read_only(play: Play, cluster: JvmCluster) -> None:
    if cluster.shape.disk != "ext4":
        pytest.skip("XFS never becomes read-only by itself")
    fixed, *_ = play(
        ("fixed", {"do": "disk_read_only", "node": "leader(busy/0)"}), ("mend", {"do": "heal", "fault": "fixed"})
    )
    assert "took its log directory offline and ended" in fixed["effect"]["because"]


def test_a_disk_has_no_free_space(play: Play) -> None:
    # Without spare space the metadata log gets the error, too: no broker runs without that disk.
    full, *_ = play(
        ("full", {"do": "disk_filled", "node": "leader(busy/0)", "spare_kb": 0}),
        ("mend", {"do": "heal", "fault": "full"}),
    )
    assert "took its log directory offline and ended" in full["effect"]["because"]


def test_a_disk_stalls_repeatedly(play: Play) -> None:
    stall, *_ = play(("stall", {"do": "disk_stalled", "node": "leader(busy/0)", "for_s": 6.0}))
    assert stall["effect"]["seen"]["stalls"] >= 2


def test_stalls_that_are_too_short_have_no_effect(play: Play) -> None:
    arguments = {"do": "disk_stalled", "node": "leader(busy/0)", "freeze_s": 0.01, "thaw_s": 5.0}
    assert "a freeze of 0.01 s is too short to stop acks visibly" in play.doubt(("stall", arguments))


@pytest.mark.parametrize("what", ["shut_down", "freeze", "fill"])
def test_only_disks_of_brokers_are_broken(cluster: JvmCluster, what: str) -> None:
    """A controller's folder, and a folder on a broker's disk, are no mounts of a disk that the run made."""
    disks: Any = cluster.disks
    breaking: Callable[..., Any] = getattr(disks, what)
    (cluster.log_directories(1)[0] / "inside").mkdir(exist_ok=True)
    for directory in (cluster.log_directories(101)[0], cluster.log_directories(1)[0] / "inside", Path("/tmp")):
        with pytest.raises(HarnessFailure, match="is left alone"):
            breaking(directory, *([0] if what == "fill" else []))
    (cluster.log_directories(1)[0] / "inside").rmdir()


def test_a_disk_with_free_space_has_no_effect(play: Play, cluster: JvmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_filled, "DEADLINE_S", 3.0)
    full = ("full", {"do": "disk_filled", "node": "leader(busy/0)", "spare_kb": 1 << 20})
    assert "still runs: none of its writes was refused" in play.doubt(full)
    assert cluster.running(1)


def test_a_read_only_disk_without_load_has_no_effect(
    play: Play, cluster: JvmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cluster.shape.disk != "ext4":
        pytest.skip("XFS never becomes read-only by itself")
    monkeypatch.setattr(disk_failed, "DEADLINE_S", 3.0)
    play.without_load()
    fixed = ("fixed", {"do": "disk_read_only", "node": "broker(1)", "log_dir": 2})
    assert "data-2" in play.doubt(fixed, ("mend", {"do": "heal", "fault": "fixed"}))


@pytest.fixture
def synced(cluster: JvmCluster, tmp_path: Path) -> Iterator[Play]:
    """A load with acknowledgements that wait for disks, that of broker 1 among them."""
    topic = Topic(name="synced", partitions=2, assignment=((1, 2, 3), (1, 3, 2)), config={"flush.messages": "1"})
    with playing(
        cluster, tmp_path / "bundle", (topic,), (Producer(name="synced", topics=("synced",), rate_per_s=400),)
    ) as stage:
        yield stage
        assert cluster.unexpected_exits() == []


def needs_slow() -> None:
    if reason := loop_devices.missing().get(loop_devices.SLOW):
        pytest.skip(reason)


def test_a_flush_takes_long_on_a_slow_disk(synced: Play, cluster: JvmCluster) -> None:
    needs_slow()
    slow, *_ = synced(("slow", {"do": "disk_slow", "node": "leader(synced/0)", "for_s": 3.0}))
    usual_s, flush_s = slow["effect"]["seen"]["flush_s"]
    assert flush_s > max(0.1, 2 * usual_s)
    disks: Any = cluster.disks
    assert disks.flush_s(cluster.log_directories(1)[0]) < flush_s


def test_a_disk_that_is_fast_enough_has_no_effect(synced: Play) -> None:
    needs_slow()
    fast = {"do": "disk_slow", "node": "leader(synced/0)", "writes_per_s": 1000, "for_s": 1.0}
    assert "a flush took 0.0" in synced.doubt(("fast", fast))
