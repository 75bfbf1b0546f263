"""Compiles the harness's Java classes against a release: remote storages (KIP-405), and drivers of its clients.

The classes are compiled here and not shipped as a jar, because the interfaces belong to the release: an incompatible
change shows before a broker starts. Eclipse's compiler needs only a JRE, such as the one that this harness installs.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from harness.kafka.release.cache import Cache, Digest, Progress
from harness.kafka.release.java import find_java
from harness.kafka.release.maven import KAFKA_GROUP
from harness.kafka.release.pom import Dependency
from harness.kafka.release.published import fetched
from harness.kafka.release.release import Release
from harness.kafka.release.repository import NotPublished, Unreachable
from harness.model.errors import BadInput

SOURCES: Final = Path(__file__).parents[1] / "java"
COMPILER: Final = Dependency("org.eclipse.jdt", "ecj", "3.42.0")
API: Final = ("kafka-storage-api", "kafka-clients")
_JAR: Final = "storage.jar"
_LEAVE_TIERS: Final = 'scenarios with tier = "local", tier = "s3" or tier_faults'
_TIMEOUT_S: Final = 120.0


def compiled(
    source: Path,
    release: Release,
    uses: Sequence[Path] = (),
    *,
    also: Sequence[Path] = (),
    api: Sequence[str] = API,
    leave: str = _LEAVE_TIERS,
    maven_repo: str | None,
    cache: Path,
    progress: Progress,
) -> Path:
    """The jar of a Java class and of the classes `also` next to it.

    They are compiled against the artifacts `api` of the release and the jars `uses`. BadInput when they cannot be
    compiled, or when a jar for that cannot be downloaded; it advises to leave out the scenarios that `leave` names.
    """
    files, sources = Cache(cache), (source, *also)
    try:
        jars = (*_api(release, api, maven_repo, files, progress), *uses)
        key = _key(sources, jars)
        with files.locked(key, progress):
            return _known(files, key) or _made(sources, release, jars, key, maven_repo, files, progress)
    except (NotPublished, Unreachable, _CompilerError) as error:
        raise BadInput(_refusal(source, release, str(error), leave)) from error


class _CompilerError(Exception):
    """The end of the compiler's output, or why it did not end."""


def _api(
    release: Release, api: Sequence[str], maven_repo: str | None, files: Cache, progress: Progress
) -> tuple[Path, ...]:
    """The jars of the interface. Those of an image are not files here; the published ones of its version serve."""
    names = {f"{artifact}-{release.version}.jar" for artifact in api}
    here = tuple(path for path in release.classpath if path.name in names)
    if release.image is None and len(here) == len(names):
        return here
    wanted = [Dependency(KAFKA_GROUP, artifact, release.version) for artifact in api]
    name = "storage-api" if tuple(api) == API else "-".join(api)
    return fetched(wanted, f"{name}-{release.version}", maven_repo, files, progress, f"{name} {release.version}")


def _key(sources: Sequence[Path], jars: Iterable[Path]) -> str:
    contents = (source.read_bytes() for source in sources)
    parts = [COMPILER.version.encode(), *contents, *(str(Digest.of_file(jar)).encode() for jar in jars)]
    return f"{sources[0].stem}-{hashlib.sha256(b'/'.join(parts)).hexdigest()[:16]}"


def _known(files: Cache, key: str) -> Path | None:
    record = files.read_record(key) or {}
    try:
        return files.find(Digest.parse(str(record["digest"])), _JAR)
    except (KeyError, TypeError, AttributeError, ValueError):  # another format: it is compiled again
        return None


def _made(
    sources: Sequence[Path],
    release: Release,
    jars: Sequence[Path],
    key: str,
    maven_repo: str | None,
    files: Cache,
    progress: Progress,
) -> Path:
    name = f"Eclipse's compiler {COMPILER.version}"
    (compiler,) = fetched([COMPILER], f"ecj-{COMPILER.version}", maven_repo, files, progress, name)
    java = find_java(release.version).executable
    progress(f"compiling {sources[0].name} for Kafka {release.version}")
    with files.scratch() as scratch:
        flags = ["-XX:TieredStopAtLevel=1", "-jar", str(compiler), "-17", "-nowarn", "-proc:none"]
        command = [str(java), *flags, "-cp", ":".join(map(str, jars)), "-d", str(scratch), *map(str, sources)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise _CompilerError(f"the compiler took more than {_TIMEOUT_S:g} s") from error
        if done.returncode != 0:
            raise _CompilerError(" ".join((done.stderr or done.stdout).split())[-300:])
        content = _jar(scratch)
    digest = Digest.of(content)
    path = files.put(content, digest, _JAR)
    files.write_record(key, {"digest": str(digest)})
    return path


def _jar(folder: Path) -> bytes:
    """A jar of the classes in a folder, with the same bytes for the same classes."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as jar:
        for path in sorted(folder.rglob("*.class")):
            jar.writestr(zipfile.ZipInfo(str(path.relative_to(folder))), path.read_bytes())
    return held.getvalue()


def _refusal(source: Path, release: Release, why: str, leave: str) -> str:
    failed = f"{source.name} could not be compiled for Kafka {release.version} ({why})"
    return f"{failed}: fix that, or leave out {leave}"
