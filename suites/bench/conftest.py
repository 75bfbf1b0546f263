"""One cluster for all measurements: both sides of a comparison use the same one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import clusters
from harness.clusters import Cluster
from harness.kafka.admin.client import AdminView
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import resolve
from harness.model.scenario.scenario import ClusterShape
from suites.gate.cluster_probes import RELEASE


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    release = resolve(RELEASE, maven_repo=None, cache=default_cache(), progress=print)
    running = clusters.start(release, ClusterShape(), progress=print)
    yield running
    running.stop()


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminView]:
    with AdminView({node: cluster.direct_address(node) for node in cluster.brokers}) as view:
        yield view
