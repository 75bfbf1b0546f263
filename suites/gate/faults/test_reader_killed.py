"""A member of a consumer group whose process is killed: its coordinator gives its partitions to the other member."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clusters import Cluster
from harness.kafka.release.cache import default_cache
from harness.kafka.release.java_clients import with_java_clients
from harness.kafka.release.release import resolve
from harness.model.scenario.scenario import ClusterShape, Producer, Reader, Topic
from harness.workload.java.java_process import clients_of
from suites.gate.playing import RELEASE, playing

pytestmark = pytest.mark.kafka

SHAPE = ClusterShape()
TOPICS = (Topic(name="read", partitions=2, assignment=((1, 2, 3), (2, 3, 1))),)
PRODUCERS = (Producer(name="steady", topics=("read",), rate_per_s=500),)
READERS = tuple(Reader(name=name, topics=("read",), group="readers", client="java") for name in ("one", "two"))


def test_the_other_member_gets_the_partitions_of_one_whose_process_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    release = resolve(RELEASE, maven_repo=None, cache=default_cache(), progress=print)
    java = clients_of(with_java_clients(release, maven_repo=None, cache=default_cache(), progress=print))
    with playing(cluster, tmp_path / "bundle", TOPICS, PRODUCERS, READERS, java) as play:
        _, killed, *_ = play(
            ("begun", {"do": "wait_commits", "group": "readers"}),
            ("killed", {"do": "reader_killed", "reader": "one"}),
            ("noticed", {"do": "wait_effect", "fault": "killed"}),
            ("back", {"do": "heal", "fault": "killed"}),
            ("again", {"do": "wait_commits", "group": "readers", "commits": 3}),
        )
    assert killed["effect"]["because"] == "the other members got the partitions of one"
    assert killed["effect"]["seen"]["had"]
