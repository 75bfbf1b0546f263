"""Which backend a run takes when its user leaves the choice to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from harness.clusters.addresses import SLOTS
from harness.clusters.engine import ROOT_LABEL, RUN_LABEL, NoEngine, asking, engine
from harness.clusters.images import images
from harness.clusters.state import default_root
from harness.model.backend import AUTO, CONTAINERS, PROCESSES
from harness.model.errors import BadInput, HarnessFailure

_NETWORKS: Final = Path("/proc/self/net/dev")
_PROBES: Final = 50  # subnets that no run takes


def choose(wanted: str, cache: Path, progress: Callable[[str], None], say: Callable[[str], None]) -> str:
    """For "auto": containers where an engine answers and has an image or can have one, else processes; says why.

    Raises BadInput when containers are wanted and cannot be had.
    """
    if wanted == PROCESSES:
        return PROCESSES
    try:
        say(f"backend: containers on {_engine_and_image(cache, progress)}")
    except (BadInput, HarnessFailure) as missing:
        if wanted != AUTO:
            raise
        say(f"backend: processes, since {missing.why if isinstance(missing, NoEngine) else missing}")
        return PROCESSES
    return CONTAINERS


def _engine_and_image(cache: Path, progress: Callable[[str], None]) -> str:
    client = engine()
    try:
        with asking("say its version"):
            version = client.version()["Version"]
        _share_a_network(client)
        return f"engine {version}, image {images(client, cache, progress).node}"
    finally:
        client.close()


def _share_a_network(client: Any) -> None:
    """Ports that the engine publishes on 127.0.0.1 are of use only where its bridges are this machine's, too.

    NoEngine when they are not: it is in a virtual machine, on another one, or in another network namespace.
    """
    from docker.types import IPAMConfig, IPAMPool

    bridge = f"kd-{os.getpid()}"
    with asking("make a network"):
        network = client.networks.create(
            bridge,
            driver="bridge",
            internal=True,
            labels={RUN_LABEL: bridge, ROOT_LABEL: str(default_root())},
            options={"com.docker.network.bridge.name": bridge},
            ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=f"198.19.{SLOTS + os.getpid() % _PROBES}.0/24")]),
        )
        seen = f"{bridge}:" in _NETWORKS.read_text("ascii")
        network.remove()
    if not seen:
        raise NoEngine("the container engine's networks are not this machine's", "run beside it")
