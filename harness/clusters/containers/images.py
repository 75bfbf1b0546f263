"""The images of the container backend: one with a JRE for the nodes, and a small one for toxiproxy.

Kafka itself is mounted, so one JRE image serves every release. It is a public image if a registry answers. Otherwise it
is made from files of this machine: a JRE, `sh`, and the shared libraries that they need. The image for toxiproxy, with
`sh` and `ip`, is always made that way. The name of an image that was made contains a digest of its files, by which it
is found again.
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
from typing import TYPE_CHECKING, Final

from harness.clusters.containers.broker_images import OWN_JAVA_HOME, java_of
from harness.clusters.containers.engine import asking, image_of, pull
from harness.kafka.release.cache import Cache
from harness.kafka.release.image_layout import BrokerImage
from harness.kafka.release.java import bundled_java, find_java
from harness.model.errors import BadInput, HarnessFailure

if TYPE_CHECKING:
    from docker import DockerClient

# With glibc: the native libraries of Kafka's codecs need it.
PUBLIC: Final = "eclipse-temurin:21-jre"
_NODE: Final = "kafka-durability-jre"
_PROXY: Final = "kafka-durability-proxy"
_TOOLS: Final = {"sh": "bin/sh", "ip": "sbin/ip"}
_HOME: Final = OWN_JAVA_HOME.lstrip("/")
_PATH: Final = f"/{_HOME}/bin:/bin:/sbin"
_ETC: Final = {
    "etc/passwd": "root:x:0:0:root:/:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "hosts: files\n",
}

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Images:
    """The images that the engine has now.

    `node` runs the nodes, `java` is the executable in it, and `digest` differs for every image. `java` is empty for an
    image of brokers, which chooses its Java itself. `proxy` runs toxiproxy. java_version: with the vendor;
    None = not known.
    """

    node: str
    java: str
    digest: str
    proxy: str
    java_version: str | None = None


def images(client: DockerClient, cache: Path, progress: Progress, brokers: BrokerImage | None = None) -> Images:
    """Pulls or makes the images that the engine lacks. BadInput if it cannot.

    brokers: an image of brokers, which the engine has already. It replaces the image with a JRE.
    """
    proxy = _made(client, _PROXY, _tools(*_TOOLS), Cache(cache), progress)
    if brokers:
        return Images(brokers.id, "", brokers.id, proxy)
    name, java = PUBLIC, "java"
    if not image_of(client, PUBLIC):
        parts = _jre() | _tools("sh")
        if image_of(client, _name(_NODE, parts)) or not _pulled(client, progress):
            name, java = _made(client, _NODE, parts, Cache(cache), progress), f"/{_HOME}/bin/java"
    taken = image_of(client, name)
    if taken is None:
        raise HarnessFailure(f"the container engine has just stored the image {name} and now does not find it")
    return Images(name, java, str(taken.id), proxy, java_of(client, taken, cache))


def _made(client: DockerClient, repository: str, parts: dict[str, Path], cache: Cache, progress: Progress) -> str:
    name = _name(repository, parts)
    with cache.locked(name.replace(":", "-"), progress):
        if not image_of(client, name):
            progress(f"making the image {repository} from files of this machine (once)")
            _import(client, name, parts, cache)
    return name


def _pulled(client: DockerClient, progress: Progress) -> bool:
    """Whether a registry had the public image."""
    progress(f"pulling {PUBLIC}")
    return not pull(client, PUBLIC)


def _jre() -> dict[str, Path]:
    """By path in the image: the files of this machine's JRE, and the libraries that they need."""
    java = bundled_java()
    home = java.resolve().parent.parent if java else find_java("4.0.0").home
    found = {f"{_HOME}/{path.relative_to(home)}": path.resolve() for path in sorted(home.rglob("*")) if path.is_file()}
    binaries = [path for path in found.values() if path.suffix == ".so" or path.parent.name == "bin"]
    return found | _libraries(binaries, home)


def _tools(*names: str) -> dict[str, Path]:
    """By path in the image: programs of this machine, and the libraries that they need."""
    found: dict[str, Path] = {}
    for name in names:
        tool = shutil.which(name, path="/bin:/sbin:/usr/bin:/usr/sbin")
        if tool is None:
            raise BadInput(
                f"an image for containers needs the program {name}, which this machine lacks: install it, or use "
                "--backend processes"
            )
        found[_TOOLS[name]] = Path(tool).resolve()
    return found | _libraries(found.values(), Path("/nowhere"))


def _libraries(binaries: Iterable[Path], home: Path) -> dict[str, Path]:
    """By path in the image: the shared libraries outside of `home` that the binaries need, and the loader."""
    needed: set[Path] = set()
    for binary in binaries:
        listed = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
        needed.update(Path(path) for path in re.findall(r"(/\S+) \(0x", listed))
    return {str(path).lstrip("/"): path.resolve() for path in needed if not path.is_relative_to(home)}


def _name(repository: str, parts: dict[str, Path]) -> str:
    digest = hashlib.sha256()
    for place, path in sorted(parts.items()):
        status = path.stat()
        digest.update(f"{place}\0{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return f"{repository}:{digest.hexdigest()[:16]}"


def _import(client: DockerClient, name: str, parts: dict[str, Path], cache: Cache) -> None:
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
                tar.add(scratch / "text", place, filter=_owned_by_root)
            for place, path in parts.items():
                tar.add(path, place, filter=_owned_by_root)
        changes = [f"ENV PATH={_PATH}", f"LABEL kafka-durability.image={tag}"]
        with asking("import an image"):
            client.api.import_image_from_file(str(archive), repository=repository, tag=tag, changes=changes)


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry
