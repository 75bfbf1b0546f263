"""The release, the patch tool, and the summary of the findings for each build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.plugin import MissingCapability
from harness.clusters.choosing import able
from harness.faults.steps.registry import lacking
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import resolve
from harness.model.backend import PROCESSES
from harness.scenarios import load
from suites.mutants.build import Patcher, missing_jdk
from suites.mutants.gate import SEED, Judged, judge
from suites.mutants.table import Variant

# Edits name methods that a compiler generated, so they fit only one release.
RELEASE = "4.3.1"
SUMMARY = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole-gate",
        action="store_true",
        help="judge by every scenario of the gate, not only by their own; of a mutant until one is no PASS",
    )
    parser.addoption("--seeds", type=int, default=1, help="play each mutant with so many seeds, one after the other")
    parser.addoption("--unplayed", action="store_true", help="play the rows of unplayed.toml, too")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SUMMARY] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[SUMMARY]:
        terminalreporter.section("findings of each build")
        for line in config.stash[SUMMARY]:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def patcher(tmp_path_factory: pytest.TempPathFactory, missing_capability: MissingCapability) -> Patcher:
    """The patch tool, compiled once. All builds share one folder of links to jars."""
    if (reason := missing_jdk()) is not None:
        missing_capability(reason)
    release = resolve(RELEASE, maven_repo=None, cache=default_cache(), progress=print)
    return Patcher(release.classpath, tmp_path_factory.mktemp("mutants"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        given = metafunc.config.getoption("--seed")
        first = SEED if given is None else given
        metafunc.parametrize("seed", range(first, first + metafunc.config.getoption("--seeds", default=1)), ids=str)


@pytest.fixture
def run_gate_on(
    request: pytest.FixtureRequest, patcher: Patcher, tmp_path: Path, missing_capability: MissingCapability, seed: int
) -> Callable[[Variant], Judged]:
    """Builds a variant, runs the gate on it with the seed of the test, and adds a line to the summary."""

    def judged_by_gate(variant: Variant) -> Judged:
        outside = [s for s in map(load, variant.judge) if not s.gate]
        if reason := next(filter(None, (lacking(s, able(PROCESSES)) for s in outside)), None):
            missing_capability(reason, root_only=True)
        whole = request.config.getoption("--whole-gate", default=False) and not outside
        only = () if whole else variant.judge
        judged = judge(patcher.build(variant), tmp_path / "out", only, seed, fail_fast=whole and bool(variant.expect))
        request.config.stash[SUMMARY].append(f"seed {seed}: {judged.line(variant.name)}")
        return judged

    return judged_by_gate
