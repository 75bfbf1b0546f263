"""Formatted data folders: one per release and feature levels, made once, then copied and given new names."""

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
from harness.kafka.release.cache import Cache, Progress
from harness.kafka.release.java import Java
from harness.kafka.release.release import Release
from harness.kafka.settings.node_settings import Node, controller_address, host_name, node_properties, properties_text
from harness.kafka.storage.uuids import kafka_uuid, new_uuid
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scenario.scenario import DYNAMIC_VOTERS_SINCE, ClusterShape

FORMAT_S: Final = 120.0
_META: Final = "meta.properties"
TOOL_HEAP: Final = "-Xmx256m"
TOOL_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

# Runs the release's StorageTool with arguments, in a directory that it may write to: exit code and what it said.
StorageTool = Callable[[Sequence[str], Path], tuple[int, str]]


def build_key(release: Release) -> str:
    """Changes when any file of the classpath, or the image, does: patched, it is another build, whatever it claims."""
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

    With static voters they are one. With dynamic ones the controllers of the beginning know the voters, each other node
    and each disk that comes later has to learn them (KIP-853).
    """

    beginning: Path
    later: Path


def formatted(release: Release, shape: ClusterShape, tool: StorageTool, cache: Cache, progress: Progress) -> Formatted:
    """Formats once per build and kind. BadInput when the release does not know a feature of the shape, or voters."""
    if shape.voters == "static":
        folder = _formatted(release, shape, (), tool, cache, progress)
        return Formatted(folder, folder)
    if release.numbers < DYNAMIC_VOTERS_SINCE:
        raise BadInput(
            f'shape: voters = "dynamic": Kafka {release.version} knows no voters that change (KIP-853); take a release '
            f"from {'.'.join(map(str, DYNAMIC_VOTERS_SINCE))} on, or leave it away"
        )
    voters = ",".join(
        f"{id_}@{controller_address(id_)}:{first_directory(id_)}"
        for id_ in range(FIRST_CONTROLLER, FIRST_CONTROLLER + shape.controllers)
    )
    beginning = _formatted(release, shape, ("--initial-controllers", voters), tool, cache, progress)
    return Formatted(beginning, _formatted(release, shape, ("--no-initial-controllers",), tool, cache, progress))


def first_directory(controller: int) -> str:
    """The directory id of a controller that votes from the beginning: what is formatted names it, and is copied."""
    return kafka_uuid(uuid.uuid5(uuid.NAMESPACE_DNS, host_name(controller)))


def _formatted(
    release: Release, shape: ClusterShape, voters: Sequence[str], tool: StorageTool, cache: Cache, progress: Progress
) -> Path:
    wanted = ",".join([*(f"{name}={level}" for name, level in sorted(shape.features.items())), *voters])
    key = f"formatted-{build_key(release)}-{hashlib.sha256(wanted.encode()).hexdigest()[:8]}"
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
    """The tool of a build whose jars lie on this machine."""
    command = [str(java.executable), TOOL_HEAP, *TOOL_FLAGS]
    command += ["-cp", ":".join(map(str, release.classpath)), "kafka.tools.StorageTool"]

    def run(arguments: Sequence[str], directory: Path) -> tuple[int, str]:
        try:
            done = subprocess.run(
                [*command, *arguments], capture_output=True, text=True, timeout=FORMAT_S, check=False, cwd=directory
            )
        except subprocess.TimeoutExpired as error:
            raise HarnessFailure(f"formatting Kafka {release.version} was not done after {FORMAT_S:g} s") from error
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
        return
    said = [line for line in text.splitlines() if line.strip()] or ["nothing"]
    if shape.features:
        raise BadInput(f"Kafka {release.version} cannot be formatted with the features {shape.features}: {said[-1]}")
    raise HarnessFailure(f"Kafka {release.version} could not be formatted: {said[-1]}")


def format_node(
    source: Path, directories: Sequence[Path], *, node: int, cluster_id: str, directory_id: str | None = None
) -> None:
    """The log directories of `node`: all that was formatted in the first, whose metadata log it is for; in each of the
    others only its identity, as `kafka-storage format` writes it. KIP-858 gives each directory an id of its own.

    directory_id: of the first, where others know it already.
    """
    first, *others = directories
    copy_formatted(source, first, node=node, cluster_id=cluster_id, directory_id=directory_id)
    for directory in others:
        directory.mkdir(exist_ok=True)
        shutil.copyfile(source / _META, directory / _META)
        _name(directory, node=node, cluster_id=cluster_id)


def copy_formatted(source: Path, target: Path, *, node: int, cluster_id: str, directory_id: str | None = None) -> None:
    """A data folder of its own for `node`: same bootstrap records, new identity. `target` is empty, or not there."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    _name(target, node=node, cluster_id=cluster_id, directory_id=directory_id)


def _name(directory: Path, *, node: int, cluster_id: str, directory_id: str | None = None) -> None:
    meta = directory / _META
    text = meta.read_text("utf-8")
    for key, value in {
        "node.id": str(node),
        "cluster.id": cluster_id,
        "directory.id": directory_id or new_uuid(),
    }.items():
        text, found = re.subn(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", text)
        # Before 3.7 directories had no id; that line is then not there and not wanted.
        if not found and key != "directory.id":
            raise HarnessFailure(f"{meta} has no {key}")
    with tempfile.NamedTemporaryFile("w", dir=directory, delete=False, encoding="utf-8") as file:
        file.write(text)
    Path(file.name).replace(meta)


def format_anew(source: Path, directories: Sequence[Path]) -> None:
    """Empty disks in the place of the log directories of a node that does not run, for the same node and cluster.

    They get directory ids of their own, as `kafka-storage format` would give them (KIP-858): under the old ids the
    controllers would go on believing that the replicas which they have assigned to those directories are there.
    A directory itself stays, for it may be a mount.
    """
    identity = identity_of(directories[0])
    if missing := {"node.id", "cluster.id"} - identity.keys():
        raise HarnessFailure(f"{directories[0] / _META} has no {', '.join(sorted(missing))}")
    for directory in directories:
        for path in directory.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    format_node(source, directories, node=int(identity["node.id"]), cluster_id=identity["cluster.id"])


def identity_of(data: Path) -> dict[str, str]:
    """What meta.properties of a data folder says: node.id, cluster.id, directory.id."""
    lines = (data / _META).read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)
