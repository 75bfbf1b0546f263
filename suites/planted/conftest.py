"""One real run, one changed copy of it a plant, one judgement of them all."""

from __future__ import annotations

import pytest

import reports
from suites.planted.copies import Original
from suites.planted.driving import drive_base
from suites.planted.judging import Judged, judge_plants


@pytest.fixture(scope="session")
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Original:
    """The evidence of a real run, driven now."""
    config = request.config
    out = tmp_path_factory.mktemp("original")
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled(), reports.progress() as progress:
        return drive_base(out, config.getoption("--kafka"), config.getoption("--maven-repo"), progress)


@pytest.fixture(scope="session")
def judged(
    original: Original, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, Judged]:
    """Every copy with the verdict on it. Spark starts when the brokers are gone."""
    request.getfixturevalue("spark")
    return judge_plants(original, tmp_path_factory.mktemp("copies"))
