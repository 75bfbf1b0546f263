"""Runs each process of a cluster as the first process of a container that has its name."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.clusters.containers import reap
from harness.clusters.containers.engine import RUN_LABEL, asking
from harness.clusters.containers.images import Images
from harness.clusters.containers.subnets import Subnets
from harness.clusters.nodes.jvm_cluster import TOXIPROXY, proxy_log
from harness.clusters.nodes.s3_server import S3_SERVER
from harness.clusters.processes.addresses import TOXIPROXY_PORT
from harness.clusters.processes.runner import ProcessState
from harness.clusters.processes.supervision import Supervision
from harness.clusters.state import RunState
from harness.model.errors import HarnessFailure
from harness.model.limits import MIB, NO_LIMITS, Limits

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container
    from docker.models.networks import Network

# A broker uses about a third of this cap. It protects the other nodes and the harness from a broker that leaks memory.
# CPU time has no cap by default: on two cores it would only slow every start, and slow brokers look like dead ones.
_MEMORY: Final = 1024 * MIB
_KILLED: Final = 137
_SQUEEZE_STEP: Final = 16 * MIB
_SERVER: Final = "/toxiproxy-server"
_CONFIG: Final = "/toxiproxy.json"
_PROXY_SCRIPT: Final = """
set -e
for address in {addresses}; do ip addr add $address/24 dev eth0; done
exec {server} -host 0.0.0.0 -port {port} -config {config}
"""


_Command = tuple[tuple[str, ...], Path, Path, dict[str, str]]  # arguments, folder, output, environment


@dataclass(slots=True)
class Containers:
    """Implements `runner.Runner` and `runner.Memory`. `run_proxy` has to be called before `start`."""

    client: DockerClient
    state: RunState
    labels: Mapping[str, str]
    images: Images
    network: Network  # of the nodes
    addresses: Mapping[str, str]  # by name of a container: its address on that network
    shared: list[Path]  # paths that every node may read
    supervision: Supervision
    limits: Limits = NO_LIMITS
    written: list[Path] = field(default_factory=list)  # paths that every node may write, besides its own files
    folders: Mapping[str, str] = field(default_factory=dict)  # by path inside: the subfolder of the node mounted there
    _commands: dict[str, _Command] = field(default_factory=dict)  # the command of each container
    _made: dict[str, Container] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "engine"))

    def run_proxy(self, binary: Path, plan: Subnets, outside: Network) -> dict[int, int]:
        """Starts toxiproxy on the nodes' network and on `outside`. Returns port of toxiproxy -> port of 127.0.0.1."""
        config = self.state.directory / "toxiproxy.json"
        config.write_text(plan.toxiproxy_config(), "utf-8")
        log = proxy_log(self.state.directory)
        script = _PROXY_SCRIPT.format(
            addresses=" ".join(plan.proxy_addresses), server=_SERVER, port=TOXIPROXY_PORT, config=_CONFIG
        )
        with asking("start toxiproxy"):
            container = self._made[TOXIPROXY] = self._run(
                TOXIPROXY,
                ["/bin/sh", "-c", script],
                log.parent,
                log,
                {"LOG_LEVEL": "error"},
                {binary: _SERVER, config: _CONFIG},
                user="0:0",
                cap_add=["NET_ADMIN"],
                ports={f"{port}/tcp": ("127.0.0.1", None) for port in plan.ports},
            )
            outside.connect(container.id)
            _remove_default_route(container)
            container.reload()
        return _published(container)

    def start(self, name: str, argv: Sequence[str], *, cwd: Path, output: Path, env: Mapping[str, str]) -> int:
        """See `Runner`. A container that has ended is started again, with its address and its files.

        It keeps its command and environment, so for another command a new container is made.
        """
        command = (tuple(argv), cwd, output, dict(env))
        with asking(f"start {name}"):
            if self._commands.get(name) == command:
                self._made[name].start()
            else:
                if name in self._made:
                    self._made[name].remove(v=True)
                self._made[name] = self._run(name, argv, cwd, output, env, {path: str(path) for path in self.shared})
                self._commands[name] = command
        return _state_of(self._made[name]).pid

    def _run(
        self,
        name: str,
        argv: Sequence[str],
        cwd: Path,
        output: Path,
        env: Mapping[str, str],
        reads: Mapping[Path, str],
        ports: Mapping[str, tuple[str, None]] | None = None,
        **more: object,
    ) -> Container:
        from docker.types import EndpointConfig
        from testcontainers.core.container import DockerContainer

        endpoint = EndpointConfig(self.client.api.api_version, ipv4_address=self.addresses[name])
        settings: dict[str, object] = {
            "labels": dict(self.labels),
            "hostname": name,
            "user": f"{os.getuid()}:{os.getgid()}",  # the owner of the files, whatever user the image names
            "working_dir": str(cwd),
            "network": self.network.name,
            "networking_config": {self.network.name: endpoint},
            "dns": ["127.0.0.1"],  # no server listens there: unknown names are not sent anywhere
            **_limits_of_engine(NO_LIMITS if name in (TOXIPROXY, S3_SERVER) else self.limits),
            "entrypoint": ["/bin/sh", "-c", f'exec "$@" >>{shlex.quote(str(output))} 2>&1', "sh"],
        }
        image = self.images.proxy if name == TOXIPROXY else self.images.node
        container = DockerContainer(image).with_name(f"{self.state.run}-{name}").with_command(list(argv))
        container.with_envs(**env).with_kwargs(**{**settings, **more})
        container.with_volume_mapping(cwd, str(cwd), "rw")
        for path in () if name == TOXIPROXY else self.written:
            container.with_volume_mapping(path, str(path), "rw")
        for path, place in reads.items():
            container.with_volume_mapping(path, place, "ro")
        for place, folder in self.folders.items():
            if (cwd / folder).is_dir():
                container.with_volume_mapping(cwd / folder, place, "rw")
        # Neither its methods nor its types know pairs of address and port.
        container.ports = dict(ports or {})  # type: ignore[arg-type]
        return container.start().get_wrapped_container()

    def signal(self, names: Sequence[str], number: int) -> list[str]:
        """See `Runner`."""
        alive = [name for name, state in self.status().items() if name in names and state.alive]
        list(self._pool.map(lambda name: self._kill(name, number), alive))
        return alive

    def _kill(self, name: str, number: int) -> None:
        from docker.errors import APIError

        with asking(f"send signal {number} to {name}"):
            try:
                self._made[name].kill(signal=number)
            except APIError as refused:
                if "is not running" not in str(refused):  # it has ended meanwhile
                    raise

    def squeeze(self, name: str) -> int:
        """See `Memory`. Page cache does not count: the kernel frees it first.

        With cgroups v1 an engine refuses a limit below the memory in use, so the limit is raised until it is accepted.
        """
        from docker.errors import APIError

        container, most = self._made[name], _limits_of_engine(self.limits)["mem_limit"]
        with asking(f"limit the memory of {name}"):
            limit = _own_bytes(_state_of(container).pid) + _SQUEEZE_STEP
            while limit < most:
                try:
                    container.update(mem_limit=limit, memswap_limit=limit)
                    return limit
                except APIError as refused:
                    if "busy" not in str(refused):
                        raise
                limit += _SQUEEZE_STEP
        raise HarnessFailure(f"{name} uses all the memory that its container may use, so its limit cannot be lowered")

    def release(self, name: str) -> None:
        """See `Memory`."""
        taking = _limits_of_engine(self.limits)
        with asking(f"restore the memory limit of {name}"):
            # Both at once: an engine refuses a limit of memory above the limit of memory and swap.
            self._made[name].update(mem_limit=taking["mem_limit"], memswap_limit=taking["memswap_limit"])

    def status(self) -> dict[str, ProcessState]:
        """See `Runner`."""
        with asking("report the state of containers"):
            return dict(zip(self._made, self._pool.map(_state_of, self._made.values()), strict=True))

    def stop(self) -> None:
        """See `Runner`."""
        self._pool.shutdown()
        self.supervision.stop()  # at its end it removes everything with the label of the run
        with asking("remove the rest of a cluster"):
            reap.reap(self.client, f"{RUN_LABEL}={self.state.run}")
            self.client.close()

    def detach(self) -> None:
        """See `Runner`."""
        self.supervision.detach()
        self.client.close()


