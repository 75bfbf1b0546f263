"""Formatted data folders: made once for each release and its feature levels, then copied with new identities."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.clusters.base import FIRST_CONTROLLER
from harness.clusters.nodes.node_logs import last_error_of
from harness.kafka.release.cache import Cache, Progress
from harness.kafka.release.java import Java
from harness.kafka.release.release import Release
from harness.kafka.settings.node_settings import Node, controller_address, host_name, node_properties, properties_text
from harness.kafka.storage.bootstrap_records import RECORDS, add_bootstrap_records
from harness.kafka.storage.uuids import kafka_uuid, new_uuid
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scenario.scenario import DYNAMIC_VOTERS_SINCE, ClusterShape

FORMAT_S: Final = 120.0
_META: Final = "meta.properties"
TOOL_HEAP: Final = "-Xmx256m"
TOOL_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

# Runs the release's StorageTool with arguments, in a directory that it may write to. Returns exit code and output.
StorageTool = Callable[[Sequence[str], Path], tuple[int, str]]


def build_key(release: Release) -> str:
    """A key of a build, made of all files of its class path, or of its image. So a patched build has its own key."""
    digest = hashlib.sha256()
    if release.image:
        digest.update(release.image.id.encode())
        return digest.hexdigest()[:16]
    for entry in release.classpath:
        for path in sorted(entry.rglob("*")) if entry.is_dir() else [entry]:
            status = path.stat()
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ino}\n".encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Formatted:
    """The folders to copy from.

    With static voters both are the same. With dynamic voters (KIP-853) the first controllers start with the voter set
    (`beginning`); every broker, and every disk that is added or wiped later, has to learn it (`later`).
    """

    beginning: Path
    later: Path


def formatted(release: Release, shape: ClusterShape, tool: StorageTool, cache: Cache, progress: Progress) -> Formatted:
    """Formats once for each build and kind. BadInput if the release lacks a feature of the shape, or dynamic voters."""
    if shape.voters == "static":
        folder = _formatted(release, shape, (), tool, cache, progress)
        return Formatted(folder, folder)
    if release.numbers < DYNAMIC_VOTERS_SINCE:
        raise BadInput(
            f'shape: voters = "dynamic": Kafka {release.version} has only static voters (KIP-853): give a release from '
            f"{'.'.join(map(str, DYNAMIC_VOTERS_SINCE))} on, or remove voters from the shape"
        )
    voters = ",".join(
        f"{id_}@{controller_address(id_)}:{first_directory(id_)}"
        for id_ in range(FIRST_CONTROLLER, FIRST_CONTROLLER + shape.controllers)
    )
    beginning = _formatted(release, shape, ("--initial-controllers", voters), tool, cache, progress)
    return Formatted(beginning, _formatted(release, shape, ("--no-initial-controllers",), tool, cache, progress))


def first_directory(controller: int) -> str:
    """The directory id of a controller that is a voter from the start. The copied folders name it, so it is fixed."""
    return kafka_uuid(uuid.uuid5(uuid.NAMESPACE_DNS, host_name(controller)))


def _formatted(
    release: Release, shape: ClusterShape, voters: Sequence[str], tool: StorageTool, cache: Cache, progress: Progress
) -> Path:
    wanted = ",".join([*(f"{name}={level}" for name, level in sorted(shape.features.items())), *voters])
    key = f"formatted-{build_key(release)}-{hashlib.sha256(wanted.encode() + b''.join(RECORDS)).hexdigest()[:8]}"
    folder = cache.root / "tools" / key
    if folder.is_dir():
        return folder
    with cache.locked(key, progress):
        if not folder.is_dir():
            progress(f"formatting the storage of Kafka {release.version}")
            with cache.scratch() as scratch:
                _format(release, shape, voters, tool, scratch)
                (scratch / "data").replace(folder)
    return folder


def java_tool(release: Release, java: Java) -> StorageTool:
    """The storage tool of a build that has its jars on this machine."""
    command = [str(java.executable), TOOL_HEAP, *TOOL_FLAGS]
    command += ["-cp", ":".join(map(str, release.classpath)), "kafka.tools.StorageTool"]

    def run(arguments: Sequence[str], directory: Path) -> tuple[int, str]:
        try:
            done = subprocess.run(
                [*command, *arguments], capture_output=True, text=True, timeout=FORMAT_S, check=False, cwd=directory
            )
        except subprocess.TimeoutExpired as error:
            raise HarnessFailure(f"Kafka's storage tool {release.version} did not end within {FORMAT_S:g} s") from error
        return done.returncode, done.stdout + done.stderr

    return run


def _format(release: Release, shape: ClusterShape, voters: Sequence[str], tool: StorageTool, scratch: Path) -> None:
    node = Node(
        node=FIRST_CONTROLLER,
        address="127.0.0.1",
        advertised=None,
        controllers=(FIRST_CONTROLLER,),
        brokers=3,
        data=scratch / "data",
        voters=shape.voters,
    )
    properties = scratch / "server.properties"
    properties.write_text(properties_text(node_properties(release, node)), "utf-8")
    arguments = ["format", "-t", new_uuid(), "-c", str(properties), *voters]
    for name, level in shape.features.items():
        arguments += ["--feature", f"{name}={level}"]
    code, text = tool(arguments, scratch)
    if code == 0:
        add_bootstrap_records(node.data)
        return
    why = last_error_of(text.splitlines())
    if shape.features:
        raise BadInput(
            f"Kafka {release.version} cannot format storage with the features {shape.features}: {why}; "
            "change features in the shape, or take another release"
        )
    raise HarnessFailure(f"Kafka {release.version} cannot format storage: {why}")


def format_node(
    source: Path, directories: Sequence[Path], *, node: int, cluster_id: str, directory_id: str | None = None
) -> None:
    """Writes the log directories of `node`, as `kafka-storage format` does.

    The first directory, which has the metadata log, gets everything; the others get only their identity. Each directory
    has an id of its own (KIP-858). directory_id: the id of the first one, if other nodes know it already.
    """
    first, *others = directories
    copy_formatted(source, first, node=node, cluster_id=cluster_id, directory_id=directory_id)
    for directory in others:
        directory.mkdir(exist_ok=True)
        shutil.copyfile(source / _META, directory / _META)
        _set_identity(directory, node=node, cluster_id=cluster_id)


def copy_formatted(source: Path, target: Path, *, node: int, cluster_id: str, directory_id: str | None = None) -> None:
    """Makes the data folder of `node`: same bootstrap records, new identity. `target` is empty or does not exist."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    _set_identity(target, node=node, cluster_id=cluster_id, directory_id=directory_id)


