"""Which bundles the comparison takes, judged by which earlier version of the harness."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--before", type=Path, help="folder with bundles of earlier formats and their verdicts")
    parser.addoption("--incomplete", action="store_true", help="the folder of --before lacks bundles that were kept")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The bundles are too large for the repository, so without a folder there is nothing to compare.

    pytest hands over the tests of all suites that were named, and only those of this one need bundles.
    """
    if config.getoption("--before") is None:
        for item in (item for item in items if item.path.is_relative_to(HERE)):
            item.add_marker(pytest.mark.skip(reason="give --before DIR, a folder with bundles and their verdicts"))
