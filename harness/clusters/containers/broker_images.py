"""Images of brokers, as their makers ship them: pulled if needed, and inspected.

The content of an image is read from a container that is made of it and never started. The nodes run as the user of the
harness, whatever user the image names: their files are on this machine, and the harness has to read them while they
are written, and to remove them without being root.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.clusters.containers.engine import NoEngine, asking, engine, image_of, pull, short_lived_labels
from harness.clusters.nodes.storage_format import FORMAT_S, TOOL_FLAGS, TOOL_HEAP, StorageTool
from harness.clusters.processes.runner import Runner
from harness.kafka.release.cache import Cache
from harness.kafka.release.image_layout import BrokerImage, Found, find_kafka, java_in
from harness.kafka.release.release import IMAGE, Release
from harness.model.errors import BadInput
from harness.model.waiting import wait_for

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container
    from docker.models.images import Image

STORAGE: Final = "storage"
OWN_JAVA_HOME: Final = "/opt/java"
_REFERENCE: Final = re.compile(r"[\w.][\w.:/@-]*", re.ASCII)

Progress = Callable[[str], None]


def image_release(spec: str, cache: Path, progress: Progress) -> Release:
    """The build that `image:REF` names. BadInput if it cannot be pulled, or contains no Kafka that can be run."""
    reference = spec.removeprefix(IMAGE)
    if not _REFERENCE.fullmatch(reference):
        raise BadInput(f"{spec!r} is not the name of an image: give one such as image:apache/kafka:4.1.0")
    try:
        client = engine()
    except NoEngine as none:
        raise BadInput(f"{spec} runs only in containers, and {none.why}: {none.remedy}") from None
    try:
        pulled = _pulled(client, spec, reference, progress)
        progress(f"inspecting {spec}")
        with _unstarted(client, str(pulled.id)) as container, Cache(cache).scratch() as scratch:
            files = _Files(container, Cache(cache))
            found = find_kafka(files, spec, scratch)
            image = broker_image(reference, str(pulled.id), pulled.attrs.get("Config") or {}, found)
            image = replace(image, java=java_in(files, java_home(pulled), scratch))
    finally:
        client.close()
    source = f"{spec} ({image.id[:19]}, laid out as {found.layout.makers}, started {image.way})"
    return Release(found.version, found.commit, source, found.jars, kafka=spec, image=image)


def broker_image(
    reference: str, identity: str, config: Mapping[str, Sequence[str] | None], found: Found
) -> BrokerImage:
    """An image of brokers, from its configuration and from what was found in it.

    If the makers' entry point is in the image, the nodes run the image's configured entry point: a user may have put
    another entry point before the makers' one.
    """
    entry = tuple(map(str, [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())])) if found.has_run else ()
    variables = tuple(variable.partition("=")[0] for variable in config.get("Env") or ())
    return BrokerImage(reference, identity, found.layout, entry, variables)


def java_home(image: Image) -> str:
    """The Java home that an image names; that of the images which this harness makes if it names none."""
    variables = (image.attrs.get("Config") or {}).get("Env") or ()
    return next((one.partition("=")[2] for one in variables if one.startswith("JAVA_HOME=")), OWN_JAVA_HOME)


def java_of(client: DockerClient, image: Image, cache: Path) -> str | None:
    """Version and vendor of the Java in an image, read from a container of it that is never started."""
    with _unstarted(client, str(image.id)) as container, Cache(cache).scratch() as scratch:
        return java_in(_Files(container, Cache(cache)), java_home(image), scratch)


def _pulled(client: DockerClient, spec: str, reference: str, progress: Progress) -> Image:
    """The image, pulled if the engine lacks it. BadInput if it is of another architecture than the engine."""
    image = image_of(client, reference)
    if image is None:
        progress(f"pulling {reference}")
        why = pull(client, reference)
        image = image_of(client, reference)
        if image is None:
            why = why or "the engine still does not have it after the pull"
            raise BadInput(
                f"{spec}: the engine has no such image and cannot pull it ({why}): check its name, or load it"
            )
    with asking("report its architecture"):
        own = client.version().get("Arch", "")
    built_for = image.attrs.get("Architecture", "")
    if built_for and own and built_for != own:  # an emulator could run it, but so slowly that it looks like faults
        raise BadInput(f"{spec} is built for {built_for}, and this engine runs {own}: pull it for linux/{own}")
    return image


@dataclass(frozen=True, slots=True)
class _Files:
    """Implements `image_layout.Files` with a container of the image."""

    container: Container
    cache: Cache

    def archive(self, path: str, target: Path) -> bool:
        """See `image_layout.Files`."""
        from docker.errors import NotFound

        with self.cache.writing(), asking(f"read {path} in an image"):
            try:
                chunks, _ = self.container.get_archive(path)
            except NotFound:
                return False
            with target.open("wb") as file:
                file.writelines(chunks)
        return True


@contextmanager
def _unstarted(client: DockerClient, identity: str) -> Iterator[Container]:
    """A container that is never started: its command does not exist."""
    with asking("make a container to inspect an image"):
        container = client.containers.create(
            identity, entrypoint=["/never"], command=[], network_mode="none", labels=short_lived_labels()
        )
    try:
        yield container
    finally:
        with asking("remove the container that was made to inspect an image"):
            container.remove(v=True, force=True)


def image_tool(image: BrokerImage, runner: Runner) -> StorageTool:
    """The storage tool in the image, run as the process `STORAGE` of the runner."""

    def run(arguments: Sequence[str], directory: Path) -> tuple[int, str]:
        output = directory / "console.log"
        env = {
            "KAFKA_HEAP_OPTS": TOOL_HEAP,
            "KAFKA_JVM_PERFORMANCE_OPTS": " ".join(TOOL_FLAGS),
            "KAFKA_JMX_OPTS": "-Djava.awt.headless=true",
            "LOG_DIR": "logs",
        }
        runner.start(STORAGE, [image.layout.storage, *arguments], cwd=directory, output=output, env=env)
        state = wait_for(
            lambda: runner.status()[STORAGE],
            until=lambda state: not state.alive,
            deadline_s=FORMAT_S,
            what=f"the storage tool of {image.spec} to end",
            interval_s=0.1,
        )
        text = output.read_text("utf-8", "replace") if output.exists() else ""
        return state.returncode or 0, text

    return run
