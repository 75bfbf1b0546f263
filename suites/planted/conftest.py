"""One real run, one changed copy of its evidence for each plant, and one judgement of all copies."""

from __future__ import annotations

import os

import pytest

import reports
from suites.planted.copies import Original
from suites.planted.driving import drive_base
from suites.planted.judging import Judged, judge_plants


@pytest.fixture(scope="session")
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Original:
    """The evidence of a real run, which takes place now."""
    config = request.config
    out = tmp_path_factory.mktemp("original")
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled(), reports.progress() as progress:
        return drive_base(out, config.getoption("--kafka"), config.getoption("--maven-repo"), progress)


@pytest.fixture(scope="session")
def judged(
    original: Original, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, Judged]:
    """Every copy with its verdict. Spark starts after the brokers have stopped, with a low priority."""
    os.nice(19)
    request.getfixturevalue("spark")
    return judge_plants(original, tmp_path_factory.mktemp("copies"))
