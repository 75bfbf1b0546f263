"""The pytest plugin.

A missing capability skips a test on a developer's machine and fails it in CI, where a skip would go unnoticed.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from fixtures.plugin import MissingCapability, in_part

ROOT = Path(__file__).parents[2]
pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    ("ci", "user", "root_only", "ended"),
    [
        ("", 0, False, "skipped"),
        ("", 1000, True, "skipped"),
        ("1", 0, False, "failed"),
        ("1", 1000, False, "failed"),
        ("1", 0, True, "failed"),
        ("1", 1000, True, "skipped"),
    ],
)
def test_only_ci_that_could_have_the_capability_fails(
    missing_capability: MissingCapability,
    monkeypatch: pytest.MonkeyPatch,
    ci: str,
    user: int,
    root_only: bool,
    ended: str,
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    expected = pytest.fail.Exception if ended == "failed" else pytest.skip.Exception
    with pytest.raises(expected, match="no disks here"):
        missing_capability("no disks here", root_only=root_only)


@pytest.mark.parametrize("parts", [1, 2, 3, 50])
def test_every_test_is_in_one_part(parts: int) -> None:
    every = [f"test_{number}" for number in range(40)]
    assert [one for part in range(1, parts + 1) for one in in_part(every, f"{part}/{parts}")] == every


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "a/b", "1/2/3"])
def test_a_wrong_part_is_refused(part: str) -> None:
    with pytest.raises(pytest.UsageError, match="no part"):
        in_part(["test_a", "test_b"], part)


def test_a_suite_plays_what_the_tests_of_its_part_need(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from fixtures.plugin import played

        @pytest.fixture(scope="session")
        def once(request):
            return played(request, "name")

        def test_of_another_kind():
            pass

        @pytest.mark.parametrize("name", "abcde")
        def test_of_one(name, once):
            assert name in once
            print("played", *once)
        """
    )
    result = pytester.runpytest_inprocess("-p", "fixtures.plugin", "--part", "2/3", "-rP")
    result.assert_outcomes(passed=2, deselected=4)
    assert "played b c" in result.stdout.str()


def test_no_two_suites_declare_one_option() -> None:
    """The second one cannot be collected."""
    files = [*ROOT.glob("suites/**/conftest.py"), ROOT / "fixtures/plugin.py"]
    options = [name for file in files for name in re.findall(r'addoption\(\s*"(--[\w-]+)"', file.read_text("utf-8"))]
    assert options
    assert [name for name, times in Counter(options).items() if times > 1] == []
