"""Turns a user's name of a release into a Release: a version, a directory, a tarball, or nothing for the newest one.

The cache records the jars of a resolved release. A later start reads and verifies those files and needs no network.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import ValidationError, convert

from harness.kafka.release.cache import Cache, Digest, Progress
from harness.kafka.release.image_layout import BrokerImage
from harness.kafka.release.maven import (
    KAFKA_GROUP,
    Jar,
    Sources,
    download,
    fitting_binding,
    in_parallel,
    locate,
    published_versions,
    runtime_dependencies,
)
from harness.kafka.release.pom import Dependency
from harness.kafka.release.repository import CENTRAL, NotPublished, Repository, Unreachable
from harness.kafka.release.tarball import classpath_of, find_build, identity, unpack
from harness.model.errors import BadInput
from harness.model.user_storage import UserStorage
from harness.model.version import VERSION, numbers_of

IMAGE = "image:"
_FORMAT = 1
_FINAL = re.compile(r"\d+\.\d+\.\d+")
# The first release with a KRaft mode for production (KIP-833); the harness runs no other mode.
KRAFT_SINCE = (3, 3)
_IMAGE_LIKE = re.compile(r"[\w.-]+(:\d+)?(/[\w.-]+)*(:[\w.-]+|@sha256:[0-9a-f]+)")
_RUNNABLE = "a version such as 4.3.1, a directory with libs/ or a kafka_*.tgz, or such a tarball"


@dataclass(frozen=True, slots=True)
class Release:
    """A Kafka build that can be run. `version` and `commit` are those that the build itself reports.

    kafka, maven_repo: the values of --kafka and --maven-repo that name it. Without the first no option names it, and
    without the second it came from Maven Central or from no repository. `source` says the same to people.
    The files of `classpath` are on this machine, or inside `image` when the build is an image of brokers.
    place: the directory or tarball on this machine that the build was taken from. tarball: the tarball that has it.
    file_storage, tier_jars, s3_jars, faulty_storage: jars for clusters with a remote tier in a folder, with Kafka's
    LocalTieredStorage, in S3, and with a tier that can be made to fail. user_storage, storage_reader: the user's own
    storage manager, and the class that reads its content. java_clients, kafka_streams: the classpath of the release's
    Java clients and of its Kafka Streams, the class that drives them first. agent: the jar of the agent of nodes.
    All of these are added later, when a scenario needs them.
    """

    version: str
    commit: str
    source: str
    classpath: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    kafka: str | None = None
    maven_repo: str | None = None
    image: BrokerImage | None = None
    place: Path | None = None
    tarball: Path | None = None
    file_storage: Path | None = None
    tier_jars: tuple[Path, ...] = ()
    faulty_storage: Path | None = None
    s3_jars: tuple[Path, ...] = ()
    user_storage: UserStorage | None = None
    storage_reader: Path | None = None
    java_clients: tuple[Path, ...] = ()
    kafka_streams: tuple[Path, ...] = ()
    agent: Path | None = None

    def line(self) -> str:
        """The chosen release in one line, which is the first line that a command prints."""
        return "; ".join([f"Kafka {self.version} (commit {self.commit}) from {self.source}", *self.notes])

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version of Apache Kafka as numbers to compare with, such as (4, 3, 1)."""
        return numbers_of(self.version)

    @property
    def uses_log4j2(self) -> bool:
        """Whether logging is configured for log4j2 (4.x) and not by log4j 1.x properties (reload4j, 3.x)."""
        return any(path.name.startswith("log4j-core-") for path in self.classpath)


