"""A Kafka build on this machine: a folder with `libs/`, or the tarball that `./gradlew releaseTarGz` makes.

Only regular files `libs/*.jar` are extracted from a tarball, under their base names, so no entry can write anywhere
else. They are stored in the cache under their own checksums.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from harness.kafka.release.cache import Cache, Digest
from harness.kafka.release.maven import Jar
from harness.model.errors import BadInput

_PROPERTIES = "kafka/kafka-version.properties"
# bin/kafka-run-class.sh excludes the same files from a broker's classpath.
_NOT_RUN = re.compile(r"-(test|test-sources|tests|src|sources|scaladoc|javadoc)\.jar$")
_NEEDED = ("kafka_2.", "kafka-clients", "kafka-server-common", "kafka-tools")


def find_build(directory: Path) -> Path:
    """The `libs` folder of `directory`, or the one Kafka tarball in it. BadInput when it holds neither."""
    libs = directory / "libs"
    if libs.is_dir():
        return libs
    # Gradle also makes a tarball of the site documentation, which has no jars.
    found = sorted(path for path in directory.glob("kafka_*.tgz") if not path.name.endswith("-site-docs.tgz"))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(path.name for path in found)
        raise BadInput(f"{directory} holds {len(found)} Kafka tarballs ({names}): name the one to judge")
    near = [directory / build for build in ("core/build/distributions", "build/distributions")]
    near += [path.parent for path in sorted(directory.glob("*/libs"))]
    if directory.absolute().name == "libs" and any(is_clients(path.name) for path in directory.iterdir()):
        near.append(directory.absolute().parent)
    hints = [f"did you mean {path}?" for path in near if path.is_dir()]
    hint = hints[0] if hints else "in a Kafka checkout ./gradlew releaseTarGz makes one"
    raise BadInput(f"{directory} holds neither libs/ nor a kafka_*.tgz: {hint}")


def classpath_of(libs: Path) -> tuple[Path, ...]:
    """The jars of `libs` in the order of their names, as in Kafka's own scripts. BadInput or OSError without them."""
    # iterdir() and open() raise an error for unreadable files; glob() and is_zipfile() would take them for missing or
    # damaged.
    jars = tuple(sorted(path.absolute() for path in libs.iterdir() if is_runtime_jar(path.name)))
    check_complete([path.name for path in jars], str(libs))
    for jar in jars:
        if not jar.is_file() or not _is_archive(jar):
            raise BadInput(f"{jar} is not a jar, or is damaged: build or copy it again")
    return jars


def _is_archive(jar: Path) -> bool:
    with jar.open("rb") as content:
        return zipfile.is_zipfile(content)


def unpack(tarball: Path, cache: Cache) -> list[Jar]:
    """Stores the jars of a tarball. BadInput when it is damaged or is not a Kafka distribution."""
    try:
        with cache.scratch() as scratch:
            names = _extract(tarball, scratch, cache)
            check_complete(names, str(tarball))
            return [_stored(scratch / name, tarball, cache) for name in names]
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{tarball} is not a .tgz, or is damaged ({error}): build or copy it again") from error


def _extract(tarball: Path, folder: Path, cache: Cache) -> list[str]:
    names: set[str] = set()
    with gzip.open(tarball) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if not member.isfile() or path.parent.name != "libs" or not is_runtime_jar(path.name):
                continue
            content = archive.extractfile(member)
            assert content is not None  # isfile()
            data = content.read()
            with cache.writing():
                (folder / path.name).write_bytes(data)
            names.add(path.name)
        while stream.read(1 << 20):
            pass  # gzip verifies its checksum at the very end, which tarfile does not read
    return sorted(names)


def identity(classpath: Sequence[Path], tarball: Path | None = None) -> tuple[str, str]:
    """(version, commit) that the build wrote into kafka-clients. BadInput without a version.

    A missing commit is "unknown". `tarball` is the one that the jars came from, if any: the message names it, because
    the user does not know their paths in the cache.
    """
    clients = next((path for path in classpath if is_clients(path.name)), None)
    if clients is None:
        raise BadInput("there is no kafka-clients jar among the release's jars: is this a Kafka release?")
    return read_identity(clients, f"{clients.name} in {tarball}" if tarball else str(clients))


def read_identity(clients: Path | IO[bytes], name: str) -> tuple[str, str]:
    """(version, commit) in a kafka-clients jar, as `identity` says. BadInput calls the jar `name`."""
    try:
        with zipfile.ZipFile(clients) as jar:
            text = jar.read(_PROPERTIES).decode()
    except (zipfile.BadZipFile, zlib.error, KeyError, OSError, EOFError, ValueError, RuntimeError) as error:
        raise BadInput(f"{name} is damaged or is not a build of Kafka: {_PROPERTIES} cannot be read from it") from error
    values = dict(line.strip().split("=", 1) for line in text.splitlines() if "=" in line)
    version = values.get("version", "")
    if not re.fullmatch(r"\d+\.\d+[\w.+-]*", version):  # it also becomes part of a folder's name
        raise BadInput(f"{name} does not say which version it is ({_PROPERTIES} holds version={version!r})")
    return version, values.get("commitId", "unknown")


def is_runtime_jar(name: str) -> bool:
    """Whether a file of this name is a jar that Kafka runs with: it holds no tests, sources or documentation."""
    return name.endswith(".jar") and not _NOT_RUN.search(name)


def is_clients(name: str) -> bool:
    """Whether this is the jar that names the version and commit of the build."""
    return _is(name, "kafka-clients")


def check_complete(names: Sequence[str], where: str) -> None:
    """BadInput, which names the jars that are missing or there twice."""
    if not names:
        raise BadInput(f"{where} holds no jars: is it a source release? ./gradlew releaseTarGz makes one that runs")
    for needed in _NEEDED:
        found = [name for name in names if _is(name, needed)]
        if not found:
            raise BadInput(
                f"{where} holds no {needed.rstrip('.2_') or needed} jar ({needed}*.jar): the build is incomplete"
            )
        if len(found) > 1:
            raise BadInput(f"{where} holds {' and '.join(found)}: remove those that are not to be judged")


def _is(name: str, artifact: str) -> bool:
    """`kafka_2.` stands for any Scala version that the core was built with."""
    return bool(re.match(rf"{re.escape(artifact)}(\d+)?-\d.*\.jar$", name))


def _stored(written: Path, tarball: Path, cache: Cache) -> Jar:
    name, digest = written.name, Digest.of_file(written)
    if cache.find(digest, name) is None:
        cache.adopt(written, digest, name)
    return Jar(name, "", f"{tarball.absolute().as_uri()}!/libs/{name}", digest)
