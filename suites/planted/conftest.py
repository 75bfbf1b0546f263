"""One real run, one changed copy of its evidence for each plant, and one judgement of all copies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

import reports
from fixtures.plugin import played
from suites.planted.copies import Original
from suites.planted.driving import drive_base
from suites.planted.judging import Judged, judge_plants

# The priority of all processes of this session against other sessions (sched(7)). `nice` counts only within a session.
_OF_SESSION: Final = Path("/proc/self/autogroup")


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
    """The copy of each plant of this run, judged. Spark starts after the brokers have stopped, with a low priority."""
    os.nice(19)
    with _low_priority_of_session():
        request.getfixturevalue("spark")
        return judge_plants(original, tmp_path_factory.mktemp("copies"), played(request, "plant"))


@contextmanager
def _low_priority_of_session() -> Iterator[None]:
    """Does nothing where the priority could not be raised again."""
    if os.geteuid() != 0 or not _OF_SESSION.exists():
        yield
        return
    before = _OF_SESSION.read_text().split()[-1]  # such as "/autogroup-234 nice 0"
    _OF_SESSION.write_text("19")
    try:
        yield
    finally:
        _OF_SESSION.write_text(before)
