"""The container engine of this machine, and what of ours is on it. Only Docker's API is spoken, never its client.

Everything that a run makes carries its label, so that whoever comes after a crash finds it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from harness.model.errors import BadInput, HarnessFailure

# Read when testcontainers is first imported. Its reaper is an image of its own; our supervisor does the same work.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"

RUN_LABEL: Final = "kafka-durability.run"
ROOT_LABEL: Final = "kafka-durability.root"
_ANSWER_S: Final = 60
_HERE: Final = "unix:///var/run/docker.sock"


class NoEngine(BadInput):
    """Containers cannot be had here; `why` is the sentence without the remedy."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(f"{why}: {remedy}, or say --backend processes")
        self.why = why


def engine() -> Any:
    """A client of the engine that DOCKER_HOST names. NoEngine when none answers."""
    try:
        import docker
        from docker.errors import DockerException
        from requests import RequestException
    except ModuleNotFoundError as absent:
        raise NoEngine(f"{absent.name} is not installed", "pip install 'kafka-durability[containers]'") from None
    where = os.environ.get("DOCKER_HOST", _HERE)
    try:
        _knock(where)
        client = docker.from_env(timeout=_ANSWER_S)
        client.ping()
    except (OSError, DockerException, RequestException) as silent:
        raise NoEngine(f"no container engine answers at {where} ({_short(silent)})", "start one") from None
    return client


def _knock(where: str) -> None:
    """Docker's client leaves a socket open for each time that it finds nobody behind one."""
    if where.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.connect(where.removeprefix("unix://"))


@contextmanager
def asking(what: str) -> Iterator[None]:
    """An engine that refuses or goes silent is the harness's failure, in one sentence."""
    from docker.errors import DockerException
    from requests import RequestException

    try:
        yield
    except (DockerException, RequestException) as refused:
        raise HarnessFailure(f"the container engine could not {what}: {_short(refused)}") from refused


def _short(error: Exception) -> str:
    explanation = getattr(error, "explanation", None)
    return str(explanation or error).strip().splitlines()[0][:300]
