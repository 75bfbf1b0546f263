"""The container engine of this machine, and what of ours is on it. Only Docker's API is spoken, never its client.

Everything that a run makes carries its label, so that whoever comes after a crash finds it.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psutil

from harness.clusters.state import default_root
from harness.model.errors import BadInput, HarnessFailure
from harness.model.limits import MIB, Limits

# Read when testcontainers is first imported. Its reaper is an image of its own; our supervisor does the same work.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"

RUN_LABEL: Final = "kafka-durability.run"
ROOT_LABEL: Final = "kafka-durability.root"
_PASSING: Final = "kd-"
CGROUPS: Final = "let it have the memory and cpu controllers of cgroups"
_ANSWER_S: Final = 60
_HERE: Final = "unix:///var/run/docker.sock"
PULL_SILENCE_S: Final = 60.0  # what an engine fetches it tells of several times a second
PULL_S: Final = 1800.0


class NoEngine(BadInput):
    """Containers cannot be had here; `why` is the sentence without the remedy."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(f"{why}: {remedy}, or say --backend processes")
        self.why = why
        self.remedy = remedy


def engine() -> Any:
    """A client of the engine that DOCKER_HOST names. NoEngine when none answers."""
    try:
        import docker
        from docker.errors import DockerException
        from requests import RequestException
    except ModuleNotFoundError as absent:
        raise NoEngine(f"{absent.name} is not installed", "pip install 'kafka-durability[containers]'") from None
    where = os.environ.get("DOCKER_HOST") or _HERE
    try:
        _knock(where)
        client = docker.from_env(timeout=_ANSWER_S)
        client.ping()
    except (OSError, ValueError, OverflowError, DockerException, RequestException) as silent:  # a port may be none
        raise NoEngine(f"no container engine answers at {where} ({_short(silent)})", "start one") from None
    return client


def _knock(where: str) -> None:
    """Docker's client leaves a socket open for each time that it finds nobody behind one."""
    if where.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.connect(where.removeprefix("unix://"))


def pull(client: Any, reference: str) -> str:
    """Has the engine fetch an image; why it could not, or nothing. Gives up on silence and after `PULL_S` seconds.

    Docker's own client waits for ever on a registry that does not answer. An engine ends the pull of who goes away.
    """
    from docker.errors import DockerException
    from requests import RequestException

    give_up_at = time.monotonic() + PULL_S
    try:
        with _pulling(client, reference) as answer:
            for line in answer.iter_lines():
                said = json.loads(line) if line else {}
                if refusal := said.get("error") or said.get("message"):
                    return _first_line(refusal)
                if time.monotonic() > give_up_at:
                    return f"it was not there after {PULL_S:g} s"
    except (RequestException, DockerException, ValueError) as error:
        silent = "timed out" in str(error).lower()
        return f"no answer within {PULL_SILENCE_S:g} s" if silent else _short(error)
    return ""


def image_of(client: Any, reference: str) -> Any:
    """What the engine knows of an image; None when it has none of that name."""
    from docker.errors import APIError, ImageNotFound

    with asking(f"look for the image {reference}"):
        try:
            return client.images.get(reference)
        except ImageNotFound:
            return None
        except APIError as refused:
            if refused.status_code == 400:  # not a name at all; a pull will say so
                return None
            raise


def _pulling(client: Any, reference: str) -> Any:
    from docker import auth
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(reference)
    registry, _ = auth.resolve_repository_name(repository)
    login = auth.get_config_header(client.api, registry)
    return client.api.post(
        f"{client.api.base_url}/v{client.api.api_version}/images/create",
        params={"fromImage": repository, "tag": tag or "latest"},
        headers={"X-Registry-Auth": login} if login else {},
        stream=True,
        timeout=PULL_SILENCE_S,
    )


def check_limits(client: Any, limits: Limits) -> None:
    """BadInput for a limit that was asked for and would not hold: an engine takes it, and says so in its log only."""
    if limits.asked():
        with asking("say what it can limit"):
            said = client.info()
        check_held(said, limits)


def check_held(said: Mapping[str, Any], limits: Limits) -> None:
    """`check_limits` against an engine's own description."""
    if limits.memory is not None and not said.get("MemoryLimit"):
        raise BadInput(f"--memory: the container engine cannot limit memory: {CGROUPS}, or leave --memory away")
    if limits.cpus is not None and not said.get("CpuCfsQuota"):
        raise BadInput(f"--cpus: the container engine cannot limit CPU time: {CGROUPS}, or leave --cpus away")
    if limits.cpus is not None and limits.cpus > said.get("NCPU", limits.cpus):
        raise BadInput(f"--cpus {limits.cpus:g}: the container engine has {said['NCPU']} cores: give that or less")
    if limits.memory is not None and limits.memory > said.get("MemTotal", limits.memory):
        raise BadInput(f"--memory: the container engine has {said['MemTotal'] // MIB} MiB in all: give less than that")


def passing() -> dict[str, str]:
    """Labels of what is made and removed again at once, outside of any run."""
    return {RUN_LABEL: f"{_PASSING}{os.getpid()}", ROOT_LABEL: str(default_root())}


def is_passing(run: str) -> bool:
    """Whether what bears this label of a run is about to be removed by a harness that lives."""
    pid = run.removeprefix(_PASSING)
    return run.startswith(_PASSING) and pid.isdecimal() and psutil.pid_exists(int(pid))


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
    return _first_line(getattr(error, "explanation", None) or error)


def _first_line(text: object) -> str:
    return next(iter(str(text).strip().splitlines()), "it did not say why")[:300]
