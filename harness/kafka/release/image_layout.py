"""Finds Kafka in a container image, and its version. The paths of the jars show which project made the image."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from harness.kafka.release.java import version_in
from harness.kafka.release.tarball import check_complete, is_clients, is_runtime_jar, read_identity
from harness.model.errors import BadInput

_RELEASE_FILE_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one kind of image: the folder of its jars, and the scripts that start a node and format storage.

    run: the script that the makers' entry point runs.
    folders: path in the image -> name among a node's files. `run` reads and writes these folders. Each node gets its
    own, because those of the image belong to the image's user.
    settings_file: where, among a node's files, `run` finds the settings of a user; None: it takes only variables.
    own_archive: whether `run` makes the JVM use the image's class data archive, even if another one was configured.
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
    """An image that the container engine has.

    id: the hash of its content, so that a tag that moved is another image.
    entry: its ENTRYPOINT and CMD if it has the makers' entry point; empty if its nodes start by the start script.
    variables: the names of the environment variables that the image itself sets.
    java: version and vendor of its Java; None = not known.
    """

    reference: str
    id: str
    layout: Layout
    entry: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    java: str | None = None

    @property
    def spec(self) -> str:
        """The image as the user names it."""
        return f"image:{self.reference}"

    @property
    def way(self) -> str:
        """How its nodes start, for messages."""
        return "by its entry point" if self.entry else "by its start scripts"


class Files(Protocol):
    """The file system of an image."""

    def archive(self, path: str, target: Path) -> bool:
        """Writes a tar archive of a file or a folder to `target`; False when the image has nothing at that path."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """The Kafka in an image. `jars` are paths inside it; has_run: the makers' entry point is there."""

    layout: Layout
    version: str
    commit: str
    jars: tuple[Path, ...]
    has_run: bool


def find_kafka(files: Files, spec: str, scratch: Path) -> Found:
    """The Kafka in an image. BadInput when there is none, or an incomplete one."""
    jars = scratch / "jars.tar"
    for layout in LAYOUTS:
        if files.archive(layout.jars, jars):
            return _found(layout, files, spec, jars)
    places = " nor ".join(f"{layout.jars} ({layout.makers})" for layout in LAYOUTS)
    raise BadInput(f"{spec} holds no Kafka that can be run: it has neither {places}; give an image with one of them")


def java_in(files: Files, home: str, scratch: Path) -> str | None:
    """Version and vendor of the Java in a folder of an image, by its `release` file; None without such a file."""
    packed = scratch / "release.tar"
    if not files.archive(f"{home}/release", packed):
        return None
    try:
        with tarfile.open(packed) as archive:
            found = (archive.extractfile(member) for member in archive if member.isfile())
            content = next((file.read(_RELEASE_FILE_MAX) for file in found if file is not None), b"")
    except tarfile.TarError:
        return None
    return version_in(content.decode("utf-8", "replace"))


def _found(layout: Layout, files: Files, spec: str, jars: Path) -> Found:
    where = f"{spec} in {layout.jars}"
    try:
        with tarfile.open(jars) as archive:
            members = {PurePosixPath(member.name).name: member for member in archive if not member.isdir()}
            names = sorted(name for name in members if is_runtime_jar(name))
            check_complete(names, where)
            clients = next(name for name in names if is_clients(name))
            content = archive.extractfile(members[clients])
            if content is None:
                raise BadInput(f"{where}: {clients} is not a file: pull or build the image again")
            version, commit = read_identity(content, f"{where}: {clients}")
    except (tarfile.TarError, KeyError) as error:
        raise BadInput(f"{where} cannot be read ({error}): pull or build the image again") from error
    _check_scripts(layout, files, spec, jars.parent)
    has_run = not _missing([layout.run], files, jars.parent)
    return Found(layout, version, commit, tuple(Path(layout.jars) / name for name in names), has_run)


def _check_scripts(layout: Layout, files: Files, spec: str, scratch: Path) -> None:
    missing = _missing([layout.start, layout.storage], files, scratch)
    if missing:
        raise BadInput(
            f"{spec} has its jars where {layout.makers} has them but lacks {' and '.join(missing)}, which start its "
            "Kafka: build it from an unchanged base image"
        )


def _missing(paths: Sequence[str], files: Files, scratch: Path) -> list[str]:
    return [path for path in paths if not files.archive(path, scratch / "script.tar")]
