"""The storages of this harness are compiled once for an interface; a failure is reported in one sentence."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.kafka.release import java_compiler as module
from harness.kafka.release import storage_plugins
from harness.kafka.release.java_compiler import API, COMPILER
from harness.kafka.release.release import Release
from harness.kafka.release.repository import NotPublished
from harness.kafka.release.storage_plugins import SDK, with_faulty_storage, with_file_storage, with_s3_storage
from harness.model.errors import BadInput

# Replaces Java: writes a class file like the compiler, or fails like it.
JAVA = """#!/bin/sh
echo "$@" >> "$0.calls"
if [ -e "$0.broken" ]; then echo 'The method copy is undefined' >&2; exit 255; fi
while [ "$1" != -d ]; do shift; done
mkdir -p "$2/durability" && echo class > "$2/durability/FaultyStorage.class"
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    executable = tmp_path / "java"
    executable.write_text(JAVA)
    executable.chmod(0o755)
    monkeypatch.setattr(module, "find_java", lambda version: SimpleNamespace(executable=executable))
    return executable


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The artifacts of each download."""
    found: list[list[str]] = []

    def fetched(wanted: list[Any], *_: Any) -> tuple[Path, ...]:
        found.append([one.artifact for one in wanted])
        paths = tuple(tmp_path / f"{one.artifact}-published.jar" for one in wanted)
        for path in paths:
            path.write_text(path.name)
        return paths

    for holder in (module, storage_plugins):
        monkeypatch.setattr(holder, "fetched", fetched)
    return found


@pytest.fixture
def release(tmp_path: Path) -> Release:
    jars = tuple(tmp_path / f"{name}-4.3.1.jar" for name in (*API, "kafka_2.13"))
    for jar in jars:
        jar.write_text(jar.name)
    return Release("4.3.1", "c", "s", jars)


def given(release: Release, tmp_path: Path) -> Path:
    found = with_faulty_storage(release, maven_repo=None, cache=tmp_path / "cache", progress=lambda _: None)
    assert found.faulty_storage is not None
    assert with_faulty_storage(found, maven_repo=None, cache=Path("/nowhere"), progress=lambda _: None) is found
    return found.faulty_storage


def calls(java: Path) -> list[str]:
    log = java.with_name("java.calls")
    return log.read_text().splitlines() if log.exists() else []


def test_a_storage_is_compiled_once_for_an_interface(
    release: Release, java: Path, asked: list[list[str]], tmp_path: Path
) -> None:
    jar = given(release, tmp_path)
    assert zipfile.ZipFile(jar).namelist() == ["durability/FaultyStorage.class"]
    assert asked == [[COMPILER.artifact]]
    assert [str(release.classpath[0]), str(release.classpath[1])] == calls(java)[0].split(" -cp ")[1].split()[0].split(
        ":"
    )
    assert given(release, tmp_path) == jar
    assert len(calls(java)) == 1
    release.classpath[0].write_text("another interface")
    given(release, tmp_path)
    assert len(calls(java)) == 2


def test_a_damaged_jar_is_compiled_again(release: Release, java: Path, asked: list[list[str]], tmp_path: Path) -> None:
    jar = given(release, tmp_path)
    whole = jar.read_bytes()
    jar.write_bytes(whole[:-1])
    assert given(release, tmp_path).read_bytes() == whole
    (record,) = (tmp_path / "cache" / "releases").glob("FaultyStorage-*.json")
    record.write_text("[]")
    assert given(release, tmp_path) == jar
    assert len(calls(java)) == 3


def test_for_an_image_the_published_interface_is_used(
    release: Release, java: Path, asked: list[list[str]], tmp_path: Path
) -> None:
    image: Any = SimpleNamespace()
    given(replace(release, image=image), tmp_path)
    assert asked == [list(API), [COMPILER.artifact]]


def test_an_incompatible_interface_is_reported_with_the_compilers_error(
    release: Release, java: Path, asked: list[list[str]], tmp_path: Path
) -> None:
    java.with_name("java.broken").touch()
    with pytest.raises(BadInput, match=r"compiled for Kafka 4\.3\.1 \(The method copy is undefined\): fix that"):
        given(release, tmp_path)
    assert not list((tmp_path / "cache" / "releases").glob("FaultyStorage-*"))
    assert not list((tmp_path / "cache" / "tmp").iterdir())


def test_a_compiler_that_is_not_published_is_reported(
    release: Release, java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Any) -> tuple[Path, ...]:
        raise NotPublished("ecj is not there")

    monkeypatch.setattr(module, "fetched", none)
    with pytest.raises(BadInput, match=r"FaultyStorage\.java could not be compiled .*\(ecj is not there\)"):
        given(release, tmp_path)


def test_the_storage_in_a_folder_uses_only_the_interface(
    release: Release, java: Path, asked: list[list[str]], tmp_path: Path
) -> None:
    given = with_file_storage(release, maven_repo=None, cache=tmp_path / "cache", progress=lambda _: None)
    assert asked == [[COMPILER.artifact]]
    assert calls(java)[0].endswith("/FileStorage.java")
    assert given.file_storage is not None
    assert given.file_storage.is_file()
    assert with_file_storage(given, maven_repo=None, cache=Path("/nowhere"), progress=lambda _: None) is given


def test_the_storage_in_s3_uses_amazons_sdk_and_precedes_it_on_the_class_path(
    release: Release, java: Path, asked: list[list[str]], tmp_path: Path
) -> None:
    given = with_s3_storage(release, maven_repo=None, cache=tmp_path / "cache", progress=lambda _: None)
    assert asked == [[one.artifact for one in SDK], [COMPILER.artifact]]
    assert len(given.s3_jars) == 1 + len(SDK)
    assert all(str(jar) in calls(java)[0] for jar in given.s3_jars[1:])
    assert with_s3_storage(given, maven_repo=None, cache=Path("/nowhere"), progress=lambda _: None) is given


def test_a_missing_sdk_is_reported_with_the_remedy(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Any) -> tuple[Path, ...]:
        raise NotPublished("s3 is not there")

    monkeypatch.setattr(storage_plugins, "fetched", none)
    with pytest.raises(BadInput, match=r"tier = \"s3\" needs Amazon's SDK .*\(s3 is not there\): give --maven-repo"):
        with_s3_storage(release, maven_repo=None, cache=tmp_path / "cache", progress=lambda _: None)