def resolve(spec: str | None, *, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    """The release that `spec` names; None is the newest final version that is published completely.

    `maven_repo` is the URL (https:, http:, file:) of a repository to use in place of Maven Central. BadInput with one
    sentence when there is no such release, it is incomplete, it cannot be downloaded, or it cannot be run.
    """
    if spec is not None and VERSION.fullmatch(spec):
        refuse_without_kraft(spec)  # before a download
    release = _resolve(spec, maven_repo, cache, progress)
    refuse_without_kraft(release.version)
    return release


def newest_before(numbers: tuple[int, ...], *, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    """The newest complete release of an earlier minor version, such as 4.3.1 for (4, 4, 0).

    NotPublished when the repository has none, Unreachable when it does not answer and the cache has none either.
    """
    known, unreachable = known_versions(maven_repo, cache)
    for one in known:
        if numbers_of(one.version)[:2] < numbers[:2] and has_kraft(one.version):
            try:
                return resolve(one.version, maven_repo=maven_repo, cache=cache, progress=progress)
            except NotPublished:
                continue  # a part of it
    if unreachable:
        raise Unreachable(unreachable)
    raise NotPublished(f"{maven_repo or CENTRAL} has no release before Kafka {'.'.join(map(str, numbers[:2]))}")


def has_kraft(version: str) -> bool:
    """Whether a release of this version can run without ZooKeeper in production."""
    return numbers_of(version)[:2] >= KRAFT_SINCE


def refuse_without_kraft(version: str) -> None:
    """BadInput for a version with brokers that need ZooKeeper in production."""
    if not has_kraft(version):
        since = ".".join(map(str, KRAFT_SINCE))
        raise BadInput(f"Kafka {version} has no KRaft for production (KIP-833): give a release from {since} on")


def _resolve(spec: str | None, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    if spec is None:
        return _newest(_Maven(maven_repo, Cache(cache), progress))
    if spec.startswith(IMAGE):
        raise BadInput(f"{spec}: an image of brokers runs in containers only; give {_RUNNABLE} instead")
    if VERSION.fullmatch(spec):
        return _Maven(maven_repo, Cache(cache), progress).release(spec)
    path = Path(spec)
    if not _exists(spec, path):
        image = f"{IMAGE}{spec} for the image of that name, " if _IMAGE_LIKE.fullmatch(spec) else ""
        raise BadInput(f"there is no Kafka release {spec!r}: give {image}{_RUNNABLE}")
    try:
        if maven_repo is not None:
            what = "directory" if path.is_dir() else "file"
            raise BadInput(f"{spec} is a {what}, and --maven-repo is for versions only: leave out one of the two")
        return _local(path, Cache(cache), progress)
    except OSError as error:
        raise BadInput(
            f"{error.filename or path} cannot be read ({error.strerror or error}): make it readable, or copy it"
        ) from error


@dataclass(frozen=True, slots=True)
class Known:
    """A version as `durability list releases` shows it."""

    version: str
    published: bool
    cached: bool


def known_versions(maven_repo: str | None, cache: Path) -> tuple[list[Known], str | None]:
    """Final versions, newest first, and the reason when the repository could not be asked.

    A version counts as published even if the repository has only a part of it.
    """
    reason, cached = None, set[str]()
    try:
        with Repository(CENTRAL if maven_repo is None else maven_repo) as repository:
            cached = set(cached_versions(cache, repository.url))
            published = set(published_versions(repository))
    except Unreachable as error:
        published, reason = set[str](), str(error)
    versions = sorted(published | cached, key=_order, reverse=True)
    return [Known(version, version in published, version in cached) for version in versions], reason


def cached_versions(cache: Path, url: str = CENTRAL) -> list[str]:
    """The versions of this repository that run without a network, newest first."""
    files = Cache(cache)
    records = (files.read_record(key) for key in files.record_keys())
    versions = {record.get("version") for record in records if record and record.get("repository") == url}
    return sorted((v for v in versions if isinstance(v, str) and VERSION.fullmatch(v)), key=_order, reverse=True)


def _exists(spec: str, path: Path) -> bool:
    try:
        return bool(spec) and path.exists()
    except PermissionError:  # reported when the file is read
        return True
    except (OSError, ValueError):  # too long, or with a null character: no file has that name
        return False


def _order(version: str) -> tuple[tuple[int, ...], bool]:
    return tuple(map(int, re.findall(r"\d+", version.split("-")[0]))), "-" not in version


class _Maven:
    """Releases from one repository and the cache."""

    def __init__(self, url: str | None, cache: Cache, progress: Progress) -> None:
        self.repository = Repository(CENTRAL if url is None else url)
        self.url = self.repository.url
        self.is_central = self.url == CENTRAL
        self.cache = cache
        self.progress = progress

    def release(self, version: str) -> Release:
        """`version`, from the cache as far as possible. NotPublished when the repository lacks a part of it."""
        key = self.key(version)
        with self.cache.locked(key, self.progress), self.repository:
            jars = recorded(self.cache.read_record(key))
            notes: list[str] = []
            if jars and not self.is_central:
                jars = self._unchanged(jars, notes)
            if not jars:
                return self._resolved(version, key)
            self._restore(jars, version)
            return self._made(version, jars, notes)

    def key(self, version: str) -> str:
        return f"{version}@{hashlib.sha256(self.url.encode()).hexdigest()[:12]}"

    def _resolved(self, version: str, key: str) -> Release:
        self.progress(f"resolving Kafka {version} from {self.url}")
        with Repository(CENTRAL) as central:
            sources = Sources(self.repository, None if self.is_central else central)
            try:
                jars = locate(sources, runtime_dependencies(sources, version))
            except NotPublished as error:
                raise self._missing(version, error) from error
            download(sources, jars, self.cache, self.progress, f"Kafka {version}")
        release = self._made(version, jars, [])
        self.cache.write_record(
            key,
            {
                "format": _FORMAT,
                "version": version,
                "repository": self.url,
                "commit": release.commit,
                "jars": [jar.as_dict() for jar in jars],
            },
        )
        return release

    def _missing(self, version: str, error: NotPublished) -> NotPublished:
        root = f"{KAFKA_GROUP.replace('.', '/')}/kafka_2.13/{version}/kafka_2.13-{version}.pom"
        if self.repository.fetch(root) is None:
            return NotPublished(f"{self.url} has no Kafka {version}: `durability list releases` shows what there is")
        return NotPublished(f"Kafka {version} is published only in part: {error}")

    def _restore(self, jars: Sequence[Jar], version: str) -> None:
        """Downloads again the jars that were removed from the cache or damaged in it."""
        with Repository(CENTRAL) as central:
            sources = Sources(self.repository, None if self.is_central else central)
            download(sources, jars, self.cache, self.progress, f"Kafka {version}")

    def _unchanged(self, jars: list[Jar], notes: list[str]) -> list[Jar]:
        """The recorded jars; none when Kafka's own have changed, because a candidate may be staged again at one URL."""

        def same(jar: Jar) -> bool:
            path = jar.url.removeprefix(f"{self.url}/")
            digest = self.repository.published_digest(path)
            return (digest or self.repository.fetch_checked(path).digest) == jar.digest

        try:
            return jars if all(in_parallel(same, [jar for jar in jars if jar.group == KAFKA_GROUP])) else []
        except NotPublished:
            return []
        except Unreachable as error:
            notes.append(f"taken from the cache without asking whether it has changed: {error}")
            return jars

    def _made(self, version: str, jars: Sequence[Jar], notes: Sequence[str]) -> Release:
        classpath = classpath_in(jars, self.cache)
        said, commit = identity(classpath)
        odd = [] if said == version else [f"its jars say version {said}, not {version}"]
        name = "Maven Central" if self.is_central else "the Maven repository"
        repository = None if self.is_central else self.url
        source = f"{name} {self.url}"
        return Release(said, commit, source, classpath, (*odd, *notes), kafka=version, maven_repo=repository)


def _newest(maven: _Maven) -> Release:
    """The newest complete release. Its notes name the newer versions that were skipped, with the reasons."""
    try:
        with maven.repository:
            versions = published_versions(maven.repository)
    except Unreachable as error:
        return _newest_cached(maven, error)
    skipped: list[str] = []
    for version in versions:
        try:
            release = maven.release(version)
        except NotPublished as error:
            skipped.append(f"{version} skipped ({error.__cause__ or error})")
            continue
        return replace(release, notes=("newest complete release", *skipped, *release.notes))
    raise BadInput(f"{maven.url} holds no complete Kafka release: {skipped[0]}")


def _newest_cached(maven: _Maven, cause: Unreachable) -> Release:
    versions = [version for version in cached_versions(maven.cache.root, maven.url) if _FINAL.fullmatch(version)]
    if not versions:
        raise cause
    release = maven.release(versions[0])
    note = f"the newest in the cache, there may be a newer one: {cause}"
    return replace(release, notes=(note, *release.notes))


def recorded(record: Mapping[str, object] | None) -> list[Jar]:
    """The jars in a record of the cache; none when the record has another format, in which case it is made again."""
    if not record or record.get("format") != _FORMAT:
        return []
    try:
        return [Jar.from_dict(jar) for jar in convert(record["jars"], list[dict[str, str]])]
    except (KeyError, ValidationError, ValueError):
        return []


def classpath_in(jars: Sequence[Jar], cache: Cache) -> tuple[Path, ...]:
    """The paths of these jars in the cache."""
    return tuple(cache.path(jar.digest, jar.name) for jar in jars)


def _local(path: Path, cache: Cache, progress: Progress) -> Release:
    build = find_build(path) if path.is_dir() else path
    if build.is_dir():
        classpath, kind, given, tarball = classpath_of(build), "directory", path.absolute(), None
    elif build.is_file():
        classpath, kind, given, tarball = _unpacked(build, cache, progress), "tarball", build.absolute(), build
    else:  # reading a pipe or a device may never end
        raise BadInput(f"{build} is neither a directory nor a plain file: give {_RUNNABLE}")
    version, commit = identity(classpath, tarball)
    source = f"{kind} {given}"
    found = Release(version, commit, source, classpath, kafka=str(given), place=path.absolute(), tarball=tarball)
    binding = fitting_binding(jar.name for jar in classpath)
    if binding is None:
        return found
    try:
        added = _fetched_binding(binding, cache, progress)
    except BadInput as error:
        raise BadInput(
            f"{path} holds no SLF4J binding, without which brokers write no log, and {binding.artifact}-"
            f"{binding.version}.jar cannot be downloaded: {error}"
        ) from error
    note = f"{binding.artifact} {binding.version} was added, because brokers write no log without it"
    return replace(found, classpath=(*classpath, *classpath_in(added, cache)), notes=(note,))


def _fetched_binding(binding: Dependency, cache: Cache, progress: Progress) -> list[Jar]:
    key = f"binding-{binding.artifact}-{binding.version}"
    with cache.locked(key, progress), Repository(CENTRAL) as central:
        sources = Sources(central, None)
        jars = recorded(cache.read_record(key))
        if not jars:
            jars = locate(sources, [binding])
        download(sources, jars, cache, progress, f"{binding.artifact} {binding.version}")
        cache.write_record(key, {"format": _FORMAT, "jars": [jar.as_dict() for jar in jars]})
        return jars


def _unpacked(tarball: Path, cache: Cache, progress: Progress) -> tuple[Path, ...]:
    digest = Digest.of_file(tarball)
    key = f"tarball-{digest.hex[:32]}"
    with cache.locked(key, progress):
        jars = recorded(cache.read_record(key))
        if not jars or any(cache.find(jar.digest, jar.name) is None for jar in jars):
            progress(f"unpacking {tarball}")
            jars = unpack(tarball, cache)
            classpath = classpath_in(jars, cache)
            version, commit = identity(classpath, tarball)
            record = {"format": _FORMAT, "version": version, "tarball": digest.hex, "commit": commit}
            cache.write_record(key, record | {"jars": [jar.as_dict() for jar in jars]})
        return classpath_in(jars, cache)
