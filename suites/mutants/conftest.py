"""What the two suites share: the release, the patch tool, and the table of who convicted whom."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.clusters.choosing import able
from harness.faults.steps.registry import lacking
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import resolve
from harness.model.backend import PROCESSES
from harness.scenarios import load
from suites.mutants.build import Patcher, missing_jdk
from suites.mutants.gate import Judged, judge
from suites.mutants.table import Variant

# Edits name methods of the compiler's making, so they belong to one release.
RELEASE = "4.3.1"
TABLE = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole-gate", action="store_true", help="judge mutants by every scenario, not by their own")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TABLE] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[TABLE]:
        terminalreporter.section("who convicted whom")
        for line in config.stash[TABLE]:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def patcher(tmp_path_factory: pytest.TempPathFactory) -> Patcher:
    """Compiled once; its builds share one folder of links. Skips, or fails in CI, without a JDK."""
    if (without := missing_jdk()) is not None:
        if os.environ.get("CI"):
            pytest.fail(f"in CI everything must be there: {without}")
        pytest.skip(without)
    release = resolve(RELEASE, maven_repo=None, cache=default_cache(), progress=print)
    return Patcher(release.classpath, tmp_path_factory.mktemp("mutants"))


@pytest.fixture
def convict(request: pytest.FixtureRequest, patcher: Patcher, tmp_path: Path) -> Callable[[Variant], Judged]:
    """Builds a variant and judges it by the gate; one line of the table tells what came of it."""

    def convicted(variant: Variant) -> Judged:
        beside = [s for s in map(load, variant.judge) if not s.gate]
        if refused := next(filter(None, (lacking(s, able(PROCESSES)) for s in beside)), None):
            if os.environ.get("CI") and os.geteuid() == 0:
                pytest.fail(f"in CI everything must be there: {refused}")
            pytest.skip(refused)
        whole = request.config.getoption("--whole-gate", default=False) and not beside
        only = () if whole else variant.judge
        judged = judge(patcher.build(variant), tmp_path / "out", only)
        request.config.stash[TABLE].append(judged.line(variant.name))
        return judged

    return convicted
