"""Files beside the records that lose half of themselves or have one bit flipped, after either stop: each bites."""

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
from suites.gate.playing import Play, playing

pytestmark = pytest.mark.kafka

ROLLED = ("rolled", {"do": "wait_rolled", "on": ["busy/*"], "segments": 2})
# A clean stop writes log starts, and up to where all is flushed: recovery begins there.
STOPPED_BEFORE = (
    ("down", {"do": "terminate", "node": "broker(2)"}),
    ("written", {"do": "heal", "fault": "down"}),
    ("again", {"do": "wait_healthy"}),
)


@pytest.fixture(scope="module")
def cluster(backend: str) -> Iterator[Cluster]:
    release = resolve("4.3.1", maven_repo=None, cache=default_cache(), progress=print)
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
    """What shows that it bit, after it was healed."""
    of = {"of": "busy/0"} if do == "damage" else {}
    rows = play(*before, ("damage", {"do": do, **of, **arguments}), ("up", {"do": "heal", "fault": "damage"}))
    return str(next(row for row in rows if row["name"] == "damage")["effect"]["because"])


@pytest.mark.parametrize(
    ("what", "by", "how", "because"),
    [
        ("index", "flip", "killed", "the broker wrote it anew"),
        ("index", "cut", "killed", "the broker wrote it anew"),
        ("index", "cut", "cleanly", "it went by it, and its log ends where it did"),
        ("time_index", "flip", "killed", "the broker wrote it anew"),
        ("time_index", "cut", "killed", "the broker wrote it anew"),
        ("time_index", "cut", "cleanly", "it went by it, and its log ends where it did"),
        ("leader_epoch_checkpoint", "flip", "cleanly", "it did not start"),
        ("leader_epoch_checkpoint", "cut", "killed", "it did not start"),
        ("producer_snapshot", "cut", "cleanly", "the broker did not believe it"),
        ("producer_snapshot", "cut", "killed", "the broker did not believe it"),
        ("producer_snapshot", "flip", "killed", "the broker did not believe it"),
    ],
)
def test_a_bit_or_half_of_a_file_is_noticed_or_gone_by(play: Play, what: str, by: str, how: str, because: str) -> None:
    reported = damaged(play, ROLLED, *STOPPED_BEFORE, node="broker(2)", what=what, by=by, how=how)
    assert because in reported
    assert "its copy is whole again" in reported


@pytest.mark.parametrize(("by", "how"), [("flip", "killed"), ("cut", "cleanly")])
def test_log_starts_that_do_not_parse_keep_a_broker_down(play: Play, by: str, how: str) -> None:
    trimmed = ("trimmed", {"do": "delete_records", "on": ["busy/0"], "share": 0.5})
    reported = damaged(play, trimmed, *STOPPED_BEFORE, node="broker(2)", what="start_offset_checkpoint", by=by, how=how)
    assert "it did not start; its copy is whole again" in reported


@pytest.mark.parametrize(
    ("what", "node", "how", "because"),
    [
        ("meta_properties_cut", "broker(2)", "cleanly", "it did not start"),
        ("meta_properties_cut", "controller_follower", "killed", "it did not start"),
        ("node_id", "broker(2)", "killed", "it did not start"),
        ("snapshot", "broker(2)", "killed", "it did not start"),
        ("log_tear", "broker(2)", "cleanly", "it cut its log off"),
    ],
)
def test_half_of_what_a_node_knows_is_not_enough(play: Play, what: str, node: str, how: str, because: str) -> None:
    reported = damaged(play, do="damage_metadata", what=what, node=node, how=how)
    assert because in reported
    assert "it is whole again" in reported
