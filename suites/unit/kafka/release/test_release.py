"""Versions: which one is chosen, which jars it consists of, and the sentences that refuse one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kafka.release import release as module
from harness.kafka.release.release import Release, known_versions, newest_before, resolve
from harness.kafka.release.repository import NotPublished
from harness.model.errors import BadInput
from suites.unit.kafka.release.maven_repository import COMMIT, KAFKA, MavenRepository, clients_jar, needs, served

PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


@pytest.fixture
def repo(tmp_path: Path) -> MavenRepository:
    return MavenRepository(tmp_path / "repository")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MavenRepository:
    """A stand-in for Maven Central, empty at first: no test may ask the real one."""
    repository = MavenRepository(tmp_path / "central")
    monkeypatch.setattr(module, "CENTRAL", repository.url)
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    return repository


def get(spec: str | None, repo: str | None, cache: Path) -> Release:
    return resolve(spec, maven_repo=repo, cache=cache, progress=lambda _: None)


def names(release: Release) -> set[str]:
    return {path.name for path in release.classpath}


def kept(cache: Path) -> list[str]:
    """Every file of the cache except its locks."""
    return sorted(
        str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"
    )


def test_a_version_becomes_jars_with_the_version_and_commit_of_the_build(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    release = get("4.3.1", repo.url, cache)
    assert (release.version, release.commit, release.numbers, release.uses_log4j2) == ("4.3.1", COMMIT, (4, 3, 1), True)
    assert {"kafka_2.13-4.3.1.jar", "kafka-tools-4.3.1.jar", "kafka-clients-4.3.1.jar"} < names(release)
    assert all(path.is_file() for path in release.classpath)
    assert release.line() == f"Kafka 4.3.1 (commit {COMMIT}) from the Maven repository {repo.url}"
    assert (release.kafka, release.maven_repo) == ("4.3.1", repo.url)


def test_the_newest_complete_release_names_the_newer_ones_it_skipped(repo: MavenRepository, cache: Path) -> None:
    for version in ("4.3.0", "4.9.0", "4.10.0"):
        repo.kafka(version)
    repo.kafka("4.11.0", tools=False)
    release = get(None, repo.url, cache)
    assert release.version == "4.10.0"  # compared as numbers, not as text
    assert release.notes == (
        "newest complete release",
        f"4.11.0 skipped (kafka-tools-4.11.0.pom is not in {repo.url})",
    )


def test_a_release_with_a_missing_dependency_is_skipped(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.0")
    repo.kafka("4.3.1")
    lacking = repo.root / repo.file(f"{KAFKA}:kafka-server-common:4.3.1", "jar")
    lacking.unlink()
    lacking.with_name(f"{lacking.name}.sha1").unlink()
    assert get(None, repo.url, cache).version == "4.3.0"


def test_release_candidates_are_never_the_newest_release(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    repo.kafka("4.4.0-rc1")
    assert get(None, repo.url, cache).version == "4.3.1"
    assert get("4.4.0-rc1", repo.url, cache).version == "4.4.0-rc1"


def test_a_half_published_version_is_refused_in_one_sentence(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.4.0", tools=False)
    with pytest.raises(BadInput, match=r"^Kafka 4\.4\.0 is published only in part: kafka-tools-4\.4\.0\.pom is not in"):
        get("4.4.0", repo.url, cache)
    assert kept(cache) == []


def test_an_unknown_version_is_refused_in_one_sentence(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    with pytest.raises(BadInput, match=r"has no Kafka 9\.9\.9: `durability list releases` shows what there is"):
        get("9.9.9", repo.url, cache)


def test_a_repository_without_a_complete_release_is_refused(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.4.0", tools=False)
    with pytest.raises(BadInput, match=r"holds no complete Kafka release: 4\.4\.0 skipped"):
        get(None, repo.url, cache)
    with pytest.raises(BadInput, match=r"lists no final version of org\.apache\.kafka:kafka_2\.13: name the version"):
        get(None, MavenRepository(repo.root / "empty").url, cache)


def test_a_damaged_jar_in_the_repository_is_refused_and_not_stored(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    (repo.root / repo.file(f"{KAFKA}:kafka_2.13:4.3.1", "jar")).write_bytes(b"other content")
    with pytest.raises(BadInput, match=r"kafka_2\.13-4\.3\.1\.jar is damaged: its checksum is sha1-\w+, published is"):
        get("4.3.1", repo.url, cache)
    assert not [name for name in kept(cache) if "kafka_2.13" in name or name.startswith(("releases/", "tmp/"))]


def test_a_damaged_transfer_is_repeated(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    with served(repo.root) as server:
        server.spoil_once = {"kafka_2.13-4.3.1.jar", "kafka-tools-4.3.1.pom"}
        assert get("4.3.1", server.url, cache).version == "4.3.1"
        assert not server.spoil_once


@pytest.mark.parametrize("damage", ["flipped", "truncated", "removed"])
def test_a_damaged_jar_in_the_cache_is_downloaded_again(repo: MavenRepository, cache: Path, damage: str) -> None:
    repo.kafka("4.3.1")
    victim = next(path for path in get("4.3.1", repo.url, cache).classpath if path.name.startswith("kafka_2.13"))
    whole = victim.read_bytes()
    damages: dict[str, Callable[[], object]] = {
        "flipped": lambda: victim.write_bytes(bytes([whole[0] ^ 1]) + whole[1:]),
        "truncated": lambda: victim.write_bytes(whole[:-1]),
        "removed": victim.unlink,
    }
    damages[damage]()
    assert victim in get("4.3.1", repo.url, cache).classpath
    assert victim.read_bytes() == whole


def test_a_damaged_record_is_made_again(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    expected = get("4.3.1", repo.url, cache)
    (record,) = (cache / "releases").iterdir()
    odd = '{"format": 1, "repository": "%s", "jars": [{"name": "a", "group": "b", "url": "c", "digest": "d-e"}]}'
    for text in ("{", "[]", "{}", '{"format": 1}', '{"format": 0, "jars": []}', odd % repo.url):
        record.write_text(text)
        assert known_versions(repo.url, cache)[0][0].cached is False
        assert get("4.3.1", repo.url, cache) == expected
    record.unlink()
    (record / "below").mkdir(parents=True)
    assert get("4.3.1", repo.url, cache) == expected
    assert record.is_file()


def test_a_second_start_needs_no_network(repo: MavenRepository, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.kafka("4.3.1")
    with served(repo.root) as server:
        monkeypatch.setattr(module, "CENTRAL", server.url)
        first = get("4.3.1", None, cache)
        asked = len(server.requests)
        assert get("4.3.1", None, cache) == first
        assert len(server.requests) == asked
    assert get("4.3.1", None, cache) == first  # the server has ended
    assert "from Maven Central" in first.line()
    assert first.maven_repo is None


def test_without_a_network_the_newest_cached_release_is_used_and_a_note_says_so(
    repo: MavenRepository, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.kafka("4.3.1")
    repo.kafka("4.2.0")
    with served(repo.root) as server:
        monkeypatch.setattr(module, "CENTRAL", server.url)
        for version in ("4.2.0", "4.3.1"):
            get(version, None, cache)
    release = get(None, None, cache)
    assert release.version == "4.3.1"
    assert release.notes[0].startswith("the newest in the cache, there may be a newer one: http://127.0.0.1")
    known, reason = known_versions(None, cache)
    assert [(one.version, one.published, one.cached) for one in known] == [
        ("4.3.1", False, True),
        ("4.2.0", False, True),
    ]
    assert reason is not None
    assert "cannot be reached" in reason


def test_without_a_network_and_a_cache_the_refusal_is_one_sentence(cache: Path) -> None:
    for spec in (None, "4.3.1"):
        with pytest.raises(
            BadInput, match=r"^http://127\.0\.0\.1:9 cannot be reached \(.*refused\): check the network"
        ):
            get(spec, "http://127.0.0.1:9", cache)
    assert kept(cache) == []


def test_an_http_error_does_not_count_as_a_missing_file(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    with served(repo.root) as server:
        server.status = 403
        with pytest.raises(BadInput, match="was answered with HTTP 403: check the URL and the access to it"):
            get("4.3.1", server.url, cache)


def test_a_candidate_staged_again_at_the_same_url_is_downloaded_again(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1", commit="aaaaaaaaaaaaaaaa")
    assert get("4.3.1", repo.url, cache).commit == "aaaaaaaaaaaaaaaa"
    repo.kafka("4.3.1", commit="bbbbbbbbbbbbbbbb")
    assert get("4.3.1", repo.url, cache).commit == "bbbbbbbbbbbbbbbb"


def test_an_unreachable_candidate_comes_from_the_cache_with_a_note(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    with served(repo.root) as server:
        url = server.url
        get("4.3.1", url, cache)
    assert (
        get("4.3.1", url, cache)
        .notes[0]
        .startswith("taken from the cache without asking whether it has changed: http://127.0.0.1")
    )


def test_a_staged_candidate_takes_third_party_jars_from_central(
    repo: MavenRepository, cache: Path, central: MavenRepository
) -> None:
    repo.kafka("4.3.1", commit="cccccccccccccccc")
    for group in ("org/slf4j", "org/apache/logging"):
        (central.root / group).parent.mkdir(parents=True, exist_ok=True)
        (repo.root / group).rename(central.root / group)
    release = get("4.3.1", repo.url, cache)
    assert release.commit == "cccccccccccccccc"
    assert "log4j-core-2.25.4.jar" in names(release)


def test_an_incomplete_candidate_is_never_completed_with_another_build(
    repo: MavenRepository, cache: Path, central: MavenRepository
) -> None:
    central.kafka("4.3.1")
    repo.kafka("4.3.1", tools=False)
    with pytest.raises(BadInput, match=r"published only in part: kafka-tools-4\.3\.1\.pom is not in .*/repository"):
        get("4.3.1", repo.url, cache)


def test_gradles_local_repository_needs_no_checksums(tmp_path: Path, cache: Path) -> None:
    local = MavenRepository(tmp_path / "m2", checksums=False)
    local.kafka("4.4.0-SNAPSHOT", commit="dddddddddddddddd")
    assert get("4.4.0-SNAPSHOT", local.url, cache).commit == "dddddddddddddddd"
    local.kafka("4.4.0-SNAPSHOT", commit="eeeeeeeeeeeeeeee")
    assert get("4.4.0-SNAPSHOT", local.url, cache).commit == "eeeeeeeeeeeeeeee"


def test_a_file_without_checksum_from_a_network_is_refused(tmp_path: Path, cache: Path) -> None:
    local = MavenRepository(tmp_path / "m2", checksums=False)
    local.kafka("4.3.1")
    with served(local.root) as server, pytest.raises(BadInput, match="has no checksum in http"):
        get("4.3.1", server.url, cache)


def test_a_password_in_the_url_is_neither_shown_nor_stored(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    with served(repo.root) as server:
        release = get("4.3.1", server.url.replace("//", "//me:secret@"), cache)
    assert "secret" not in release.line()
    assert "secret" not in str(release.maven_repo)
    assert not [path for path in cache.rglob("*.json") if "secret" in path.read_text()]


def test_jars_of_another_version_than_requested_are_noted(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    repo.artifact(f"{KAFKA}:kafka-clients:4.3.1", content=clients_jar("4.2.0"))
    assert get("4.3.1", repo.url, cache).notes == ("its jars say version 4.2.0, not 4.3.1",)


def test_known_versions_tell_published_from_cached_ones(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    repo.kafka("4.2.0")
    get("4.2.0", repo.url, cache)
    known, reason = known_versions(repo.url, cache)
    assert [(one.version, one.published, one.cached) for one in known] == [
        ("4.3.1", True, False),
        ("4.2.0", True, True),
    ]
    assert reason is None


def test_the_previous_minor_release_is_its_newest_complete_one(repo: MavenRepository, cache: Path) -> None:
    for version in ("4.4.0", "4.3.1", "4.3.0", "4.2.0"):
        repo.kafka(version)
    repo.kafka("4.3.2", tools=False)

    def before(*numbers: int) -> str:
        return newest_before(numbers, maven_repo=repo.url, cache=cache, progress=lambda _: None).version

    assert (before(4, 4, 1), before(4, 3, 2)) == ("4.3.1", "4.2.0")
    with pytest.raises(NotPublished, match=r"has no release before Kafka 4\.2$"):
        before(4, 2, 0)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            "repo.example.org",
            "'repo.example.org' is not the URL of a Maven repository: give one that starts with https",
        ),
        ("ftp://example.org", "is not the URL of a Maven repository"),
        ("https://", "is not the URL of a Maven repository"),
        ("", "^'' is not the URL of a Maven repository: give one that starts with https"),
        ("http://[::1", "is not the URL of a Maven repository"),
        ("http://h:notaport", "is not the URL of a Maven repository"),
        ("~nobody-at-all/m2", "is not the URL of a Maven repository"),
        ("file:///no/such/folder", "is not a directory on this machine"),
    ],
)
def test_an_invalid_repository_url_is_refused(url: str, sentence: str, cache: Path) -> None:
    with pytest.raises(BadInput, match=sentence):
        get("4.3.1", url, cache)
    with pytest.raises(BadInput, match=sentence):
        known_versions(url, cache)


def test_a_path_in_place_of_a_repository_url_is_answered_with_its_url(repo: MavenRepository, cache: Path) -> None:
    with pytest.raises(BadInput, match=f"is not the URL of a Maven repository: give {repo.url}"):
        get("4.3.1", str(repo.root), cache)


def test_a_web_page_is_refused_as_a_repository(tmp_path: Path, cache: Path) -> None:
    page = MavenRepository(tmp_path / "page")
    page.kafka("4.3.1")
    for path in page.root.rglob("*.sha1"):
        path.write_text("<html>please log in</html>")
    with pytest.raises(BadInput, match=r"\.sha1 is not a checksum: is .* a Maven repository\?"):
        get("4.3.1", page.url, cache)


def test_a_pom_that_is_not_xml_is_refused(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    repo.write(repo.file(f"{KAFKA}:kafka-tools:4.3.1", "pom"), b"<project>")
    with pytest.raises(BadInput, match=r"the POM of org\.apache\.kafka:kafka-tools:4\.3\.1 is not XML"):
        get("4.3.1", repo.url, cache)


SCRIPT = """
import sys
from pathlib import Path
from harness.kafka.release import release
release.CENTRAL = sys.argv[1]
print(len(release.resolve("4.3.1", maven_repo=None, cache=Path(sys.argv[2]), progress=lambda _: None).classpath))
"""


def test_two_harnesses_at_once_download_once(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    with served(repo.root) as server:
        command = [sys.executable, "-c", SCRIPT, server.url, str(cache)]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
        done = [(process.communicate(timeout=60), process.returncode) for process in running]
    assert [code for _, code in done] == [0, 0, 0], [output for output, _ in done]
    assert {output[0].strip() for output, _ in done} == {b"7"}
    jars = [path for path in server.requests if path.endswith(".jar")]
    assert len(jars) == len(set(jars)) == 7


def test_the_record_names_the_url_of_every_jar(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("4.3.1")
    release = get("4.3.1", repo.url, cache)
    (record,) = (json.loads(path.read_text()) for path in (cache / "releases").iterdir())
    assert {jar["name"] for jar in record["jars"]} == names(release)
    assert all(jar["url"].startswith(repo.url) and jar["digest"].startswith("sha1-") for jar in record["jars"])


def test_a_release_with_reload4j_gets_no_other_binding(repo: MavenRepository, cache: Path) -> None:
    repo.kafka("3.9.1")
    repo.artifact("org.slf4j:slf4j-reload4j:1.7.36", needs("org.slf4j:slf4j-api:1.7.36"))
    repo.artifact(
        f"{KAFKA}:kafka_2.13:3.9.1",
        needs(f"{KAFKA}:kafka-server-common:3.9.1"),
        needs("org.slf4j:slf4j-reload4j:1.7.36", scope="runtime"),
    )
    release = get("3.9.1", repo.url, cache)
    assert [name for name in names(release) if "slf4j-" in name and "api" not in name] == ["slf4j-reload4j-1.7.36.jar"]
    assert not release.uses_log4j2
