"""Single jars from Maven repositories that are not part of a release, kept in the cache under a key."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from harness.kafka.release.cache import Cache, Progress
from harness.kafka.release.maven import Jar, Sources, download, locate
from harness.kafka.release.pom import Dependency
from harness.kafka.release.release import classpath_in, recorded
from harness.kafka.release.repository import CENTRAL, Repository, Unreachable

_FORMAT = 1


def fetched(
    dependencies: Sequence[Dependency],
    key: str,
    maven_repo: str | None,
    files: Cache,
    progress: Progress,
    what: str | None = None,
) -> tuple[Path, ...]:
    """The jars of these dependencies, in this order. `what` names them in reports of progress (default: the key).

    If `maven_repo` is given, Kafka's own jars come from there alone. NotPublished when one is missing.
    """
    with Repository(CENTRAL if maven_repo is None else maven_repo) as repository, Repository(CENTRAL) as central:
        sources = Sources(repository, None if repository.url == CENTRAL else central)
        of_this = f"{key}-{hashlib.sha256(repository.url.encode()).hexdigest()[:12]}"
        with files.locked(of_this, progress):
            jars = recorded(files.read_record(of_this))
            if not jars or repository.url != CENTRAL:  # a candidate may be staged again at one URL
                jars = _located(sources, dependencies, jars)
            download(sources, jars, files, progress, what or key)
            files.write_record(of_this, {"format": _FORMAT, "jars": [jar.as_dict() for jar in jars]})
            return classpath_in(jars, files)


def _located(sources: Sources, dependencies: Sequence[Dependency], known: list[Jar]) -> list[Jar]:
    try:
        return locate(sources, dependencies)
    except Unreachable:
        if not known:
            raise
        return known
