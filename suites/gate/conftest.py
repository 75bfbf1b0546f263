"""A cluster under load for the tests of faults, as their modules declare it. Options and report of kills."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clusters import Cluster
from harness.kafka.admin.client import AdminView
from harness.run import broker_state
from suites.gate.playing import Play, playing, running

KILLS = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=50, help="number of times that the harness is killed")
    parser.addoption(
        "--kill-seed",
        type=int,
        default=random.randrange(1 << 32),
        help="repeats the moments of the kills of an earlier run",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[KILLS] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[KILLS]:
        terminalreporter.section("kills of the harness")
        for line in config.stash[KILLS]:
            terminalreporter.line(line)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, backend: str) -> Iterator[Cluster]:
    """A cluster of the module's SHAPE."""
    with running(backend, request.module.SHAPE) as started:
        yield started


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminView]:
    """An observer of the cluster, which no fault affects."""
    with broker_state.observer(cluster) as view:
        yield view


@pytest.fixture
def play(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[Play]:
    """The cluster under a load of the module's TOPICS, PRODUCERS and, if it has any, READERS."""
    module = request.module
    readers = getattr(module, "READERS", ())
    with playing(cluster, tmp_path / "bundle", module.TOPICS, module.PRODUCERS, readers) as started:
        yield started
