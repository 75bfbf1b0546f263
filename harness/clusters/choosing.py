"""Capabilities of the backends on this machine, checks before a start, and the choice of --backend auto."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.clusters.containers.engine import RUN_LABEL, NoEngine, asking, check_limits, engine, short_lived_labels
from harness.clusters.containers.images import images
from harness.clusters.containers.subnets import Subnets
from harness.clusters.disks import loop_devices
from harness.clusters.nodes import clocks
from harness.clusters.nodes.agent import AGENT
from harness.clusters.nodes.security import check_secure
from harness.clusters.nodes.tier_folder import check_tier
from harness.clusters.processes.addresses import SLOTS
from harness.kafka.release.image_layout import BrokerImage
from harness.kafka.release.release import IMAGE, Release
from harness.model.backend import AUTO, CONTAINERS, PROCESSES
from harness.model.errors import BadInput, HarnessFailure
from harness.model.limits import NO_LIMITS, Limits
from harness.model.scenario.scenario import ClusterShape

if TYPE_CHECKING:
    from docker import DockerClient

_NETWORKS: Final = Path("/proc/self/net/dev")
_LOG_DIRS_SINCE: Final = (3, 8)  # a preview in 3.7
_PROBES: Final = 50  # subnets that no run uses

_OF_PROCESSES: Final = loop_devices.ALL | {
    clocks.CLOCK,
    *("links", "links.frames", "kill", "terminate", "pause", "restart", "disk.read", "disk.write", "disk.full"),
}
# The capabilities of each backend on a machine that lacks nothing. "disk.full" lowers a limit of a process, which in a
# container only the engine can do. The agent's listener is not published out of a container.
CAPABILITIES: Final[Mapping[str, frozenset[str]]] = {
    PROCESSES: _OF_PROCESSES | {AGENT},
    CONTAINERS: _OF_PROCESSES - {"disk.full"} | {"memory.limit"},
}


def able(backend: str) -> frozenset[str]:
    """The capabilities of a backend on this machine."""
    return CAPABILITIES[backend] - missing().keys()


def missing() -> dict[str, str]:
    """By capability that this machine lacks for every backend: why, with the remedy."""
    return {**loop_devices.missing(), **clocks.missing()}


def check_plan(backend: str, shape: ClusterShape) -> None:
    """BadInput, before anything starts, for a shape that a backend cannot have."""
    if backend == CONTAINERS and shape.tier == "user":
        raise BadInput(
            f'shape: tier = "user": the networks of containers have no way to your storage; use --backend {PROCESSES}'
        )
    if backend == CONTAINERS and shape.agent:
        raise BadInput(
            f"shape: agent = true: the harness does not reach an agent inside of a container; use --backend {PROCESSES}"
        )
    if backend == CONTAINERS:
        try:
            Subnets.of(0, shape)
        except BadInput as error:
            raise BadInput(f"shape: {error}; use --backend {PROCESSES}") from error


def check_release(release: Release, shape: ClusterShape) -> None:
    """BadInput for a shape that this release does not support."""
    check_tier(release, shape)
    check_secure(release, shape)
    if shape.log_dirs > 1 and release.numbers < _LOG_DIRS_SINCE:
        since = ".".join(map(str, _LOG_DIRS_SINCE))
        raise BadInput(
            f"shape: log_dirs = {shape.log_dirs}: Kafka {release.version} supports only one log directory without "
            f"ZooKeeper (KIP-858): give a release from {since} on, or remove log_dirs from the shape"
        )


def only_in_containers(kafka: str | None, limits: Limits) -> str:
    """The options that processes cannot fulfil, as a text; empty if there are none."""
    asked = [kafka] if kafka is not None and kafka.startswith(IMAGE) else []
    return " and ".join([*asked, *limits.asked()])


def refuse_as_processes(kafka: str | None, limits: Limits) -> None:
    """BadInput if brokers are to run as processes and an option needs containers."""
    if asked := only_in_containers(kafka, limits):
        raise BadInput(
            f"{asked} is not possible with --backend processes: use --backend containers, or leave {_it(asked)} out"
        )


def choose(
    wanted: str,
    cache: Path,
    progress: Callable[[str], None],
    say: Callable[[str], None],
    *,
    image: BrokerImage | None = None,
    limits: Limits = NO_LIMITS,
) -> str:
    """The backend for --backend: for "auto", containers if an engine answers and has the images, otherwise processes.

    Passes the choice and its reason to `say`. image: the image of brokers, if one is used. BadInput if containers are
    wanted, or needed for an option, and are not possible, or not with these limits.
    """
    if wanted == PROCESSES:  # `refuse_as_processes` checks the options
        return PROCESSES
    asked = only_in_containers(image.spec if image else None, limits)
    try:
        say(f"backend: containers on {_engine_and_image(cache, progress, image)}")
    except (BadInput, HarnessFailure) as missing:
        why = missing.why if isinstance(missing, NoEngine) else str(missing)
        if asked:
            remedy = f"{missing.remedy}, or " if isinstance(missing, NoEngine) else ""
            raise BadInput(f"{asked}: only containers can do that, and {why}: {remedy}leave {_it(asked)} out") from None
        if wanted != AUTO:
            raise
        say(f"backend: processes, because {why}")
        return PROCESSES
    with closing(engine()) as client:
        check_limits(client, limits)
    return CONTAINERS


def _it(asked: str) -> str:
    return "them" if " and " in asked else "it"


def _engine_and_image(cache: Path, progress: Callable[[str], None], image: BrokerImage | None) -> str:
    with closing(engine()) as client:
        with asking("report its version"):
            version = client.version()["Version"]
        _check_networks_are_local(client)
        node = images(client, cache, progress, image).node
        return f"engine {version}, image {image.reference if image else node}"


def _check_networks_are_local(client: DockerClient) -> None:
    """NoEngine if the engine's networks are not on this machine, as in a virtual machine or another network namespace.

    The harness reaches only ports that the engine publishes on 127.0.0.1 of this machine.
    """
    from docker.types import IPAMConfig, IPAMPool

    labels = short_lived_labels()
    bridge = labels[RUN_LABEL]
    with asking("make a network"):
        network = client.networks.create(
            bridge,
            driver="bridge",
            internal=True,
            labels=labels,
            options={"com.docker.network.bridge.name": bridge},
            ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=f"198.19.{SLOTS + os.getpid() % _PROBES}.0/24")]),
        )
        seen = f"{bridge}:" in _NETWORKS.read_text("ascii")
        network.remove()
    if not seen:
        raise NoEngine(
            "the networks of the container engine are not on this machine", "run the harness where the engine runs"
        )
