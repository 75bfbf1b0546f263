"""How often the harness is killed, and what came of it."""

from __future__ import annotations

import random

import pytest

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
