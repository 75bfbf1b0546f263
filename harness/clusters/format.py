"""Formatted data folders: one per release and feature levels, made once, then copied and given new names."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.clusters.base import FIRST_CONTROLLER
from harness.kafka.cache import Cache, Progress
from harness.kafka.config import Node, node_properties, properties_text
from harness.kafka.java import Java
from harness.kafka.release import Release
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scenario import ClusterShape

FORMAT_S: Final = 120.0
_META: Final = "meta.properties"
TOOL_HEAP: Final = "-Xmx256m"
TOOL_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

# Runs the release's StorageTool with arguments, in a directory that it may write to: exit code and what it said.
StorageTool = Callable[[Sequence[str], Path], tuple[int, str]]


def new_uuid() -> str:
    """A random UUID as Kafka writes it: 22 characters of URL-safe base64 that do not begin with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


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


def formatted(release: Release, shape: ClusterShape, tool: StorageTool, cache: Cache, progress: Progress) -> Path:
    """The folder to copy from. Raises BadInput when the release does not know a feature of the shape."""
    wanted = ",".join(f"{name}={level}" for name, level in sorted(shape.features.items()))
    key = f"formatted-{build_key(release)}-{hashlib.sha256(wanted.encode()).hexdigest()[:8]}"
    folder = cache.root / "tools" / key
    if folder.is_dir():
        return folder
    with cache.locked(key, progress):
        if not folder.is_dir():
            progress(f"formatting the storage of Kafka {release.version}")
            with cache.scratch() as scratch:
                _format(release, shape.features, tool, scratch)
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


def _format(release: Release, features: Mapping[str, int], tool: StorageTool, scratch: Path) -> None:
    node = Node(
        node=FIRST_CONTROLLER,
        address="127.0.0.1",
        advertised=None,
        controllers=(FIRST_CONTROLLER,),
        brokers=3,
        data=scratch / "data",
    )
    properties = scratch / "server.properties"
    properties.write_text(properties_text(node_properties(release, node)), "utf-8")
    arguments = ["format", "-t", new_uuid(), "-c", str(properties)]
    for name, level in features.items():
        arguments += ["--feature", f"{name}={level}"]
    code, text = tool(arguments, scratch)
    if code == 0:
        return
    said = [line for line in text.splitlines() if line.strip()] or ["nothing"]
    if features:
        raise BadInput(f"Kafka {release.version} cannot be formatted with the features {dict(features)}: {said[-1]}")
    raise HarnessFailure(f"Kafka {release.version} could not be formatted: {said[-1]}")


def format_node(source: Path, directories: Sequence[Path], *, node: int, cluster_id: str) -> None:
    """The log directories of `node`: all that was formatted in the first, whose metadata log it is for; in each of the
    others only its identity, as `kafka-storage format` writes it. KIP-858 gives each directory an id of its own.
    """
    first, *others = directories
    copy_formatted(source, first, node=node, cluster_id=cluster_id)
    for directory in others:
        directory.mkdir(exist_ok=True)
        shutil.copyfile(source / _META, directory / _META)
        _name(directory, node=node, cluster_id=cluster_id)


def copy_formatted(source: Path, target: Path, *, node: int, cluster_id: str) -> None:
    """A data folder of its own for `node`: same bootstrap records, new identity. `target` is empty, or not there."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    _name(target, node=node, cluster_id=cluster_id)


def _name(directory: Path, *, node: int, cluster_id: str) -> None:
    meta = directory / _META
    text = meta.read_text("utf-8")
    for key, value in {"node.id": str(node), "cluster.id": cluster_id, "directory.id": new_uuid()}.items():
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
    identity = _identity(directories)
    for directory in directories:
        for path in directory.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    format_node(source, directories, node=int(identity["node.id"]), cluster_id=identity["cluster.id"])


def _identity(directories: Sequence[Path]) -> dict[str, str]:
    """What the first of the directories says of itself."""
    meta = directories[0] / _META
    identity = dict(line.split("=", 1) for line in meta.read_text("utf-8").splitlines() if "=" in line)
    if missing := {"node.id", "cluster.id"} - identity.keys():
        raise HarnessFailure(f"{meta} has no {', '.join(sorted(missing))}")
    return identity
