"""The runtime classpath of a Kafka version out of Maven repositories.

This is a resolver of our own. Ivy, which PySpark's jars contain, needs a JVM, PySpark and a Java trust store made from
the system's certificates before the first jar arrives, and it does not name the missing file of a half-published
release. Kafka's POMs are written by Gradle and need few of Maven's features; pom.py lists those that it understands.

The first declaration that a breadth-first search meets decides a version (Maven's rule, "nearest wins"). Gradle, which
makes Kafka's distributions, takes the highest version instead. For 3.8.0, 3.9.1, 4.0.0, 4.2.1 and 4.3.1 both rules
choose the same versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from harness.kafka.release.cache import Cache, Digest, Pace, Progress
from harness.kafka.release.pom import Coordinates, Dependency, effective
from harness.kafka.release.repository import NotPublished, Repository
from harness.model.errors import BadInput

KAFKA_GROUP = "org.apache.kafka"
ROOTS = ("kafka_2.13", "kafka-tools")

_DOWNLOADS = 8
_LOOK_S = 1.0
_RUNTIME_SCOPES = ("", "compile", "runtime")
# Packagings with a plain jar as their artifact.
_JAR_TYPES = ("jar", "bundle", "ejb", "maven-plugin")
_BINDINGS = re.compile(r"(log4j-slf4j2?-impl|slf4j-(reload4j|log4j12|simple|jdk14)|logback-classic)-\d")

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a classpath: where it came from, and the checksum that its copy in the cache must have."""

    name: str
    group: str
    url: str
    digest: Digest

    def as_dict(self) -> dict[str, str]:
        return {"name": self.name, "group": self.group, "url": self.url, "digest": str(self.digest)}

    @classmethod
    def from_dict(cls, data: Mapping[str, str]) -> Jar:
        return cls(data["name"], data["group"], data["url"], Digest.parse(data["digest"]))


class Sources:
    """The repositories that are searched: the chosen one, then Central for artifacts that are not Kafka's own.

    A staged release candidate holds only Kafka's artifacts. Those come from the chosen repository alone: otherwise an
    incomplete candidate would be completed with another build's jars and judged as the candidate.
    """

    def __init__(self, chosen: Repository, fallback: Repository | None) -> None:
        self.chosen = chosen
        self._fallback = fallback

    def of(self, group: str) -> tuple[Repository, ...]:
        if self._fallback is None or group == KAFKA_GROUP:
            return (self.chosen,)
        return (self.chosen, self._fallback)

    def first(self, group: str, ask: Callable[[Repository], T]) -> T:
        """The answer of the first repository that has it. NotPublished (about the first one) or Unreachable."""
        missing: NotPublished | None = None
        for repository in self.of(group):
            try:
                return ask(repository)
            except NotPublished as error:
                missing = missing or error
        assert missing is not None
        raise missing


def runtime_dependencies(sources: Sources, version: str) -> list[Dependency]:
    """Every jar of the runtime classpath of Kafka `version`, including the logging binding, in Maven's order.

    NotPublished when a POM is missing.
    """
    graph = _Graph(sources)
    graph.add([Dependency(KAFKA_GROUP, artifact, version) for artifact in ROOTS])
    binding = fitting_binding(f"{one.artifact}-{one.version}.jar" for one in graph.with_jars())
    if binding:
        graph.add([binding])
    return graph.with_jars()


def fitting_binding(jar_names: Iterable[str]) -> Dependency | None:
    """The SLF4J binding that these jars lack, or None. Without a binding a broker writes no log at all.

    Kafka 4.x depends on log4j2 at runtime and leaves the binding to the distribution; 3.x depends on slf4j-reload4j.
    """
    names = list(jar_names)
    if any(_BINDINGS.match(name) for name in names):
        return None
    core = next((found[1] for name in names if (found := re.fullmatch(r"log4j-core-(.+)\.jar", name))), None)
    slf4j = next((found[1] for name in names if (found := re.fullmatch(r"slf4j-api-(.+)\.jar", name))), None)
    if slf4j is None:
        return None
    if core is None:
        return Dependency("org.slf4j", "slf4j-reload4j" if slf4j.startswith("1.7") else "slf4j-simple", slf4j)
    artifact = "log4j-slf4j-impl" if slf4j.startswith("1.") else "log4j-slf4j2-impl"
    return Dependency("org.apache.logging.log4j", artifact, core)


def locate(sources: Sources, dependencies: Sequence[Dependency]) -> list[Jar]:
    """The place and the published checksum of each jar, before any download. NotPublished when one is missing."""

    def one(dependency: Dependency) -> Jar:
        path = _jar_path(dependency)
        return sources.first(dependency.group, partial(_published, path=path, group=dependency.group))

    return in_parallel(one, dependencies)


