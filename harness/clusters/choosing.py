"""Which backend a run takes when its user leaves the choice to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.clusters.base_image import base_image
from harness.clusters.engine import NoEngine, asking, engine
from harness.model.backend import AUTO, CONTAINERS, PROCESSES
from harness.model.errors import BadInput, HarnessFailure


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
        return f"engine {version}, image {base_image(client, cache, progress).name}"
    finally:
        client.close()
