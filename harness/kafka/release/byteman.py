"""Byteman, the agent with which nodes run that have faults in Kafka's own code. It is under the LGPL, and not part of
this program: it is downloaded when the first scenario needs it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.kafka.release.cache import Cache, Progress
from harness.kafka.release.pom import Dependency
from harness.kafka.release.published import fetched
from harness.kafka.release.release import Release
from harness.kafka.release.repository import NotPublished
from harness.model.errors import BadInput

VERSION: Final = "4.0.26"
AGENT: Final = f"Byteman {VERSION}"
_JAR: Final = Dependency("org.jboss.byteman", "byteman", VERSION)


def with_agent(release: Release, *, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    """The release with the jar of the agent. BadInput when no repository has it."""
    if release.agent is not None:
        return release
    try:
        (jar,) = fetched([_JAR], f"byteman-{VERSION}", maven_repo, Cache(cache), progress)
    except NotPublished as error:
        raise BadInput(
            f"agent = true needs {AGENT} ({error}): give --maven-repo a repository that has it, or leave out the "
            "scenarios with faults in Kafka's own code"
        ) from error
    return replace(release, agent=jar)
