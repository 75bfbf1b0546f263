"""Runs the processes of a cluster as containers, each the first process of one that bears its name."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

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

# A cap, of which a broker takes a third: whatever one of them does, the others and the harness go on. CPU time has none
# by default: on two cores it would only stretch every start, and slow brokers are taken for dead ones.
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


@dataclass(slots=True)
class Containers:
    """Implements `runner.Runner` and `runner.Memory`. `run_proxy` comes before `start`."""

    client: Any
    state: RunState
    labels: Mapping[str, str]
    images: Images
    network: Any  # of the nodes
    addresses: Mapping[str, str]  # of each name on that network
    shared: list[Path]  # what every node may read
    supervision: Supervision
    limits: Limits = NO_LIMITS
    written: list[Path] = field(default_factory=list)  # what every node may write beside its own files
    folders: Mapping[str, str] = field(default_factory=dict)  # by places: names of folders of whoever has such
    _commands: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # what each was made with
    _made: dict[str, Any] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "engine"))

    def run_proxy(self, binary: Path, plan: Subnets, outside: Any) -> dict[int, int]:
        """Starts toxiproxy on the nodes' network and on `outside`; its ports -> ports of 127.0.0.1."""
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
            _close_the_way_out(container)
            container.reload()
        return _published(container)

    def start(self, name: str, argv: Sequence[str], *, cwd: Path, output: Path, env: Mapping[str, str]) -> int:
        """See `Runner`. A container that has ended is started again, with its address and its disk; to run anything
        else it is made anew, for it keeps its command and its variables."""
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
        ports: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        from docker.types import EndpointConfig
        from testcontainers.core.container import DockerContainer

        endpoint = EndpointConfig(self.client.api.api_version, ipv4_address=self.addresses[name])
        settings: dict[str, Any] = {
            "labels": dict(self.labels),
            "hostname": name,
            "user": f"{os.getuid()}:{os.getgid()}",  # who owns the files, whatever user the image names
            "working_dir": str(cwd),
            "network": self.network.name,
            "networking_config": {self.network.name: endpoint},
            "dns": ["127.0.0.1"],  # a name that nobody knows is asked of nobody
            **_taking(NO_LIMITS if name in (TOXIPROXY, S3_SERVER) else self.limits),
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
        container.ports = dict(ports or {})  # pairs of address and port, which its own methods do not take
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
                if "is not running" not in str(refused):  # it ended in between
                    raise

    def squeeze(self, name: str) -> int:
        """See `Memory`. An engine of cgroups v1 refuses less than is taken; the kernel gives page cache up first."""
        from docker.errors import APIError

        container, most = self._made[name], _taking(self.limits)["mem_limit"]
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
        raise HarnessFailure(f"{name} takes all the memory that it may: there is nothing to squeeze")

    def release(self, name: str) -> None:
        """See `Memory`."""
        taking = _taking(self.limits)
        with asking(f"give {name} its memory back"):
            # The limit of memory and swap together is never the lower one.
            self._made[name].update(mem_limit=taking["mem_limit"], memswap_limit=taking["memswap_limit"])

    def status(self) -> dict[str, ProcessState]:
        """See `Runner`."""
        with asking("say how containers are"):
            return dict(zip(self._made, self._pool.map(_state_of, self._made.values()), strict=True))

    def stop(self) -> None:
        """See `Runner`."""
        self._pool.shutdown()
        self.supervision.stop()  # its last act is to remove what carries our label
        with asking("remove what is left of a cluster"):
            reap.reap(self.client, f"{RUN_LABEL}={self.state.run}")
            self.client.close()

    def let_go(self) -> None:
        """See `Runner`."""
        self.supervision.let_go()
        self.client.close()


def _taking(limits: Limits) -> dict[str, int]:
    """What a container may take, as Docker's settings; swap would make a limit of memory a limit of speed."""
    memory = limits.memory or _MEMORY
    time = {} if limits.cpus is None else {"nano_cpus": round(limits.cpus * 1e9)}
    return {"mem_limit": memory, "memswap_limit": memory, **time}


def _own_bytes(pid: int) -> int:
    """Memory of a process that no file stands behind, so that the kernel cannot take it back."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise HarnessFailure(f"the kernel does not say what process {pid} takes")


def _state_of(container: Any) -> ProcessState:
    container.reload()
    state = container.attrs["State"]
    if state["Running"]:
        return ProcessState(state["Pid"], None, None)
    code = state["ExitCode"]
    why = ", out of the memory that its container may take" if state.get("OOMKilled") else ""
    return ProcessState(state["Pid"], -9 if code == _KILLED else code, _epoch_ns(state["FinishedAt"]), why)


def _epoch_ns(text: str) -> int | None:
    """From RFC 3339 with nanoseconds, more digits than datetime takes."""
    seconds, _, fraction = text.rstrip("Z").partition(".")
    with suppress(ValueError):
        return int(datetime.fromisoformat(f"{seconds}+00:00").timestamp()) * 10**9 + int(fraction.ljust(9, "0")[:9])
    return None


def _close_the_way_out(container: Any) -> None:
    """A published port needs no default route, and without one nothing that toxiproxy dials can leave."""
    container.exec_run(["ip", "route", "del", "default"], user="0:0")
    code, said = container.exec_run(["ip", "route", "show", "default"], user="0:0")
    if code != 0 or said.strip():
        raise HarnessFailure(f"the container of toxiproxy has a way out: {said.decode('utf-8', 'replace').strip()}")


def _published(container: Any) -> dict[int, int]:
    bound = container.attrs["NetworkSettings"]["Ports"]
    return {int(port.partition("/")[0]): int(places[0]["HostPort"]) for port, places in bound.items() if places}
