"""The events of the matrix that a pytest run plays, and the number of runs of those with an exact loss."""

from __future__ import annotations

import pytest

from fixtures.plugin import comma_separated
from harness.commands import matrix


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=int, default=5, help="runs of each event that loses an exact number")


def chosen(config: pytest.Config) -> tuple[str, ...]:
    """Names of the scenarios that `--only` (their name, or that of their event) and `--tag` choose; all by default."""
    return matrix.chosen(comma_separated(config, "--only"), comma_separated(config, "--tag"))
