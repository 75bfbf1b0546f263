"""The runtime classpath of a Kafka version out of Maven repositories.

A resolver of our own rather than Ivy out of PySpark's jars: Ivy needs a JVM, PySpark and a Java trust store made from
the system's certificates before the first jar arrives, and it does not say which file of a half-published release is
missing. Kafka's POMs, written by Gradle, need little: see pom.py for what is understood.

The first declaration met breadth-first decides a version (Maven's rule, "nearest wins"). Gradle, which makes Kafka's
distributions, takes the highest instead; for 3.8.0, 3.9.1, 4.0.0, 4.2.1 and 4.3.1 both rules choose the same versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from harness.kafka.release.cache import Cache, Digest, Progress
from harness.kafka.release.pom import Coordinates, Dependency, effective
from harness.kafka.release.repository import NotPublished, Repository
from harness.model.errors import BadInput

KAFKA_GROUP = "org.apache.kafka"
ROOTS = ("kafka_2.13", "kafka-tools")

_DOWNLOADS = 8
_TELL_EVERY = 20
_RUNTIME_SCOPES = ("", "compile", "runtime")
# Packagings whose file is a plain jar.
_JAR_TYPES = ("jar", "bundle", "ejb", "maven-plugin")
_BINDINGS = re.compile(r"(log4j-slf4j2?-impl|slf4j-(reload4j|log4j12|simple|jdk14)|logback-classic)-\d")

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a classpath: where it came from and the checksum that its copy in the cache is held against."""

    name: str
    group: str
    url: str
    digest: Digest

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "group": self.group, "url": self.url, "digest": str(self.digest)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Jar:
        name, group, url = (str(data[key]) for key in ("name", "group", "url"))
        return cls(name, group, url, Digest.parse(data["digest"]))


class Sources:
    """Where files are looked for: the chosen repository, and Central behind it for what is not Kafka's own.

    A staged release candidate holds Kafka's artifacts alone. Kafka's own never come from anywhere else than the chosen
    repository: half a candidate filled up with another build's jars would be judged as the candidate.
    """

    def __init__(self, chosen: Repository, fallback: Repository | None) -> None:
        self.chosen = chosen
        self._fallback = fallback

    def of(self, group: str) -> tuple[Repository, ...]:
        if self._fallback is None or group == KAFKA_GROUP:
            return (self.chosen,)
        return (self.chosen, self._fallback)

    def first(self, group: str, ask: Callable[[Repository], T]) -> T:
        """The answer of the first repository that has it. Raises NotPublished of the first, Unreachable of any."""
        missing: NotPublished | None = None
        for repository in self.of(group):
            try:
                return ask(repository)
            except NotPublished as error:
                missing = missing or error
        assert missing is not None
        raise missing


def runtime_dependencies(sources: Sources, version: str) -> list[Dependency]:
    """Everything on the runtime classpath of Kafka `version`, the logging binding included, in Maven's order.

    Raises NotPublished when a POM is missing.
    """
    graph = _Graph(sources)
    graph.add([Dependency(KAFKA_GROUP, artifact, version) for artifact in ROOTS])
    binding = fitting_binding(f"{one.artifact}-{one.version}.jar" for one in graph.with_jars())
    if binding:
        graph.add([binding])
    return graph.with_jars()


def fitting_binding(jar_names: Iterable[str]) -> Dependency | None:
    """The SLF4J binding that these jars lack, or None. Without one a broker writes no log at all.

    Kafka 4.x names log4j2 at runtime and leaves the binding to the distribution; 3.x brings slf4j-reload4j itself.
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
    """Where each jar is and its published checksum, before any download. Raises NotPublished when one is missing."""

    def one(dependency: Dependency) -> Jar:
        path = _jar_path(dependency)
        return sources.first(dependency.group, partial(_published, path=path, group=dependency.group))

    return in_parallel(one, dependencies)


def download(sources: Sources, jars: Sequence[Jar], cache: Cache, progress: Progress) -> list[Jar]:
    """Brings what the cache lacks, checked; the same jars, with the digests they are stored under."""
    missing = [jar for jar in jars if cache.find(jar.digest, jar.name) is None]
    if missing:
        progress(f"downloading {len(missing)} jars from {sources.chosen.url}")

    def one(jar: Jar) -> None:
        repository = next(one for one in sources.of(jar.group) if jar.url.startswith(f"{one.url}/"))
        fetched = repository.fetch_checked(jar.url.removeprefix(f"{repository.url}/"))
        if fetched.digest != jar.digest:
            raise BadInput(f"{jar.url} has changed while it was read: try again when the upload is complete")
        cache.put(fetched.content, fetched.digest, jar.name)

    in_parallel(one, missing, lambda done: progress(f"downloaded {done} of {len(missing)} jars"))
    return list(jars)


def published_versions(repository: Repository) -> list[str]:
    """Final versions (N.N.N) of which the repository has at least a part, newest first.

    Raises BadInput when it lists no version of Kafka.
    """

    def listed(artifact: str) -> set[str]:
        folder = f"{KAFKA_GROUP.replace('.', '/')}/{artifact}"
        # Gradle's publishToMavenLocal writes the second name.
        texts = (repository.fetch(f"{folder}/{name}") for name in ("maven-metadata.xml", "maven-metadata-local.xml"))
        return {
            found
            for text in texts
            if text
            for found in re.findall(r"<version>(\d+\.\d+\.\d+)</version>", text.decode())
        }

    versions = set().union(*in_parallel(listed, (*ROOTS, "kafka-clients")))
    if not versions:
        raise BadInput(f"{repository.url} lists no final version of {KAFKA_GROUP}:{ROOTS[0]}: name the version")
    return sorted(versions, key=lambda version: tuple(map(int, version.split("."))), reverse=True)


def in_parallel(work: Callable[[T], R], items: Sequence[T], tell: Callable[[int], None] | None = None) -> list[R]:
    """The results in the order of `items`. The first error is raised once the work already begun has ended.

    `tell` hears now and then, in the caller's thread, how many are done.
    """
    results: list[R] = []
    with ThreadPoolExecutor(max_workers=_DOWNLOADS, thread_name_prefix="maven") as pool:
        try:
            for result in pool.map(work, items):
                results.append(result)
                if tell and len(results) % _TELL_EVERY == 0:
                    tell(len(results))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return results


class _Graph:
    """Breadth-first, one level at a time, the POMs of a level in parallel."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._poms: dict[Coordinates, bytes] = {}
        self._relocated: set[Coordinates] = set()
        self.chosen: dict[tuple[str, str, str, str], Dependency] = {}

    def with_jars(self) -> list[Dependency]:
        """What was chosen, less what is only a POM: a mere list of others, or a forwarding address."""
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
            f"{dependency.group}:{dependency.artifact} is asked for in version {version!r}, which is not a plain one"
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
