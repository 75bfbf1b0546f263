"""The container engine of this machine, used through Docker's API and never through its command line.

Everything that a run makes there carries the run's label, so that after a crash another harness finds it.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypedDict

import psutil

from harness.clusters.state import default_root
from harness.model.errors import BadInput, HarnessFailure
from harness.model.limits import MIB, Limits

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image
    from requests import Response

# testcontainers reads this when it is first imported. Its reaper needs an image; our supervisor does the same work.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"

RUN_LABEL: Final = "kafka-durability.run"
ROOT_LABEL: Final = "kafka-durability.root"
_SHORT_LIVED: Final = "kd-"
CGROUPS: Final = "give it the memory and cpu controllers of cgroups"
_ANSWER_S: Final = 60
_HERE: Final = "unix:///var/run/docker.sock"
PULL_SILENCE_S: Final = 60.0  # an engine reports the progress of a pull several times a second
PULL_S: Final = 1800.0


class EngineInfo(TypedDict, total=False):
    """An engine's description of itself, as far as it is needed."""

    ServerVersion: str
    CgroupVersion: str
    OSType: str
    Architecture: str
    SecurityOptions: list[str] | None
    DockerRootDir: str
    MemoryLimit: bool
    CpuCfsQuota: bool
    NCPU: int
    MemTotal: int


class NoEngine(BadInput):
    """There is no usable container engine. `why` is the cause, without the remedy."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(f"{why}: {remedy}, or use --backend processes")
        self.why = why
        self.remedy = remedy


def engine() -> DockerClient:
    """A client of the engine at DOCKER_HOST. NoEngine if none answers."""
    try:
        import docker
        from docker.errors import DockerException
        from requests import RequestException
    except ModuleNotFoundError as absent:
        raise NoEngine(f"{absent.name} is not installed", "pip install 'kafka-durability[containers]'") from None
    where = os.environ.get("DOCKER_HOST") or _HERE
    try:  # a bad port is a ValueError or an OverflowError
        _check_socket(where)
        client = docker.from_env(timeout=_ANSWER_S)
        client.ping()
    except (OSError, ValueError, OverflowError, DockerException, RequestException) as silent:
        raise NoEngine(f"no container engine answers at {where} ({_short(silent)})", "start one") from None
    return client


def _check_socket(where: str) -> None:
    """OSError if no process listens on a Unix socket. Docker's client would leak a socket in that case."""
    if where.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(where.removeprefix("unix://"))


def pull(client: DockerClient, reference: str) -> str:
    """Makes the engine pull an image. Returns why it could not; empty on success.

    Gives up after `PULL_SILENCE_S` seconds of silence, and after `PULL_S` seconds in all. Docker's client would wait
    for ever for a registry that does not answer. An engine ends a pull when its client disconnects.
    """
    from docker.errors import DockerException
    from requests import RequestException

    give_up_at = time.monotonic() + PULL_S
    try:
        with _pulling(client, reference) as answer:
            for line in answer.iter_lines():
                status = json.loads(line) if line else {}
                if refusal := status.get("error") or status.get("message"):
                    return _first_line(refusal)
                if time.monotonic() > give_up_at:
                    return f"it was not complete after {PULL_S:g} s"
    except (RequestException, DockerException, ValueError) as error:
        silent = "timed out" in str(error).lower()
        return f"no answer within {PULL_SILENCE_S:g} s" if silent else _short(error)
    return ""


def image_of(client: DockerClient, reference: str) -> Image | None:
    """The engine's description of an image; None if it has no image of that name."""
    from docker.errors import APIError, ImageNotFound

    with asking(f"look for the image {reference}"):
        try:
            return client.images.get(reference)
        except ImageNotFound:
            return None
        except APIError as refused:
            if refused.status_code == 400:  # not a valid name: a pull gives the reason
                return None
            raise


def _pulling(client: DockerClient, reference: str) -> Response:
    from docker import auth
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(reference)
    registry, _ = auth.resolve_repository_name(repository)
    login = auth.get_config_header(client.api, registry)
    answer: Response = client.api.post(
        f"{client.api.base_url}/v{client.api.api_version}/images/create",
        params={"fromImage": repository, "tag": tag or "latest"},
        headers={"X-Registry-Auth": login} if login else {},
        stream=True,
        timeout=PULL_SILENCE_S,
    )
    return answer


def check_limits(client: DockerClient, limits: Limits) -> None:
    """BadInput for a limit that the engine would accept and not enforce, with no other sign than a line in its log."""
    if limits.asked():
        with asking("report what it can limit"):
            info = client.info()
        check_enforced(info, limits)


def check_enforced(info: EngineInfo, limits: Limits) -> None:
    """BadInput for a limit that the engine, by its own description, cannot enforce."""
    if limits.memory is not None and not info.get("MemoryLimit"):
        raise BadInput(f"--memory: the container engine cannot limit memory: {CGROUPS}, or leave --memory out")
    if limits.cpus is not None and not info.get("CpuCfsQuota"):
        raise BadInput(f"--cpus: the container engine cannot limit CPU time: {CGROUPS}, or leave --cpus out")
    if limits.cpus is not None and limits.cpus > info.get("NCPU", limits.cpus):
        raise BadInput(f"--cpus {limits.cpus:g}: the container engine has {info['NCPU']} cores: give that or less")
    if limits.memory is not None and limits.memory > info.get("MemTotal", limits.memory):
        raise BadInput(f"--memory: the container engine has {info['MemTotal'] // MIB} MiB in total: give less")


def short_lived_labels() -> dict[str, str]:
    """Labels for containers and networks that are removed at once and belong to no run."""
    return {RUN_LABEL: f"{_SHORT_LIVED}{os.getpid()}", ROOT_LABEL: str(default_root())}


def is_short_lived(run: str) -> bool:
    """Whether objects with this run label belong to a living harness, which is about to remove them."""
    pid = run.removeprefix(_SHORT_LIVED)
    return run.startswith(_SHORT_LIVED) and pid.isdecimal() and psutil.pid_exists(int(pid))


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turns an error of the engine, or its silence, into a HarnessFailure that says what it could not do."""
    from docker.errors import DockerException
    from requests import RequestException

    try:
        yield
    except (DockerException, RequestException) as refused:
        raise HarnessFailure(f"the container engine could not {what}: {_short(refused)}") from refused


def _short(error: Exception) -> str:
    return _first_line(getattr(error, "explanation", None) or error)


def _first_line(text: object) -> str:
    return next(iter(str(text).strip().splitlines()), "no reason given")[:300]
