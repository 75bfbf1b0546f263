"""The remote storage that does as it is told: FaultyStorage.java, compiled once against the interface of a release.

Compiled here, not shipped: the interface belongs to the release (KIP-405), and a difference shows before a broker
starts. Eclipse's compiler does that on a plain JRE, such as the one that this harness brings along.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import zipfile
from collections.abc import Iterable
from dataclasses import replace
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

SOURCE: Final = Path(__file__).with_name("FaultyStorage.java")
COMPILER: Final = Dependency("org.eclipse.jdt", "ecj", "3.42.0")
API: Final = ("kafka-storage-api", "kafka-clients")
_JAR: Final = "faulty-storage.jar"
_TIMEOUT_S: Final = 120.0


def with_faulty_storage(release: Release, *, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    """The release with that storage. BadInput where it cannot be compiled, or what that takes cannot be had."""
    if release.faulty_storage is not None:
        return release
    files = Cache(cache)
    try:
        api = _api(release, maven_repo, files, progress)
        key = _key(api)
        with files.locked(key, progress):
            jar = _known(files, key) or _made(release, api, key, maven_repo, files, progress)
    except (NotPublished, Unreachable) as error:
        raise BadInput(_refusal(release, str(error))) from error
    return replace(release, faulty_storage=jar)


def _api(release: Release, maven_repo: str | None, files: Cache, progress: Progress) -> tuple[Path, ...]:
    """Jars of the interface; those of an image lie within it, and the published ones have the same."""
    names = {f"{artifact}-{release.version}.jar" for artifact in API}
    here = tuple(path for path in release.classpath if path.name in names)
    if release.image is None and len(here) == len(names):
        return here
    wanted = [Dependency(KAFKA_GROUP, artifact, release.version) for artifact in API]
    return fetched(wanted, f"storage-api-{release.version}", maven_repo, files, progress)


def _key(api: Iterable[Path]) -> str:
    parts = [COMPILER.version.encode(), SOURCE.read_bytes(), *(str(Digest.of_file(jar)).encode() for jar in api)]
    return f"faulty-storage-{hashlib.sha256(b'/'.join(parts)).hexdigest()[:16]}"


def _known(files: Cache, key: str) -> Path | None:
    record = files.read_record(key) or {}
    try:
        return files.find(Digest.parse(record["digest"]), _JAR)
    except (KeyError, TypeError, AttributeError, ValueError):  # not as we write it: made anew
        return None


def _made(
    release: Release, api: Iterable[Path], key: str, maven_repo: str | None, files: Cache, progress: Progress
) -> Path:
    (compiler,) = fetched([COMPILER], f"ecj-{COMPILER.version}", maven_repo, files, progress)
    java = find_java(release.version).executable
    with files.scratch() as scratch:
        flags = ["-XX:TieredStopAtLevel=1", "-jar", str(compiler), "-17", "-nowarn", "-proc:none"]
        command = [str(java), *flags, "-cp", ":".join(map(str, api)), "-d", str(scratch), str(SOURCE)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise BadInput(_refusal(release, f"the compiler took more than {_TIMEOUT_S:g} s")) from error
        if done.returncode != 0:
            raise BadInput(_refusal(release, " ".join((done.stderr or done.stdout).split())[-300:]))
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


def _refusal(release: Release, why: str) -> str:
    return (
        f"tier_faults = true needs {SOURCE.name} compiled for Kafka {release.version}, which failed ({why}): mend "
        "that, or leave scenarios with tier_faults away"
    )
