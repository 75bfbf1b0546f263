"""Class-data archives in the cache: which are used, and which are removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.kafka.release.class_archives import prune, usable


def test_the_last_used_archives_are_kept(tmp_path: Path) -> None:
    archives = [tmp_path / f"classes-{number}.jsa" for number in range(5)]
    other = tmp_path / "other-1.jsa"
    for age, archive in enumerate([*archives, other]):
        archive.write_bytes(b"x")
        os.utime(archive, (1000 - age, 1000 - age))
    assert usable(archives[-1])  # being used makes it the newest
    prune(tmp_path, "classes-*.jsa", 3)
    assert set(tmp_path.iterdir()) == {*archives[:2], archives[-1], other}


def test_an_empty_or_missing_archive_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "classes-1.jsa").touch()
    assert not usable(tmp_path / "classes-1.jsa")
    assert not usable(tmp_path / "absent.jsa")


def test_an_archive_that_may_only_be_read_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    (tmp_path / "classes-1.jsa").write_bytes(b"x")
    monkeypatch.setattr(os, "utime", refused)
    assert usable(tmp_path / "classes-1.jsa")
