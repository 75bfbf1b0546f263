"""The cluster that the harness did not start; one for all tests that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from suites.attached import by_hand
from suites.attached.by_hand import ByHand
from suites.attached.playing import names


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ByHand]:
    """Its retention looks each second: by default every five minutes, and a scenario waits less for that."""
    with by_hand.by_hand(tmp_path_factory.mktemp("cluster"), {"log.retention.check.interval.ms": "1000"}) as running:
        yield running


@pytest.fixture
def as_it_was(cluster: ByHand) -> Iterator[None]:
    """The test leaves the cluster as it found it: every node runs, and no topic or group is new."""
    yield
    assert {node: by_hand.state(cluster.node(node)) for node in cluster.nodes} == dict.fromkeys(
        cluster.nodes, "running"
    )
    assert names(cluster.bootstrap) <= {"__consumer_offsets", "__transaction_state"}
