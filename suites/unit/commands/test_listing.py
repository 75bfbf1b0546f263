"""Tests of `durability list releases`, with a repository and with one that does not answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.commands import listing
from harness.model.errors import BadInput
from suites.unit.kafka.release.maven_repository import MavenRepository

SILENT = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cache keeps what it knows of releases."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "kafka-durability" / "releases"
    folder.mkdir(parents=True)
    return folder


def record(folder: Path, version: str, repository: str) -> None:
    (folder / f"{version}@x.json").write_text(json.dumps({"version": version, "repository": repository}))


def test_each_version_says_whether_it_can_be_judged(tmp_path: Path, records: Path) -> None:
    repository = MavenRepository(tmp_path / "repository")
    for version in ("2.8.0", "4.2.0", "4.3.1"):
        repository.kafka(version)
    record(records, "4.2.0", repository.url)
    assert listing.releases(repository.url)[1] == [
        ("4.3.1", "downloaded when used, if it is completely published"),
        ("4.2.0", "cached"),
        ("2.8.0", "no: it has no KRaft mode for production (KIP-833)"),
    ]


def test_a_silent_repository_is_not_credited_with_what_another_one_has(records: Path) -> None:
    record(records, "4.2.0", "https://repo1.maven.org/maven2")
    with pytest.raises(BadInput, match=r"^http://127\.0\.0\.1:9 cannot be reached"):
        listing.releases(SILENT)
    record(records, "4.3.1", SILENT)
    ((version, said),) = listing.releases(SILENT)[1]
    assert (version, said.startswith("cached; the repository was not asked: http://127.0.0.1:9 cannot")) == (
        "4.3.1",
        True,
    )


def test_an_empty_name_is_no_repository() -> None:
    with pytest.raises(BadInput, match=r"^'' is not the URL of a Maven repository"):
        listing.releases("")
