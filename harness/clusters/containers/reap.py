"""Removes what runs left on a container engine, found by label. Also run as a script, by its path, when a harness died:
`reap.py LABEL=VALUE` imports no other module of ours.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import docker
from docker.errors import APIError, NotFound


def runs_of(client: Any, label: str, run_label: str) -> set[str]:
    """The runs that have containers or networks with the label."""
    wanted = {"label": label}
    containers = client.containers.list(all=True, filters=wanted, ignore_removed=True)
    found = [container.labels for container in containers]
    found += [network.attrs["Labels"] for network in client.networks.list(filters=wanted)]
    return {labels[run_label] for labels in found}


def reap(client: Any, label: str) -> list[str]:
    """Containers, then networks, then volumes that carry the label; their names. What is gone already is fine.

    In this order: a network with containers on it cannot be removed, nor a volume that one has mounted.
    """
    gone = []
    wanted = {"label": label}
    for container in client.containers.list(all=True, filters=wanted, ignore_removed=True):
        with _gone_is_fine():
            container.remove(force=True, v=True)
        gone.append(container.name)
    for network in client.networks.list(filters=wanted):
        with _gone_is_fine():
            network.remove()
        gone.append(network.name)
    for volume in client.volumes.list(filters=wanted):
        with _gone_is_fine():
            volume.remove(force=True)
        gone.append(volume.name)
    return gone


@contextlib.contextmanager
def _gone_is_fine() -> Any:
    try:
        yield
    except NotFound:
        pass
    except APIError as refused:
        if "already in progress" not in str(refused):  # somebody else removes it
            raise


if __name__ == "__main__":
    reap(docker.from_env(timeout=60), sys.argv[1])
