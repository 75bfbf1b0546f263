"""The files of the nodes: settings, hosts file, JVM arguments, log directories and logs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.clusters.base import START, TESTED, party
from harness.clusters.disks.loop_devices import OwnDisks
from harness.clusters.network.address_plan import Plan
from harness.clusters.nodes import agent
from harness.clusters.nodes.clocks import ClockFile
from harness.clusters.nodes.launch import NO_COMMAND, Command, Launch, Settings
from harness.clusters.nodes.node_logs import last_error_of, tail
from harness.clusters.nodes.security import Security
from harness.clusters.nodes.storage_format import Formatted, first_directory, format_node, identity_of
from harness.clusters.nodes.tier_folder import tier_of
from harness.clusters.processes.runner import Runner
from harness.kafka.release.release import Release
from harness.kafka.settings.node_settings import JVM_FLAGS, Advertised, Node, logging_properties, node_properties
from harness.kafka.storage.uuids import new_uuid
from harness.model.scenario.scenario import ClusterShape

# All other variables of the user's shell are meant for other Javas and other Kafkas.
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TZ")


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The paths of a node's files, and the command that starts it once they are written."""

    directory: Path
    command: Command = NO_COMMAND
    log_dirs: int = 1

    @property
    def data(self) -> Path:
        """The first log directory, which has the metadata log."""
        return self.directory / "data"

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """All log directories, in the order of the node's settings."""
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
    """Everything that is needed to write the nodes of one cluster on one release."""

    release: Release
    shape: ClusterShape
    plan: Plan
    launch: Launch
    runner: Runner
    formatted: Formatted  # the storage of which each node gets a copy
    directory: Path  # of the run
    disks: OwnDisks | None  # the brokers' own disks
    host: Callable[[int], str]  # the host name of the machine or container that runs a node
    fast_start: Sequence[str] = ()  # JVM flags
    security: Security | None = None  # None: all listeners are plaintext


def write_nodes(sites: Mapping[str, Site]) -> dict[int, NodeFiles]:
    """Writes all files that the nodes need to start on the release on which the cluster starts."""
    site, cluster_id = sites.get(START, sites[TESTED]), new_uuid()
    return {node: _write_node(node, site, cluster_id=cluster_id) for node in site.plan.nodes}


def _write_node(node: int, site: Site, *, cluster_id: str) -> NodeFiles:
    log_dirs = site.shape.log_dirs if node in site.plan.brokers else 1
    files = NodeFiles(site.directory / "nodes" / party(node), log_dirs=log_dirs)
    for folder in (files.directory, files.server_log.parent, files.directory / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    is_controller = node in site.plan.controllers
    disks = None if is_controller else site.disks
    if disks:
        disks.make(files.log_directories)
    format_node(
        site.formatted.beginning if is_controller else site.formatted.later,
        files.log_directories,
        node=node,
        cluster_id=cluster_id,
        directory_id=first_directory(node) if is_controller and site.shape.voters == "dynamic" else None,
    )
    if disks:
        disks.flush(files.log_directories)  # or an early power loss would leave a broker without bootstrap.checkpoint
    return configure(node, site, files)


def configure(node: int, site: Site, files: NodeFiles) -> NodeFiles:
    """Writes the settings and the command of `node` for the release of `site`. Log directories and logs stay."""
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
    if site.shape.agent:
        flags.append(agent.flag(site.release, site.plan.node(node)))
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
        f"-Djava.io.tmpdir={files.directory}/tmp",  # codecs unpack native libraries there, and a SIGKILL leaves them
        f"-Djdk.net.hosts.file={hosts}",
        f"-D{key}={logging.as_uri()}",
        f"-Dkafka.logs.dir={files.server_log.parent}",
    ]


def environment() -> dict[str, str]:
    """The environment of every process of a cluster."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


def last_error(files: NodeFiles) -> str:
    """The last error line of a node's logs; without an error, the last line."""
    return last_error_of([*tail(files.console).splitlines(), *tail(files.server_log, 200).splitlines()])
