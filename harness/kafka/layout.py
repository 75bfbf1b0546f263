"""Where an image of brokers keeps its Kafka, and which Kafka that is: what its makers ship, told by what lies where."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from harness.kafka.tarball import check_complete, is_clients, is_run, said_by
from harness.model.errors import BadInput


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to lay Kafka out: the folder of its jars, and the scripts that start a node and format storage."""

    makers: str
    jars: str
    start: str
    storage: str


LAYOUTS: Final = (
    Layout(
        "apache/kafka", "/opt/kafka/libs", "/opt/kafka/bin/kafka-server-start.sh", "/opt/kafka/bin/kafka-storage.sh"
    ),
    Layout("confluentinc/cp-kafka", "/usr/share/java/kafka", "/usr/bin/kafka-server-start", "/usr/bin/kafka-storage"),
)


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """An image that an engine has. `id` is of its content, so that a tag that moves is another image."""

    reference: str
    id: str
    layout: Layout

    @property
    def spec(self) -> str:
        """What its user wrote."""
        return f"image:{self.reference}"


class Files(Protocol):
    """The file system of an image."""

    def archive(self, path: str, target: Path) -> bool:
        """Writes a tar of a file or a folder; False when there is nothing under that path."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """What an image holds. `jars` are paths inside it."""

    layout: Layout
    version: str
    commit: str
    jars: tuple[Path, ...]


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
    return Found(layout, version, commit, tuple(Path(layout.jars) / name for name in names))


def _check_scripts(layout: Layout, files: Files, spec: str, scratch: Path) -> None:
    missing = _missing([layout.start, layout.storage], files, scratch)
    if missing:
        raise BadInput(
            f"{spec} has jars as {layout.makers} has them and lacks {' and '.join(missing)}, by which its Kafka starts"
        )


def _missing(paths: Sequence[str], files: Files, scratch: Path) -> list[str]:
    return [path for path in paths if not files.archive(path, scratch / "script.tar")]
