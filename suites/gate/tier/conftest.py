"""A cluster with a tier under load, which leaves no file and loses no node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.clusters import Cluster
from harness.kafka.settings.tier_settings import ORDERS
from suites.gate.playing import Play, running


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, backend: str) -> Iterator[Cluster]:
    """A cluster of the module's SHAPE."""
    with running(backend, request.module.SHAPE) as started:
        yield started
    assert not started.directory.exists()


@pytest.fixture
def play(cluster: Cluster, play: Play) -> Iterator[Play]:
    yield play
    assert cluster.unexpected_exits() == []
    assert cluster.tier_store is not None
    orders = cluster.tier_store / ORDERS
    assert not orders.exists() or list(orders.iterdir()) == []
