"""Java of ours, compiled once against what a release has: remote storages (KIP-405), and what drives its clients.

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
_LEAVE_TIERS: Final = "scenarios away whose tier is of ours (local, s3, tier_faults)"
_TIMEOUT_S: Final = 120.0


def compiled(
    source: Path,
    release: Release,
    uses: Sequence[Path] = (),
    *,
    beside: Sequence[Path] = (),
    api: Sequence[str] = API,
    leave: str = _LEAVE_TIERS,
    maven_repo: str | None,
    cache: Path,
    progress: Progress,
) -> Path:
    """The jar of a class and of those `beside` it, made against artifacts `api` of the release and the jars it `uses`.

    BadInput where it cannot be compiled, or what that takes cannot be had: `leave` says what can be done without it.
    """
    files, sources = Cache(cache), (source, *beside)
    try:
        jars = (*_api(release, api, maven_repo, files, progress), *uses)
        key = _key(sources, jars)
        with files.locked(key, progress):
            return _known(files, key) or _made(sources, release, jars, key, maven_repo, files, progress)
    except (NotPublished, Unreachable, _Failed) as error:
        raise BadInput(_refusal(source, release, str(error), leave)) from error


class _Failed(Exception):  # noqa: N818 - said of the compiler, and caught right here
    """The compiler did not do it, in a few words."""


def _api(
    release: Release, api: Sequence[str], maven_repo: str | None, files: Cache, progress: Progress
) -> tuple[Path, ...]:
    """Jars of the interface; those of an image lie within it, and the published ones have the same."""
    names = {f"{artifact}-{release.version}.jar" for artifact in api}
    here = tuple(path for path in release.classpath if path.name in names)
    if release.image is None and len(here) == len(names):
        return here
    wanted = [Dependency(KAFKA_GROUP, artifact, release.version) for artifact in api]
    name = "storage-api" if tuple(api) == API else "-".join(api)
    return fetched(wanted, f"{name}-{release.version}", maven_repo, files, progress)


def _key(sources: Sequence[Path], jars: Iterable[Path]) -> str:
    contents = (source.read_bytes() for source in sources)
    parts = [COMPILER.version.encode(), *contents, *(str(Digest.of_file(jar)).encode() for jar in jars)]
    return f"{sources[0].stem}-{hashlib.sha256(b'/'.join(parts)).hexdigest()[:16]}"


def _known(files: Cache, key: str) -> Path | None:
    record = files.read_record(key) or {}
    try:
        return files.find(Digest.parse(record["digest"]), _JAR)
    except (KeyError, TypeError, AttributeError, ValueError):  # not as we write it: made anew
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
    (compiler,) = fetched([COMPILER], f"ecj-{COMPILER.version}", maven_repo, files, progress)
    java = find_java(release.version).executable
    with files.scratch() as scratch:
        flags = ["-XX:TieredStopAtLevel=1", "-jar", str(compiler), "-17", "-nowarn", "-proc:none"]
        command = [str(java), *flags, "-cp", ":".join(map(str, jars)), "-d", str(scratch), *map(str, sources)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise _Failed(f"the compiler took more than {_TIMEOUT_S:g} s") from error
        if done.returncode != 0:
            raise _Failed(" ".join((done.stderr or done.stdout).split())[-300:])
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


def _refusal(source: Path, release: Release, why: str, leave: str) -> str:
    needed = f"{source.name} has to be compiled for Kafka {release.version}, which failed ({why})"
    return f"{needed}: mend that, or leave {leave}"
