"""Which columns of the matrix a pytest run plays, and how often those that lose exactly so many."""

from __future__ import annotations

import pytest

from harness import contracts


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tag", default="", help="columns with one of these tags, with commas")
    parser.addoption("--times", type=int, default=5, help="how often what loses an exact number has to lose it")


def chosen(config: pytest.Config) -> tuple[str, ...]:
    """Names of the columns that `--only` (their name, or their event's) and `--tag` choose; all without either."""
    only, tags = (_words(config.getoption(option)) for option in ("--only", "--tag"))
    return contracts.chosen(only, tags)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
