"""The jars of a release's own remote tier: near a build, or from a repository in its version, or else the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kafka.release import published
from harness.kafka.release import release as releases
from harness.kafka.release import tier_jars as module
from harness.kafka.release.release import Release, resolve
from harness.kafka.release.tier_jars import jar_names, with_tier_jars
from harness.model.errors import BadInput
from suites.unit.kafka.release.maven_repository import KAFKA, MavenRepository, distribution, jar, libs


@pytest.fixture(autouse=True)
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MavenRepository:
    repository = MavenRepository(tmp_path / "central")
    for holder in (releases, published):
        monkeypatch.setattr(holder, "CENTRAL", repository.url)
    return repository


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def publish(repository: MavenRepository, version: str, artifacts: tuple[str, ...] = module.ARTIFACTS) -> None:
    for artifact in artifacts:
        folder = f"{KAFKA.replace('.', '/')}/{artifact}/{version}"
        repository.write(f"{folder}/{artifact}-{version}-test.jar", jar({"id": artifact}))


def tiered(release: Release, cache: Path, maven_repo: str | None = None, lines: list[str] | None = None) -> Release:
    progress = (lines if lines is not None else []).append
    return with_tier_jars(release, maven_repo=maven_repo, cache=cache, progress=progress)


def build(at: Path) -> Path:
    (at / "libs").mkdir(parents=True)
    for name, content in libs().items():
        (at / "libs" / name).write_bytes(content)
    return at


def get(spec: Path | str, cache: Path, maven_repo: str | None = None) -> Release:
    return resolve(str(spec), maven_repo=maven_repo, cache=cache, progress=lambda _: None)


def test_jars_of_a_published_version_are_downloaded_once(central: MavenRepository, cache: Path) -> None:
    central.kafka("4.3.1")
    publish(central, "4.3.1")
    release = get("4.3.1", cache)
    assert release.tier_jars == ()
    lines: list[str] = []
    jars = tiered(release, cache, lines=lines).tier_jars
    names = jar_names("4.3.1")
    assert [path.name for path in jars] == names == ["kafka-storage-4.3.1-test.jar", *names[1:]]
    assert all(path.is_file() for path in jars)
    assert len(lines) == 1
    for path in central.root.rglob("*-test.jar*"):
        path.unlink()
    assert tiered(release, cache, lines=lines).tier_jars == jars
    assert len(lines) == 1


def test_jars_of_a_candidate_come_only_from_its_repository(
    central: MavenRepository, cache: Path, tmp_path: Path
) -> None:
    candidate = MavenRepository(tmp_path / "candidate")
    candidate.kafka("4.4.0")
    publish(central, "4.4.0")
    release = get("4.4.0", cache, candidate.url)
    with pytest.raises(BadInput, match="give --maven-repo a repository that has them"):
        tiered(release, cache, candidate.url)
    publish(candidate, "4.4.0")
    assert len(tiered(release, cache, candidate.url).tier_jars) == 2


def test_one_missing_jar_is_an_error(central: MavenRepository, cache: Path) -> None:
    central.kafka("4.3.1")
    publish(central, "4.3.1", ("kafka-storage",))
    with pytest.raises(BadInput) as refused:
        tiered(get("4.3.1", cache), cache)
    needed = 'tier = "kafka_local" needs kafka-storage-4.3.1-test.jar and kafka-clients-4.3.1-test.jar'
    assert needed in str(refused.value)
    assert str(refused.value).endswith('or use tier = "local", which does not need them')
    assert "kafka-clients-4.3.1-test.jar is not in" in str(refused.value)


@pytest.mark.parametrize("where", ["", "libs", "..", "checkout"])
def test_jars_near_a_build_are_used(where: str, cache: Path, tmp_path: Path) -> None:
    home = build(tmp_path / "one" / "two" / "three" / "build")
    folders = [home / where] * 2
    if where == "checkout":
        folders = [tmp_path / "one" / part / "build/libs" for part in ("storage", "clients")]
    for folder, name in zip(folders, jar_names("4.3.1"), strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(jar({}))
    found = tiered(get(home, cache), cache).tier_jars
    assert [path.resolve() for path in found] == [
        (folder / name).resolve() for folder, name in zip(folders, jar_names("4.3.1"), strict=True)
    ]


def test_jars_next_to_a_tarball_are_used(cache: Path, tmp_path: Path) -> None:
    tarball = tmp_path / "kafka_2.13-4.3.1.tgz"
    tarball.write_bytes(distribution())
    for name in jar_names("4.3.1"):
        (tmp_path / name).write_bytes(jar({}))
    assert tiered(get(tarball, cache), cache).tier_jars == tuple(tmp_path / name for name in jar_names("4.3.1"))


def test_a_build_of_a_published_version_uses_the_published_jars(
    central: MavenRepository, cache: Path, tmp_path: Path
) -> None:
    publish(central, "4.3.1")
    assert len(tiered(get(build(tmp_path / "build"), cache), cache).tier_jars) == 2


def test_missing_jars_of_an_unpublished_build_are_reported_with_the_remedy(cache: Path, tmp_path: Path) -> None:
    home = build(tmp_path / "build")
    (home / "kafka-storage-4.2.0-test.jar").write_bytes(jar({}))
    (home / "kafka-clients-4.2.0-test.jar").write_bytes(jar({}))
    with pytest.raises(BadInput) as refused:
        tiered(get(home, cache), cache)
    assert f"Kafka 4.3.1 from directory {home} lacks them" in str(refused.value)
    assert "build them (./gradlew storage:testJar clients:testJar) and put them next to it" in str(refused.value)
