"""What tests of faults begin with, as their modules say; how often the harness is killed, and what came of it."""

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
    parser.addoption("--kills", type=int, default=50, help="how often the harness is killed")
    parser.addoption("--kill-seed", type=int, default=random.randrange(1 << 32), help="repeats the moments of kills")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[KILLS] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[KILLS]:
        terminalreporter.section("kills of the harness")
        for line in config.stash[KILLS]:
            terminalreporter.line(line)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, backend: str) -> Iterator[Cluster]:
    """Of the module's SHAPE."""
    with running(backend, request.module.SHAPE) as started:
        yield started


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminView]:
    """Its observer, past every fault."""
    with broker_state.observer(cluster) as view:
        yield view


@pytest.fixture
def play(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[Play]:
    """Under a load of the module's TOPICS, PRODUCERS and, if it has some, READERS."""
    of = request.module
    with playing(cluster, tmp_path / "bundle", of.TOPICS, of.PRODUCERS, getattr(of, "READERS", ())) as started:
        yield started
