"""Builds on this machine: folders, tarballs, and the sentences that refuse anything similar."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kafka.release import release as module
from harness.kafka.release.release import Release, resolve
from harness.model.errors import BadInput
from suites.unit.kafka.release.maven_repository import (
    COMMIT,
    MavenRepository,
    clients_jar,
    distribution,
    jar,
    libs,
    tgz,
)


@pytest.fixture(autouse=True)
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MavenRepository:
    repository = MavenRepository(tmp_path / "central")
    monkeypatch.setattr(module, "CENTRAL", repository.url)
    return repository


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def get(spec: Path | str, cache: Path, said: list[str] | None = None) -> Release:
    return resolve(str(spec), maven_repo=None, cache=cache, progress=(said if said is not None else []).append)


def stored(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"]


def folder(at: Path, files: dict[str, bytes]) -> Path:
    (at / "libs").mkdir(parents=True)
    for name, content in files.items():
        (at / "libs" / name).write_bytes(content)
    return at


def test_a_folder_with_libs_is_a_release(tmp_path: Path, cache: Path) -> None:
    skipped = {"kafka_2.13-4.3.1-test.jar": jar({}), "kafka-clients-4.3.1-sources.jar": jar({}), "notes.txt": b""}
    build = folder(tmp_path / "build", libs() | skipped)
    release = get(build, cache)
    assert release.line() == f"Kafka 4.3.1 (commit {COMMIT}) from directory {build}"
    assert release.kafka == str(build)
    assert [path.name for path in release.classpath] == sorted(libs())
    assert all(path.parent == build / "libs" for path in release.classpath)
    assert release.tarball is None


@pytest.mark.parametrize("below", ["", "core/build/distributions"])
def test_a_tarball_or_a_folder_with_one_is_a_release(tmp_path: Path, cache: Path, below: str) -> None:
    place = tmp_path / "kafka" / below
    place.mkdir(parents=True)
    tarball = place / "kafka_2.13-4.3.1.tgz"
    tarball.write_bytes(distribution())
    (place / "kafka_2.13-4.3.1-site-docs.tgz").write_bytes(b"documentation")
    for spec in (tarball, place):
        release = get(spec, cache)
        assert release.line() == f"Kafka 4.3.1 (commit {COMMIT}) from tarball {tarball}"
        assert release.kafka == str(tarball)
        assert {path.name: path.read_bytes() for path in release.classpath} == libs()
        assert release.tarball == tarball


def test_a_tarball_is_unpacked_once_and_again_when_the_cache_is_damaged(tmp_path: Path, cache: Path) -> None:
    tarball = tmp_path / "kafka_2.13-4.3.1.tgz"
    tarball.write_bytes(distribution())
    said: list[str] = []
    first = get(tarball, cache, said)
    assert said == [f"unpacking {tarball}"]
    assert get(tarball, cache, said) == first
    assert len(said) == 1
    first.classpath[0].write_bytes(b"damage")
    assert get(tarball, cache, said) == first
    assert len(said) == 2
    assert first.classpath[0].read_bytes() == libs()[first.classpath[0].name]


def test_a_changed_tarball_of_the_same_name_is_another_release(tmp_path: Path, cache: Path) -> None:
    tarball = tmp_path / "kafka_2.13-4.3.1.tgz"
    tarball.write_bytes(distribution())
    get(tarball, cache)
    changed = libs() | {"kafka-clients-4.3.1.jar": clients_jar("4.3.1", "fedcba9876543210")}
    tarball.write_bytes(tgz({f"kafka_2.13-4.3.1/libs/{name}": content for name, content in changed.items()}))
    assert get(tarball, cache).commit == "fedcba9876543210"


def test_only_jars_are_extracted_from_a_tarball(tmp_path: Path, cache: Path) -> None:
    link = tarfile.TarInfo("kafka/libs/evil.jar")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    files = {f"../../{tmp_path}/libs/{name}": content for name, content in libs().items()}
    files |= {"/tmp/absolute.jar": jar({}), "kafka/bin/kafka.sh": b"", "kafka/libs/deeper/x.jar": jar({})}
    tarball = tmp_path / "kafka_2.13-4.3.1.tgz"
    tarball.write_bytes(tgz(files, [link]))
    before = {path for path in tmp_path.rglob("*") if cache not in path.parents}
    release = get(tarball, cache)
    assert {path.name for path in release.classpath} == set(libs())
    assert {path for path in tmp_path.rglob("*") if cache not in path.parents} - {cache} == before
    assert all(path.is_relative_to(cache) for path in release.classpath)


def _flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],  # the end of the checksum
        lambda content: content[:-8] + bytes(8),  # a wrong checksum
        _flip,
        lambda _: b"no archive at all",
        lambda _: b"",
    ],
    ids=["half", "short", "checksum", "flipped", "text", "empty"],
)
def test_a_damaged_tarball_is_refused_in_one_sentence_and_not_stored(
    tmp_path: Path, cache: Path, damage: Callable[[bytes], bytes]
) -> None:
    tarball = tmp_path / "kafka_2.13-4.3.1.tgz"
    tarball.write_bytes(damage(distribution()))
    with pytest.raises(BadInput, match=r"kafka_2\.13-4\.3\.1\.tgz is not a \.tgz, or is damaged \(.+\): build or copy"):
        get(tarball, cache)
    assert stored(cache) == []


def test_a_source_release_is_refused(tmp_path: Path, cache: Path) -> None:
    tarball = tmp_path / "kafka-4.3.1-src.tgz"
    tarball.write_bytes(tgz({"kafka-4.3.1-src/build.gradle": b"plugins {}"}))
    with pytest.raises(BadInput, match=r"holds no jars: is it a source release\? \./gradlew releaseTarGz makes one"):
        get(tarball, cache)
    assert stored(cache) == []


@pytest.mark.parametrize("missing", ["kafka_2.13", "kafka-clients", "kafka-server-common", "kafka-tools"])
def test_a_folder_that_lacks_a_jar_is_refused(tmp_path: Path, cache: Path, missing: str) -> None:
    build = folder(tmp_path / "build", {name: it for name, it in libs().items() if not name.startswith(missing)})
    with pytest.raises(BadInput, match=r"libs holds no kafka[\w-]* jar \(kafka.*\*\.jar\): the build is incomplete"):
        get(build, cache)


def test_two_builds_in_one_folder_are_refused(tmp_path: Path, cache: Path) -> None:
    build = folder(tmp_path / "build", libs("4.3.1") | libs("4.3.0"))
    with pytest.raises(BadInput, match=r"kafka_2\.13-4\.3\.0\.jar and kafka_2\.13-4\.3\.1\.jar: remove those"):
        get(build, cache)


def test_folders_without_a_build_are_refused(tmp_path: Path, cache: Path) -> None:
    empty = folder(tmp_path / "empty", {})
    with pytest.raises(BadInput, match=r"empty/libs holds no jars"):
        get(empty, cache)
    bare = tmp_path / "bare"
    bare.mkdir()
    with pytest.raises(BadInput, match=r"bare holds neither libs/ nor a kafka_\*\.tgz: in a Kafka checkout"):
        get(bare, cache)
    for version in ("4.3.0", "4.3.1"):
        (bare / f"kafka_2.13-{version}.tgz").write_bytes(b"")
    with pytest.raises(
        BadInput, match=r"holds 2 Kafka tarballs \(kafka_2\.13-4\.3\.0\.tgz, kafka_2\.13-4\.3\.1\.tgz\)"
    ):
        get(bare, cache)


@pytest.mark.parametrize("inner", ["kafka_2.13-4.3.1/libs", "core/build/distributions"])
def test_a_parent_of_the_build_is_answered_with_the_right_path(tmp_path: Path, cache: Path, inner: str) -> None:
    (tmp_path / "here" / inner).mkdir(parents=True)
    meant = (tmp_path / "here" / inner.removesuffix("/libs")).as_posix()
    with pytest.raises(BadInput, match=rf"did you mean {meant}\?"):
        get(tmp_path / "here", cache)


def test_damaged_jars_in_a_folder_are_refused(tmp_path: Path, cache: Path) -> None:
    build = folder(tmp_path / "build", libs() | {"slf4j-api-1.7.36.jar": b"cut off"})
    with pytest.raises(BadInput, match=r"slf4j-api-1\.7\.36\.jar is not a jar, or is damaged"):
        get(build, cache)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (jar({"id": "no properties"}), r"kafka/kafka-version\.properties cannot be read from it"),
        (jar({"kafka/kafka-version.properties": b"version=4.3.1\xff"}), "is damaged or is not a build of Kafka"),
        (clients_jar("4.3.1/../../elsewhere"), "does not say which version it is"),
        (clients_jar("unknown"), r"does not say which version it is .*version='unknown'"),
    ],
)
def test_a_build_without_a_version_is_refused(tmp_path: Path, cache: Path, content: bytes, sentence: str) -> None:
    build = folder(tmp_path / "build", libs() | {"kafka-clients-4.3.1.jar": content})
    with pytest.raises(BadInput, match=sentence):
        get(build, cache)
    tarball = tmp_path / "kafka_2.13-4.3.1.tgz"
    tarball.write_bytes(tgz({f"k/libs/{name}": (build / "libs" / name).read_bytes() for name in libs()}))
    with pytest.raises(BadInput, match=sentence) as refused:
        get(tarball, cache)
    assert f"kafka-clients-4.3.1.jar in {tarball}" in str(refused.value)
    assert str(cache) not in str(refused.value)


@pytest.mark.parametrize("version", ["2.8.0", "3.2.3"])
def test_a_release_without_kraft_is_refused_in_every_form(tmp_path: Path, cache: Path, version: str) -> None:
    build = folder(tmp_path / "build", libs(version))
    for spec in (version, build):
        with pytest.raises(BadInput, match=rf"^Kafka {version} has no KRaft .* give a release from 3\.3 on$"):
            get(spec, cache)


@pytest.mark.parametrize(
    "where", ["pipe", "folder/kafka_2.13-4.3.1.tgz", "build/libs/slf4j-api-1.7.36.jar", "/dev/zero"]
)
def test_pipes_and_devices_are_refused_and_not_read(tmp_path: Path, cache: Path, where: str) -> None:
    folder(tmp_path / "build", {name: it for name, it in libs().items() if "slf4j-api" not in name})
    (tmp_path / "folder").mkdir()
    path = tmp_path / where
    if where != "/dev/zero":
        os.mkfifo(path)
    spec = {"pipe": path, "/dev/zero": path}.get(where, tmp_path / where.split("/")[0])
    with pytest.raises(BadInput, match=r"is neither a directory nor a plain file: give a version|is not a jar"):
        get(spec, cache)


@pytest.mark.parametrize("refused", ["libs", "libs/kafka-clients-4.3.1.jar"])
def test_an_unreadable_file_is_not_called_damaged(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """The error is simulated, because the user of the tests may be allowed to read everything."""
    build = folder(tmp_path / "build", libs())
    iterdir, opened = Path.iterdir, Path.open

    def checked(path: Path) -> Path:
        if path == build / refused:
            raise PermissionError(13, "Permission denied", str(path))
        return path

    monkeypatch.setattr(Path, "iterdir", lambda path: iterdir(checked(path)))
    monkeypatch.setattr(Path, "open", lambda path, *how, **more: opened(checked(path), *how, **more))
    with pytest.raises(BadInput, match=rf"{refused} cannot be read \(Permission denied\): make it readable"):
        get(build, cache)


def test_a_folder_inside_a_build_is_answered_with_the_right_path(tmp_path: Path, cache: Path) -> None:
    build = folder(tmp_path / "build", libs())
    with pytest.raises(BadInput, match=rf"did you mean {build}\?"):
        get(build / "libs", cache)
    (tmp_path / "source/core/build/distributions").mkdir(parents=True)
    with pytest.raises(BadInput, match=r"did you mean .*source/core/build/distributions\?"):
        get(tmp_path / "source/core", cache)


def test_a_folder_without_a_logging_binding_gets_one(tmp_path: Path, cache: Path, central: MavenRepository) -> None:
    jars = {name: content for name, content in libs().items() if "reload4j" not in name}
    build = folder(tmp_path / "build", jars | {"log4j-core-2.25.4.jar": jar({})})
    with pytest.raises(
        BadInput, match=r"no SLF4J binding.*log4j-slf4j-impl-2\.25\.4\.jar cannot be downloaded: .*not in"
    ):
        get(build, cache)
    central.third_party()
    release = get(build, cache)
    assert release.classpath[-1].name == "log4j-slf4j-impl-2.25.4.jar"
    assert "log4j-slf4j-impl 2.25.4 was added" in release.line()
    shutil.rmtree(central.root / "org")
    assert get(build, cache) == release  # no network the second time


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            "image:apache/kafka:4.3.1",
            r"^image:apache/kafka:4\.3\.1: an image of brokers runs in containers only; give a version",
        ),
        ("", r"there is no Kafka release ''"),
        ("apache/kafka:4.1.0", r"give image:apache/kafka:4\.1\.0 for the image of that name, a version such as"),
        ("4.3", r"there is no Kafka release '4\.3': give a version such as 4\.3\.1, a directory"),
        ("v4.3.1", r"there is no Kafka release 'v4\.3\.1'"),
        ("https://example.org/kafka.tgz", r"there is no Kafka release 'https"),
        ("/no/such/place", r"there is no Kafka release '/no/such/place'"),
        ("x" * 5000, r"there is no Kafka release 'xxx"),
        ("null\0character", r"there is no Kafka release"),
    ],
)
def test_an_unknown_release_is_refused_in_one_sentence(spec: str, sentence: str, cache: Path) -> None:
    with pytest.raises(BadInput, match=sentence):
        get(spec, cache)
    assert stored(cache) == []


def test_a_repository_together_with_a_folder_is_refused(tmp_path: Path, cache: Path) -> None:
    build = folder(tmp_path / "build", libs())
    with pytest.raises(BadInput, match=r"build is a directory, and --maven-repo is for versions only"):
        resolve(str(build), maven_repo="https://example.org", cache=cache, progress=lambda _: None)
