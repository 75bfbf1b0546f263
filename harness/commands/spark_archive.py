"""A class-data archive (JEP 310) for the Java process of Spark, so that it need not load 17,000 classes from jars.

It saves CPU time in every session. Making it costs as much as several sessions save (suites/bench/README.md), so it is
made once an installation has started Spark often enough, and after the verdict of a command was shown. A machine that
judges once, such as a CI with an empty cache, never pays for it.

It is a static archive, because the JREs of PyPI bring no base archive for a dynamic one. Java refuses an archive when
the class path, the size or time of a jar, its own build or the checksum of the archive differs, and goes on without it.
Any other problem here ends in the same way: in a session without an archive.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.commands.afterwards import afterwards
from harness.kafka.release.cache import Cache
from harness.kafka.release.class_archives import prune, usable
from harness.kafka.release.guarded_build import run_guarded
from harness.kafka.release.java import Java, java_fingerprint
from harness.model.errors import BadInput, HarnessFailure, HarnessTimeout

SESSIONS_BEFORE: Final = 4  # together they lose about what the archive costs
_KEPT: Final = 2  # archives, of 190 MB each
_FREE_BYTES: Final = 1 << 30
_DUMP_S: Final = 300.0
_MAP_S: Final = 60.0
_PREFIX: Final = "spark-classes-"
_LIST: Final = "-XX:DumpLoadedClassList="
_CHECKED: Final = "-XX:+VerifySharedSpaces"  # by its checksum: a damaged archive is refused
# They change the class path or the flags of Spark's Java process.
_SETTINGS: Final = (
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_SUBMIT_OPTS",
    "PYSPARK_SUBMIT_ARGS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
)
# A Java that refuses an archive warns on standard output, which belongs to the answers of commands.
_QUIET: Final = "-Xlog:cds*=off,class+path*=off"


@dataclass(frozen=True, slots=True)
class SparkArchive:
    """The archive of one installation of Spark on one Java.

    ended_java: ends the Java process of the session, and returns the command line that started it.
    """

    cache: Cache
    key: str
    ended_java: Callable[[], Sequence[str] | None]

    @property
    def path(self) -> Path:
        """Where the archive is. The file is empty when it could not be made, so that it is not tried each time."""
        return self.cache.root / "tools" / f"{_PREFIX}{self.key}.jsa"

    @property
    def _sessions(self) -> Path:
        """A file with one byte for each session that had to start without an archive."""
        return self.path.with_suffix(".sessions")

    def java_flags(self) -> tuple[str, ...]:
        """The flags for a session that is about to start. The session after several others lists its classes."""
        if usable(self.path):
            return ("-Xshare:auto", _CHECKED, f"-XX:SharedArchiveFile={self.path}", _QUIET)
        try:
            # To Java a colon separates two archives.
            if self.path.exists() or os.pathsep in str(self.path) or self._counted() <= SESSIONS_BEFORE:
                return ()
            return () if self._full() else self._listing()
        except (OSError, BadInput):  # a cache that cannot be written
            return ()

    def _counted(self) -> int:
        """How many sessions had to start without an archive, with this one."""
        with self._sessions.open("ab") as file:
            file.write(b".")
        return self._sessions.stat().st_size

    def _listing(self) -> tuple[str, ...]:
        """Flags that let Java list its classes. The archive is made of them after the command."""
        held = ExitStack()
        folder = held.enter_context(self.cache.scratch())
        if not afterwards(lambda: self._make(folder), release=held.close):
            held.close()
            return ()
        return (f"{_LIST}{folder / 'classes.list'}", _QUIET)

    def _full(self) -> bool:
        return shutil.disk_usage(self.path.parent).free < _FREE_BYTES

    def _make(self, folder: Path) -> None:
        with self.cache.locked_if_free(self.path.stem) as mine:
            if not mine or self.path.exists():
                return
            # However this ends, as many sessions are left alone before the next try.
            self._sessions.unlink(missing_ok=True)
            _say("preparing a faster start of Spark (once, half a minute of CPU time); Ctrl-C skips it")
            try:
                _dump(self.ended_java(), folder)
                (folder / "classes.jsa").replace(self.path)
            except HarnessFailure as failure:
                _say(f"Spark will start more slowly: {failure}")
                # A machine that was busy or full may succeed the next time.
                if not (isinstance(failure, HarnessTimeout) or self._full()):
                    self.path.touch()
        prune(self.path.parent, f"{_PREFIX}*.jsa", _KEPT)
        prune(self.path.parent, f"{_PREFIX}*.sessions", _KEPT)


def _dump(command: Sequence[str] | None, folder: Path) -> None:
    """Writes an archive of the listed classes into the folder. HarnessFailure when that is not possible."""
    if command is None:
        raise HarnessFailure("its Java process did not end, or shows no command line")
    listed, made = folder / "classes.list", folder / "classes.jsa"
    java, *arguments = [word for word in command if not word.startswith((_LIST, _QUIET))]
    lines = listed.read_bytes()
    listed.write_bytes(lines[: lines.rfind(b"\n") + 1])  # a Java that was killed leaves a part of a line
    to = f"-XX:SharedArchiveFile={made}"
    classes = [java, "-Xshare:dump", f"-XX:SharedClassListFile={listed}", to]
    dump = [*classes, *(_without_repeats(word) for word in arguments)]
    _run("write a class-data archive", dump, folder, _DUMP_S)
    # Only a Java that maps it shows that the archive can be used. Here Java ends if it cannot.
    _run("map its class-data archive", [java, "-Xshare:on", _CHECKED, to, *arguments, "-version"], folder, _MAP_S)


def _without_repeats(word: str) -> str:
    """A class path without jars that stand in it once more, in a folder: Spark has one. Other arguments stay as they
    are.

    Java 21 leaves a repeated jar out while it dumps, and not later, so it refuses the archive: another class path. In
    another spelling the jar is no repeat.
    """
    entries = word.split(os.pathsep)
    folders = [entry.removesuffix("*") for entry in entries if entry.endswith("/*")]
    for n, entry in enumerate(entries):
        folder, slash, name = entry.rpartition("/")
        if folder + slash in folders and name != "*":
            entries[n] = f"{folder}/./{name}"
    return os.pathsep.join(entries)


def _run(what: str, command: Sequence[str], folder: Path, deadline_s: float) -> None:
    code = run_guarded(command, folder=folder, output=folder / "output", env=os.environ, deadline_s=deadline_s)
    if code is None:
        raise HarnessTimeout(f"Java did not {what} in {deadline_s:g} s")
    if code:
        raise HarnessFailure(f"Java did not {what} (exit code {code})")


def spark_archive(
    java: Java, spark_home: Path, cache: Cache, flags: str, ended_java: Callable[[], Sequence[str] | None]
) -> SparkArchive:
    """flags: of Java, that each session on this machine has."""
    digest = hashlib.sha256("\0".join([java_fingerprint(java), flags, str(spark_home)]).encode())
    for name in _SETTINGS:
        digest.update(f"{name}={os.environ.get(name)}\n".encode())
    for jar in sorted((spark_home / "jars").iterdir()):
        status = jar.stat()
        digest.update(f"{jar.name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return SparkArchive(cache, digest.hexdigest()[:24], ended_java)


def _say(text: str) -> None:
    print(f"durability: {text}", file=sys.stderr, flush=True)
