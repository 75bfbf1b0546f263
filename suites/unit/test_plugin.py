"""A missing capability skips a test on a developer's machine and fails it in CI, where a skip would go unnoticed."""

from __future__ import annotations

import os

import pytest

from fixtures.plugin import MissingCapability


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
