"""The files of one node: its settings, its view of names, its JVM's arguments, its disk and its logs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.clusters.base import party
from harness.clusters.disks.loop_devices import OwnDisks
from harness.clusters.network.address_plan import Plan
from harness.clusters.nodes.clocks import ClockFile
from harness.clusters.nodes.launch import NOTHING, Command, Launch, Settings
from harness.clusters.nodes.security import Security
from harness.clusters.nodes.storage_format import Formatted, first_directory, format_node, identity_of
from harness.clusters.nodes.tier_folder import tier_of
from harness.clusters.processes.runner import Runner
from harness.kafka.release.release import Release
from harness.kafka.settings.node_settings import JVM_FLAGS, Advertised, Node, logging_properties, node_properties
from harness.model.scenario.scenario import ClusterShape

STARTED = b"Kafka Server started"
# What the user's shell has set for other Javas and other Kafkas must not reach these.
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TZ")


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """Where everything of a node lies, and what starts it once all is written."""

    directory: Path
    command: Command = NOTHING
    log_dirs: int = 1

    @property
    def data(self) -> Path:
        """Its first log directory, where the metadata log is."""
        return self.directory / "data"

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """In the order of its settings."""
        return (self.data, *(self.directory / f"data-{n}" for n in range(2, self.log_dirs + 1)))

    @property
    def server_log(self) -> Path:
        return self.directory / "logs" / "server.log"

    @property
    def clock(self) -> ClockFile:
        return ClockFile(self.directory / "clock")

    @property
    def console(self) -> Path:
        return self.directory / "logs" / "console.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the nodes of one cluster are made of on one release. formatted: the storage that each gets a copy of."""

    release: Release
    shape: ClusterShape
    plan: Plan
    launch: Launch
    runner: Runner
    formatted: Formatted
    directory: Path  # of the run
    disks: OwnDisks | None  # of the brokers
    host: Callable[[int], str]  # how the machine calls itself that a node runs on
    fast_start: Sequence[str] = ()  # flags of the JVM
    security: Security | None = None  # of listeners for records, where they are not plain


def write_node(node: int, site: Site, *, cluster_id: str) -> NodeFiles:
    """Makes everything that `node` needs to start."""
    log_dirs = site.shape.log_dirs if node in site.plan.brokers else 1
    files = NodeFiles(site.directory / "nodes" / party(node), log_dirs=log_dirs)
    for folder in (files.directory, files.server_log.parent, files.directory / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    first = node in site.plan.controllers
    disks = None if first else site.disks
    if disks:
        disks.make(files.log_directories)
    format_node(
        site.formatted.beginning if first else site.formatted.later,
        files.log_directories,
        node=node,
        cluster_id=cluster_id,
        directory_id=first_directory(node) if first and site.shape.voters == "dynamic" else None,
    )
    if disks:
        disks.flush(files.log_directories)  # who loses power early would be left without bootstrap.checkpoint
    return configure(node, site, files)


def configure(node: int, site: Site, files: NodeFiles) -> NodeFiles:
    """Writes what starts `node` on the release of `site`, over what was there; its disk and its log stay."""
    wanted = Node(
        node=node,
        address=site.plan.node(node),
        advertised=_advertised(node, site.plan) if node in site.plan.brokers else None,
        controllers=site.plan.controllers,
        brokers=len(site.plan.brokers),
        data=files.data,
        more_data=files.log_directories[1:],
        voters=site.shape.voters,
        tier=tier_of(site.directory, site.shape, site.release, site.plan.s3_endpoint(node)),
        stores=site.security.stores(files.directory, node, site.plan)
        if site.security and node in site.plan.brokers
        else None,
        config=site.shape.config,
    )
    settings = Settings(
        files.directory / "server.properties",
        node_properties(site.release, wanted),
        identity_of(files.data)["cluster.id"],
    )
    settings.write()
    hosts = files.directory / "hosts"
    hosts.write_text(site.plan.hosts_file(node, site.host(node)), "utf-8")
    flags = [*_flags(site.release, files, hosts), *site.fast_start]
    command = site.launch.prepare(files.directory, settings, flags)
    if site.shape.clock:
        files.clock.set(0)
        command = replace(command, env={**command.env, **files.clock.environment()})
    return replace(files, command=command)


def _advertised(broker: int, plan: Plan) -> Advertised:
    return Advertised(
        plan.client(broker), plan.direct(broker), plan.isolated_client(broker) if plan.has_isolated else None
    )


def _flags(release: Release, files: NodeFiles, hosts: Path) -> list[str]:
    key, text = logging_properties(release, files.server_log)
    logging = files.directory / "logging.properties"
    logging.write_text(text, "utf-8")
    return [
        *JVM_FLAGS,
        f"-XX:ErrorFile={files.directory}/logs/hs_err.log",
        f"-Djava.io.tmpdir={files.directory}/tmp",  # where codecs unpack native libraries; a SIGKILL leaves them
        f"-Djdk.net.hosts.file={hosts}",
        f"-D{key}={logging.as_uri()}",
        f"-Dkafka.logs.dir={files.server_log.parent}",
    ]


def environment() -> dict[str, str]:
    """The environment of every process of a cluster."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


class LogWatch:
    """Looks for a text, "Kafka Server started" if none is given, in what a log gains after the watch began."""

    def __init__(self, path: Path, wanted: bytes = STARTED) -> None:
        self._path = path
        self._wanted = wanted
        self._position = path.stat().st_size if path.exists() else 0
        self._seen = False

    def seen(self) -> bool:
        """Whether the text has come; reads only what is new since the last call."""
        if not self._seen and self._path.exists():
            with self._path.open("rb") as log:
                log.seek(self._position)
                new = log.read()
            self._seen = self._wanted in new
            self._position += max(0, len(new) - len(self._wanted))  # the text may have come in two halves
        return self._seen


def tail(path: Path, lines: int = 20, reach_bytes: int = 16384) -> str:
    """The last lines of a log, from at most its last `reach_bytes`; empty when it does not exist."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - reach_bytes))
            return "\n".join(log.read().decode("utf-8", "replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def last_line(path: Path) -> str:
    """The last line of a log; empty when there is none."""
    lines = tail(path).splitlines()
    return lines[-1] if lines else ""


def last_error(files: NodeFiles) -> str:
    """The last line of a node's logs that tells of an error, or the last one."""
    lines = [*tail(files.console).splitlines(), *tail(files.server_log, 200).splitlines()]
    errors = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line]
    return (errors or lines or ["it said nothing"])[-1]
