"""Files other than the records with one flipped bit or half their content, after each kind of stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import clusters
from harness.clusters import Cluster
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import resolve
from harness.model.scenario.scenario import ClusterShape, Producer, Topic
from suites.gate.cluster_probes import RELEASE
from suites.gate.playing import Play, playing

pytestmark = pytest.mark.kafka

ROLLED = ("rolled", {"do": "wait_rolled", "on": ["busy/*"], "segments": 2})
# A clean stop writes the log start offsets and the recovery points.
STOPPED_BEFORE = (
    ("down", {"do": "terminate", "node": "broker(2)"}),
    ("written", {"do": "heal", "fault": "down"}),
    ("again", {"do": "wait_healthy"}),
)


@pytest.fixture(scope="module")
def cluster(backend: str) -> Iterator[Cluster]:
    release = resolve(RELEASE, maven_repo=None, cache=default_cache(), progress=print)
    running = clusters.start(release, ClusterShape(controllers=3), backend=backend, progress=print)
    yield running
    running.stop()
    assert running.unexpected_exits() == []


@pytest.fixture
def play(cluster: Cluster, tmp_path: Path) -> Iterator[Play]:
    topics = (Topic(name="busy", partitions=1, assignment=((1, 2, 3),), config={"segment.bytes": "1048576"}),)
    producer = Producer(name="steady", topics=("busy",), value_bytes=1000, rate_per_s=1500)
    with playing(cluster, tmp_path / "bundle", topics, (producer,)) as started:
        yield started


def damaged(play: Play, *before: tuple[str, dict[str, Any]], do: str = "damage", **arguments: Any) -> str:
    """The proof of the effect, after healing."""
    of = {"of": "busy/0"} if do == "damage" else {}
    rows = play(*before, ("damage", {"do": do, **of, **arguments}), ("up", {"do": "heal", "fault": "damage"}))
    return str(next(row for row in rows if row["name"] == "damage")["effect"]["because"])


@pytest.mark.parametrize(
    ("what", "by", "how", "because"),
    [
        ("index", "flip", "killed", "the broker rewrote it"),
        ("index", "cut", "killed", "the broker rewrote it"),
        ("index", "cut", "cleanly", "it used the index, and its log ends where it did before"),
        ("time_index", "flip", "killed", "the broker rewrote it"),
        ("time_index", "cut", "killed", "the broker rewrote it"),
        ("time_index", "cut", "cleanly", "it used the index, and its log ends where it did before"),
        ("leader_epoch_checkpoint", "flip", "cleanly", "it did not start"),
        ("leader_epoch_checkpoint", "cut", "killed", "it did not start"),
        ("producer_snapshot", "cut", "cleanly", "the broker rejected the snapshot"),
        ("producer_snapshot", "cut", "killed", "the broker rejected the snapshot"),
        ("producer_snapshot", "flip", "killed", "the broker rejected the snapshot"),
    ],
)
def test_a_flipped_bit_or_half_a_file_is_noticed_or_used(
    play: Play, what: str, by: str, how: str, because: str
) -> None:
    reported = damaged(play, ROLLED, *STOPPED_BEFORE, node="broker(2)", what=what, by=by, how=how)
    assert because in reported
    assert "its replicas have recovered" in reported


@pytest.mark.parametrize(("by", "how"), [("flip", "killed"), ("cut", "cleanly")])
def test_log_starts_that_cannot_be_parsed_keep_a_broker_down(play: Play, by: str, how: str) -> None:
    trimmed = ("trimmed", {"do": "delete_records", "on": ["busy/0"], "share": 0.5})
    reported = damaged(play, trimmed, *STOPPED_BEFORE, node="broker(2)", what="start_offset_checkpoint", by=by, how=how)
    assert "it did not start; its replicas have recovered" in reported


@pytest.mark.parametrize(
    ("what", "node", "how", "because"),
    [
        ("meta_properties_cut", "broker(2)", "cleanly", "it did not start"),
        ("meta_properties_cut", "controller_follower", "killed", "it did not start"),
        ("node_id", "broker(2)", "killed", "it did not start"),
        ("snapshot", "broker(2)", "killed", "it did not start"),
        ("log_tear", "broker(2)", "cleanly", "it truncated its log"),
    ],
)
def test_damaged_metadata_of_a_node_is_noticed_and_repaired(
    play: Play, what: str, node: str, how: str, because: str
) -> None:
    reported = damaged(play, do="damage_metadata", what=what, node=node, how=how)
    assert because in reported
    assert "it has recovered" in reported