def _set_identity(directory: Path, *, node: int, cluster_id: str, directory_id: str | None = None) -> None:
    meta = directory / _META
    text = meta.read_text("utf-8")
    for key, value in {
        "node.id": str(node),
        "cluster.id": cluster_id,
        "directory.id": directory_id or new_uuid(),
    }.items():
        text, found = re.subn(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", text)
        # Before 3.7 directories had no id, so that line is missing on purpose.
        if not found and key != "directory.id":
            raise HarnessFailure(f"{meta} has no line for {key}")
    with tempfile.NamedTemporaryFile("w", dir=directory, delete=False, encoding="utf-8") as file:
        file.write(text)
    Path(file.name).replace(meta)


def reformat(source: Path, directories: Sequence[Path]) -> None:
    """Replaces the log directories of a stopped node by empty, formatted ones of the same node and cluster.

    They get new directory ids, as `kafka-storage format` would give them (KIP-858): under the old ids the controllers
    would still believe that the replicas of those directories exist. The directory itself stays: it may be a mount.
    """
    identity = identity_of(directories[0])
    if missing := {"node.id", "cluster.id"} - identity.keys():
        raise HarnessFailure(f"{directories[0] / _META} has no line for {', '.join(sorted(missing))}")
    for directory in directories:
        for path in directory.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    format_node(source, directories, node=int(identity["node.id"]), cluster_id=identity["cluster.id"])


def identity_of(data: Path) -> dict[str, str]:
    """The entries of a data folder's meta.properties: node.id, cluster.id, directory.id."""
    lines = (data / _META).read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)
