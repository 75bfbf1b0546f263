"""Removes what runs left on a container engine, found by label.

Also run as a script, by its path, after a harness died: `reap.py LABEL=VALUE`. So it imports no other module of ours.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import docker
from docker.errors import APIError, NotFound


def runs_of(client: docker.DockerClient, label: str, run_label: str) -> set[str]:
    """The names of runs that have containers or networks with the label."""
    wanted = {"label": label}
    containers = client.containers.list(all=True, filters=wanted, ignore_removed=True)
    found = [container.labels for container in containers]
    found += [network.attrs["Labels"] for network in client.networks.list(filters=wanted)]
    return {labels[run_label] for labels in found}


def reap(client: docker.DockerClient, label: str) -> list[str]:
    """Removes containers, then networks, then volumes that carry the label, and returns their names. Idempotent.

    The order matters: neither a network with containers nor a mounted volume can be removed.
    """
    removed = []
    wanted = {"label": label}
    for container in client.containers.list(all=True, filters=wanted, ignore_removed=True):
        with _ignore_missing():
            container.remove(force=True, v=True)
        removed.append(container.name)
    for network in client.networks.list(filters=wanted):
        with _ignore_missing():
            network.remove()
        removed.append(network.name)
    for volume in client.volumes.list(filters=wanted):
        with _ignore_missing():
            volume.remove(force=True)
        removed.append(volume.name)
    return removed


@contextlib.contextmanager
def _ignore_missing() -> Iterator[None]:
    try:
        yield
    except NotFound:
        pass
    except APIError as refused:
        if "already in progress" not in str(refused):  # another process is removing it
            raise


if __name__ == "__main__":
    reap(docker.from_env(timeout=60), sys.argv[1])
