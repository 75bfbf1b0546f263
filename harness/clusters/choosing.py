"""Which backend a run takes when its user leaves the choice to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from harness.clusters.containers.engine import RUN_LABEL, NoEngine, asking, check_limits, engine, passing
from harness.clusters.containers.images import images
from harness.clusters.containers.subnets import Subnets
from harness.clusters.disks import loop_devices
from harness.clusters.nodes import clocks
from harness.clusters.nodes.security import check_secure
from harness.clusters.nodes.tier_folder import check_tier
from harness.clusters.processes.addresses import SLOTS
from harness.kafka.release.image_layout import BrokerImage
from harness.kafka.release.release import IMAGE, Release
from harness.model.backend import AUTO, CONTAINERS, PROCESSES
from harness.model.errors import BadInput, HarnessFailure
from harness.model.limits import NO_LIMITS, Limits
from harness.model.scenario.scenario import ClusterShape

_NETWORKS: Final = Path("/proc/self/net/dev")
# In 3.7 they were a preview.
_LOG_DIRS_SINCE: Final = (3, 8)
_PROBES: Final = 50  # subnets that no run takes

_OF_PROCESSES: Final = loop_devices.ALL | {
    clocks.CLOCK,
    *("links", "links.frames", "kill", "terminate", "pause", "restart", "disk.read", "disk.write", "disk.full"),
}
# What faults may ask of each backend, on a machine that lacks nothing. The limits of a container's process are the
# engine's to set: who owns the files inside need not own the process.
CAPABILITIES: Final[Mapping[str, frozenset[str]]] = {
    PROCESSES: _OF_PROCESSES,
    CONTAINERS: _OF_PROCESSES - {"disk.full"} | {"memory.limit"},
}


def able(backend: str) -> frozenset[str]:
    """What faults may ask of a backend on this machine."""
    return CAPABILITIES[backend] - missing().keys()


def missing() -> dict[str, str]:
    """Capabilities that this machine lacks whatever the backend, with why and the remedy."""
    return {**loop_devices.missing(), **clocks.missing()}


def check_plan(backend: str, shape: ClusterShape) -> None:
    """BadInput, before anything starts, for a cluster that a backend has no addresses for."""
    if backend == CONTAINERS and shape.tier == "user":
        raise BadInput(
            'shape: tier = "user": containers sit on networks that lead to no storage of yours; use --backend '
            f"{PROCESSES}"
        )
    if backend == CONTAINERS:
        try:
            Subnets.of(0, shape)
        except BadInput as error:
            raise BadInput(f"shape: {error}; use --backend {PROCESSES}") from error


def check_release(release: Release, shape: ClusterShape) -> None:
    """BadInput for a shape that brokers of this release cannot have."""
    check_tier(release, shape)
    check_secure(release, shape)
    if shape.log_dirs > 1 and release.numbers < _LOG_DIRS_SINCE:
        since = ".".join(map(str, _LOG_DIRS_SINCE))
        raise BadInput(
            f"shape: log_dirs = {shape.log_dirs}: Kafka {release.version} has no log directories beside the first "
            f"without ZooKeeper (KIP-858): give a release from {since} on, or leave log_dirs away"
        )


def only_in_containers(kafka: str | None, limits: Limits) -> str:
    """What was asked for that processes cannot do, as a text; empty when there is nothing of the kind."""
    asked = [kafka] if kafka is not None and kafka.startswith(IMAGE) else []
    return " and ".join([*asked, *limits.asked()])


def refuse_as_processes(kafka: str | None, limits: Limits) -> None:
    """BadInput when something was asked for that only containers can do, and brokers are to run as processes."""
    if asked := only_in_containers(kafka, limits):
        raise BadInput(
            f"{asked} cannot be had with --backend processes: say --backend containers, or leave {_it(asked)} away"
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
    """For "auto": containers where an engine answers and has an image or can have one, else processes; says why.

    image: of brokers, if they run by one. Raises BadInput when containers are wanted, or needed for what was asked,
    and cannot be had, or not with these limits.
    """
    if wanted == PROCESSES:  # who starts them refuses what they cannot do
        return PROCESSES
    asked = only_in_containers(image.spec if image else None, limits)
    try:
        say(f"backend: containers on {_engine_and_image(cache, progress, image)}")
    except (BadInput, HarnessFailure) as missing:
        why = missing.why if isinstance(missing, NoEngine) else str(missing)
        if asked:
            remedy = f"{missing.remedy}, or " if isinstance(missing, NoEngine) else ""
            raise BadInput(
                f"{asked}: only containers can do that, and {why}: {remedy}leave {_it(asked)} away"
            ) from None
        if wanted != AUTO:
            raise
        say(f"backend: processes, since {why}")
        return PROCESSES
    with closing(engine()) as client:
        check_limits(client, limits)
    return CONTAINERS


def _it(asked: str) -> str:
    return "them" if " and " in asked else "it"


def _engine_and_image(cache: Path, progress: Callable[[str], None], image: BrokerImage | None) -> str:
    with closing(engine()) as client:
        with asking("say its version"):
            version = client.version()["Version"]
        _share_a_network(client)
        taken = images(client, cache, progress, image)
        return f"engine {version}, image {image.reference if image else taken.node}"


def _share_a_network(client: Any) -> None:
    """Ports that the engine publishes on 127.0.0.1 are of use only where its bridges are this machine's, too.

    NoEngine when they are not: it is in a virtual machine, on another one, or in another network namespace.
    """
    from docker.types import IPAMConfig, IPAMPool

    labels = passing()
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
        raise NoEngine("the container engine's networks are not this machine's", "run beside it")