def download(sources: Sources, jars: Sequence[Jar], cache: Cache, progress: Progress, what: str) -> None:
    """Downloads the jars that the cache lacks and verifies them. `what` names them in reports of progress."""
    missing = [jar for jar in jars if cache.find(jar.digest, jar.name) is None]
    if not missing:
        return
    progress(f"downloading {what} from {sources.chosen.url}: {len(missing)} of {len(jars)} jars are not in the cache")
    pace = Pace(progress)

    def one(jar: Jar) -> None:
        repository = next(one for one in sources.of(jar.group) if jar.url.startswith(f"{one.url}/"))
        fetched = repository.fetch_checked(jar.url.removeprefix(f"{repository.url}/"))
        if fetched.digest != jar.digest:
            raise BadInput(f"{jar.url} has changed while it was read: try again when the upload is complete")
        cache.put(fetched.content, fetched.digest, jar.name)

    in_parallel(one, missing, lambda done: pace(f"downloading {what}: {done} of {len(missing)} jars"))


def published_versions(repository: Repository) -> list[str]:
    """Final versions (N.N.N) of which the repository has at least a part, newest first.

    NotPublished when it lists no version of Kafka.
    """

    def listed(artifact: str) -> set[str]:
        folder = f"{KAFKA_GROUP.replace('.', '/')}/{artifact}"
        # The second name is what Gradle's publishToMavenLocal writes.
        texts = (repository.fetch(f"{folder}/{name}") for name in ("maven-metadata.xml", "maven-metadata-local.xml"))
        return {
            found
            for text in texts
            if text
            for found in re.findall(r"<version>(\d+\.\d+\.\d+)</version>", text.decode())
        }

    versions = set().union(*in_parallel(listed, (*ROOTS, "kafka-clients")))
    if not versions:
        raise NotPublished(f"{repository.url} lists no final version of {KAFKA_GROUP}:{ROOTS[0]}: name the version")
    return sorted(versions, key=lambda version: tuple(map(int, version.split("."))), reverse=True)


def in_parallel(work: Callable[[T], R], items: Sequence[T], report: Callable[[int], None] | None = None) -> list[R]:
    """The results in the order of `items`. An error is raised once the calls that had already begun have ended.

    `report` is called about every second, in the caller's thread, with the number of results; what it raises is raised.
    """
    with ThreadPoolExecutor(max_workers=_DOWNLOADS, thread_name_prefix="maven") as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [_awaited(future, futures, report) for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _awaited(future: Future[R], all_: Sequence[Future[R]], report: Callable[[int], None] | None) -> R:
    while report and not wait([future], _LOOK_S).done:
        report(sum(one.done() for one in all_))
    return future.result()


class _Graph:
    """The tree of dependencies, searched breadth-first; the POMs of one level are read in parallel."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._poms: dict[Coordinates, bytes] = {}
        self._relocated: set[Coordinates] = set()
        self.chosen: dict[tuple[str, str, str, str], Dependency] = {}

    def with_jars(self) -> list[Dependency]:
        """The chosen dependencies without those that are only a POM: a list of others, or a relocation."""
        return [one for one in self.chosen.values() if one.type != "pom" and one.coordinates not in self._relocated]

    def add(self, roots: Sequence[Dependency]) -> None:
        level = list(roots)
        while level:
            fresh: list[Dependency] = []
            for one in level:
                if one.key not in self.chosen:
                    self.chosen[one.key] = _usable(one)
                    fresh.append(one)
            level = [child for children in in_parallel(self._children, fresh) for child in children]

    def _children(self, parent: Dependency) -> list[Dependency]:
        pom = effective(parent.coordinates, self._load)
        if pom.relocation:
            self._relocated.add(parent.coordinates)
            at = pom.relocation
            return [replace(parent, group=at.group, artifact=at.artifact, version=at.version)]
        return [
            replace(one, exclusions=one.exclusions | parent.exclusions)
            for one in pom.dependencies
            if one.scope in _RUNTIME_SCOPES and not one.optional and not _excluded(one, parent.exclusions)
        ]

    def _load(self, at: Coordinates) -> bytes:
        # Two threads may fetch the same parent at once; both get the same text.
        if at not in self._poms:
            path = at.path("pom")
            self._poms[at] = self._sources.first(at.group, lambda repository: repository.fetch_checked(path)).content
        return self._poms[at]


def _usable(dependency: Dependency) -> Dependency:
    version = dependency.version
    if not version or not re.fullmatch(r"[\w.+-]+", version):
        raise BadInput(
            f"a POM asks for {dependency.group}:{dependency.artifact} in version {version!r}, which is not a single "
            "version: is the repository complete?"
        )
    return dependency


def _excluded(dependency: Dependency, exclusions: frozenset[tuple[str, str]]) -> bool:
    return any(
        group in ("*", dependency.group) and artifact in ("*", dependency.artifact) for group, artifact in exclusions
    )


def _jar_path(dependency: Dependency) -> str:
    if dependency.type == "test-jar":
        return dependency.coordinates.path("jar", dependency.classifier or "tests")
    extension = "jar" if dependency.type in _JAR_TYPES else dependency.type
    return dependency.coordinates.path(extension, dependency.classifier)


def _published(repository: Repository, path: str, group: str) -> Jar:
    digest = repository.published_digest(path)
    if digest is None:
        digest = repository.fetch_checked(path).digest
    return Jar(path.rpartition("/")[2], group, f"{repository.url}/{path}", digest)