def _limits_of_engine(limits: Limits) -> dict[str, int]:
    """Limits as settings of Docker. Without swap, which would turn a limit of memory into a limit of speed."""
    memory = limits.memory or _MEMORY
    time = {} if limits.cpus is None else {"nano_cpus": round(limits.cpus * 1e9)}
    return {"mem_limit": memory, "memswap_limit": memory, **time}


def _own_bytes(pid: int) -> int:
    """The anonymous memory of a process, which the kernel cannot free."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise HarnessFailure(f"/proc/{pid}/status does not show the memory of process {pid} (RssAnon)")


def _state_of(container: Container) -> ProcessState:
    container.reload()
    state = container.attrs["State"]
    if state["Running"]:
        return ProcessState(state["Pid"], None, None)
    code = state["ExitCode"]
    ended_ns, out_of_memory = _epoch_ns(state["FinishedAt"]), bool(state.get("OOMKilled"))
    return ProcessState(state["Pid"], -9 if code == _KILLED else code, ended_ns, out_of_memory)


def _epoch_ns(text: str) -> int | None:
    """Nanoseconds since the epoch, from RFC 3339. It has nanoseconds, more digits than datetime can parse."""
    seconds, _, fraction = text.rstrip("Z").partition(".")
    with suppress(ValueError):
        return int(datetime.fromisoformat(f"{seconds}+00:00").timestamp()) * 10**9 + int(fraction.ljust(9, "0")[:9])
    return None


def _remove_default_route(container: Container) -> None:
    """Keeps toxiproxy's connections inside. A published port needs no default route."""
    container.exec_run(["ip", "route", "del", "default"], user="0:0")
    code, output = container.exec_run(["ip", "route", "show", "default"], user="0:0")
    if code != 0 or output.strip():
        text = output.decode("utf-8", "replace").strip()
        raise HarnessFailure(f"the default route of the toxiproxy container cannot be removed: {text}")


def _published(container: Container) -> dict[int, int]:
    bound = container.attrs["NetworkSettings"]["Ports"]
    return {int(port.partition("/")[0]): int(places[0]["HostPort"]) for port, places in bound.items() if places}
