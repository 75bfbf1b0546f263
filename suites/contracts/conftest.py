"""Which columns of the matrix a pytest run plays, and how often those that lose exactly so many."""

from __future__ import annotations

import pytest

from fixtures.plugin import words
from harness.commands import matrix


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=int, default=5, help="how often what loses an exact number has to lose it")


def chosen(config: pytest.Config) -> tuple[str, ...]:
    """Names of the columns that `--only` (their name, or their event's) and `--tag` choose; all without either."""
    return matrix.chosen(words(config, "--only"), words(config, "--tag"))
