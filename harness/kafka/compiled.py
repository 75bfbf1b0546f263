"""Remote storages of ours, one Java class each, compiled once against the interface of a release (KIP-405).

Compiled here, not shipped: the interface belongs to the release, and a difference shows before a broker starts.
Eclipse's compiler does that on a plain JRE, such as the one that this harness brings along.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from harness.kafka.cache import Cache, Digest, Progress
from harness.kafka.java import find_java
from harness.kafka.maven import KAFKA_GROUP
from harness.kafka.pom import Dependency
from harness.kafka.published import fetched
from harness.kafka.release import Release
from harness.kafka.repository import NotPublished, Unreachable
from harness.model.errors import BadInput

COMPILER: Final = Dependency("org.eclipse.jdt", "ecj", "3.42.0")
API: Final = ("kafka-storage-api", "kafka-clients")
_JAR: Final = "storage.jar"
_TIMEOUT_S: Final = 120.0


def compiled(
    source: Path,
    release: Release,
    uses: Sequence[Path] = (),
    *,
    maven_repo: str | None,
    cache: Path,
    progress: Progress,
) -> Path:
    """The jar of a class that implements the interface, by means of the jars that it `uses`.

    BadInput where it cannot be compiled, or what that takes cannot be had.
    """
    files = Cache(cache)
    try:
        jars = (*_api(release, maven_repo, files, progress), *uses)
        key = _key(source, jars)
        with files.locked(key, progress):
            return _known(files, key) or _made(source, release, jars, key, maven_repo, files, progress)
    except (NotPublished, Unreachable) as error:
        raise BadInput(_refusal(source, release, str(error))) from error


def _api(release: Release, maven_repo: str | None, files: Cache, progress: Progress) -> tuple[Path, ...]:
    """Jars of the interface; those of an image lie within it, and the published ones have the same."""
    names = {f"{artifact}-{release.version}.jar" for artifact in API}
    here = tuple(path for path in release.classpath if path.name in names)
    if release.image is None and len(here) == len(names):
        return here
    wanted = [Dependency(KAFKA_GROUP, artifact, release.version) for artifact in API]
    return fetched(wanted, f"storage-api-{release.version}", maven_repo, files, progress)


def _key(source: Path, jars: Iterable[Path]) -> str:
    parts = [COMPILER.version.encode(), source.read_bytes(), *(str(Digest.of_file(jar)).encode() for jar in jars)]
    return f"{source.stem}-{hashlib.sha256(b'/'.join(parts)).hexdigest()[:16]}"


def _known(files: Cache, key: str) -> Path | None:
    record = files.read_record(key) or {}
    try:
        return files.find(Digest.parse(record["digest"]), _JAR)
    except (KeyError, TypeError, AttributeError, ValueError):  # not as we write it: made anew
        return None


def _made(
    source: Path,
    release: Release,
    jars: Sequence[Path],
    key: str,
    maven_repo: str | None,
    files: Cache,
    progress: Progress,
) -> Path:
    (compiler,) = fetched([COMPILER], f"ecj-{COMPILER.version}", maven_repo, files, progress)
    java = find_java(release.version).executable
    with files.scratch() as scratch:
        flags = ["-XX:TieredStopAtLevel=1", "-jar", str(compiler), "-17", "-nowarn", "-proc:none"]
        command = [str(java), *flags, "-cp", ":".join(map(str, jars)), "-d", str(scratch), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise BadInput(_refusal(source, release, f"the compiler took more than {_TIMEOUT_S:g} s")) from error
        if done.returncode != 0:
            raise BadInput(_refusal(source, release, " ".join((done.stderr or done.stdout).split())[-300:]))
        content = _jar(scratch)
    digest = Digest.of(content)
    path = files.put(content, digest, _JAR)
    files.write_record(key, {"digest": str(digest)})
    return path


def _jar(folder: Path) -> bytes:
    """The same bytes for the same classes."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as jar:
        for path in sorted(folder.rglob("*.class")):
            jar.writestr(zipfile.ZipInfo(str(path.relative_to(folder))), path.read_bytes())
    return held.getvalue()


def _refusal(source: Path, release: Release, why: str) -> str:
    return (
        f"{source.name} has to be compiled for Kafka {release.version}, which failed ({why}): mend that, or leave "
        "scenarios away whose tier is of ours (tier_faults, s3)"
    )
