"""Where an image of brokers keeps its Kafka, and which Kafka that is: what its makers ship, told by what lies where."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from harness.kafka.release.tarball import check_complete, is_clients, is_run, said_by
from harness.model.errors import BadInput


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to lay Kafka out: the folder of its jars, and the scripts that start a node and format storage.

    `run` is what the makers' entry point runs. It reads and writes `folders`, by their places in the image: each node
    has its own there, of that name among its files, for those of the image belong to the image's user.
    `settings_file` is where among its files `run` finds settings that a user gives it; None: it takes variables only.
    `own_archive` tells whether it has the JVM take a class-data archive of the image, whichever else it was told of.
    """

    makers: str
    jars: str
    start: str
    storage: str
    run: str
    folders: Mapping[str, str] = field(hash=False)
    settings_file: str | None = None
    own_archive: bool = False


# Sources: docker/jvm and docker/resources of apache/kafka; kafka/include/etc/confluent/docker of
# confluentinc/kafka-images, and `ub` of confluentinc/common-docker.
LAYOUTS: Final = (
    Layout(
        "apache/kafka",
        jars="/opt/kafka/libs",
        start="/opt/kafka/bin/kafka-server-start.sh",
        storage="/opt/kafka/bin/kafka-storage.sh",
        run="/etc/kafka/docker/run",
        folders={"/opt/kafka/config": "config", "/mnt/shared/config": "given"},
        settings_file="given/server.properties",
        own_archive=True,
    ),
    Layout(
        "confluentinc/cp-kafka",
        jars="/usr/share/java/kafka",
        start="/usr/bin/kafka-server-start",
        storage="/usr/bin/kafka-storage",
        run="/etc/confluent/docker/run",
        folders={"/etc/kafka": "config", "/etc/kafka/secrets": "secrets"},
    ),
)


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """An image that an engine has. `id` is of its content, so that a tag that moves is another image.

    `entry` is its ENTRYPOINT and CMD where it has the makers' entry point; empty where its nodes start by the start
    script alone. `variables` are the names of those that it sets itself.
    """

    reference: str
    id: str
    layout: Layout
    entry: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    @property
    def spec(self) -> str:
        """What its user wrote."""
        return f"image:{self.reference}"

    @property
    def way(self) -> str:
        """How its nodes start, for its user."""
        return "by its entry point" if self.entry else "by its start scripts"


class Files(Protocol):
    """The file system of an image."""

    def archive(self, path: str, target: Path) -> bool:
        """Writes a tar of a file or a folder; False when there is nothing under that path."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """What an image holds. `jars` are paths inside it; has_run: the makers' entry point is there."""

    layout: Layout
    version: str
    commit: str
    jars: tuple[Path, ...]
    has_run: bool


def find_kafka(files: Files, spec: str, scratch: Path) -> Found:
    """Looks into an image. BadInput when there is no Kafka in it, or one that is not whole."""
    jars = scratch / "jars.tar"
    for layout in LAYOUTS:
        if files.archive(layout.jars, jars):
            return _found(layout, files, spec, jars)
    places = " nor ".join(f"{layout.jars} ({layout.makers})" for layout in LAYOUTS)
    raise BadInput(f"{spec} holds no Kafka that can be run: it has neither {places}; give an image with one of them")


def _found(layout: Layout, files: Files, spec: str, jars: Path) -> Found:
    where = f"{spec} in {layout.jars}"
    try:
        with tarfile.open(jars) as archive:
            members = {PurePosixPath(member.name).name: member for member in archive if not member.isdir()}
            names = sorted(name for name in members if name.endswith(".jar") and is_run(name))
            check_complete(names, where)
            clients = next(name for name in names if is_clients(name))
            content = archive.extractfile(members[clients])
            if content is None:
                raise BadInput(f"{where} holds no kafka-clients jar but something else of that name")
            version, commit = said_by(content, f"{where}: {clients}")
    except (tarfile.TarError, KeyError) as error:
        raise BadInput(f"{where} cannot be read ({error}): pull or build the image again") from error
    _check_scripts(layout, files, spec, jars.parent)
    has_run = not _missing([layout.run], files, jars.parent)
    return Found(layout, version, commit, tuple(Path(layout.jars) / name for name in names), has_run)


def _check_scripts(layout: Layout, files: Files, spec: str, scratch: Path) -> None:
    missing = _missing([layout.start, layout.storage], files, scratch)
    if missing:
        raise BadInput(
            f"{spec} has jars as {layout.makers} has them and lacks {' and '.join(missing)}, by which its Kafka starts"
        )


def _missing(paths: Sequence[str], files: Files, scratch: Path) -> list[str]:
    return [path for path in paths if not files.archive(path, scratch / "script.tar")]
