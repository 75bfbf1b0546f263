"""The image that nodes run on: a JRE with a shell and `ip`. Kafka itself is mounted, so one image serves every release.

A public image where a registry answers; where none does, one made of what this machine has: a JRE, `sh`, `ip` and the
shared libraries that they name. It is made once and found again by what went into it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.clusters.engine import asking
from harness.kafka.cache import Cache
from harness.kafka.java import bundled_java, find_java
from harness.model.errors import BadInput, HarnessFailure

PUBLIC: Final = "eclipse-temurin:21-jre-alpine"
_REPOSITORY: Final = "kafka-durability-jre"
_HOME: Final = "opt/java"
_PATH: Final = f"/{_HOME}/bin:/bin:/sbin"
_ETC: Final = {
    "etc/passwd": "root:x:0:0:root:/:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "hosts: files\n",
}

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BaseImage:
    """An image that the engine has, and where its Java is."""

    name: str
    java: str
    digest: str


def base_image(client: Any, cache: Path, progress: Progress) -> BaseImage:
    """The image, pulled or made when it is not there yet. BadInput when it can be neither."""
    if found := _found(client, PUBLIC, "java"):
        return found
    parts = _parts()
    name, java = f"{_REPOSITORY}:{_key(parts)}", f"/{_HOME}/bin/java"
    if found := _found(client, name, java):
        return found
    if _pulled(client, progress) and (found := _found(client, PUBLIC, "java")):
        return found
    with Cache(cache).locked(name.replace(":", "-"), progress):
        if not _found(client, name, java):
            progress(f"{PUBLIC} cannot be had here: making an image of this machine's own JRE (once)")
            _make(client, name, parts, Cache(cache))
    made = _found(client, name, java)
    if made is None:
        raise HarnessFailure(f"the container engine does not know the image {name} that it has just taken")
    return made


def _found(client: Any, name: str, java: str) -> BaseImage | None:
    from docker.errors import ImageNotFound

    with asking(f"look for the image {name}"):
        try:
            return BaseImage(name, java, client.images.get(name).id)
        except ImageNotFound:
            return None


def _pulled(client: Any, progress: Progress) -> bool:
    """Whether a registry gave the public image; one that cannot be reached says so at once."""
    from docker.errors import APIError
    from requests import RequestException

    progress(f"pulling {PUBLIC}")
    try:
        client.images.pull(PUBLIC)
    except (APIError, RequestException):
        return False
    return True


def _parts() -> dict[str, Path]:
    """Where files of this machine stand in the image: the JRE, the tools, and what they are linked against."""
    java = bundled_java()
    home = java.resolve().parent.parent if java else find_java("4.0.0").home
    found = {f"{_HOME}/{path.relative_to(home)}": path.resolve() for path in sorted(home.rglob("*")) if path.is_file()}
    binaries = [path for path in found.values() if path.suffix == ".so" or path.parent.name == "bin"]
    for name, place in {"sh": "bin/sh", "ip": "sbin/ip"}.items():
        tool = shutil.which(name, path="/bin:/sbin:/usr/bin:/usr/sbin")
        if tool is None:
            raise BadInput(f"an image for the nodes can be neither pulled nor made: this machine has no {name}")
        found[place] = Path(tool).resolve()
        binaries.append(found[place])
    return found | {str(path).lstrip("/"): path.resolve() for path in _libraries(binaries, home)}


def _libraries(binaries: Iterable[Path], home: Path) -> set[Path]:
    """Shared libraries by the paths under which they are looked for, and the loader itself."""
    needed: set[Path] = set()
    for binary in binaries:
        said = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
        needed.update(Path(path) for path in re.findall(r"(/\S+) \(0x", said))
    return {path for path in needed if not path.is_relative_to(home)}


def _key(parts: dict[str, Path]) -> str:
    digest = hashlib.sha256()
    for place, path in sorted(parts.items()):
        status = path.stat()
        digest.update(f"{place}\0{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _make(client: Any, name: str, parts: dict[str, Path], cache: Cache) -> None:
    repository, _, tag = name.partition(":")
    with cache.scratch() as scratch:
        archive = scratch / "image.tar"
        with tarfile.open(archive, "w") as tar:
            for folder, mode in {"tmp": 0o1777, "proc": 0o755, "sys": 0o755, "dev": 0o755}.items():
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode = tarfile.DIRTYPE, mode
                tar.addfile(entry)
            for place, text in _ETC.items():
                (scratch / "text").write_text(text, "utf-8")
                tar.add(scratch / "text", place, filter=_of_root)
            for place, path in parts.items():
                tar.add(path, place, filter=_of_root)
        changes = [f"ENV PATH={_PATH}", f"LABEL kafka-durability.image={tag}"]
        with asking("import an image"):
            client.api.import_image_from_file(str(archive), repository=repository, tag=tag, changes=changes)


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry
