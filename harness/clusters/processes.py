"""The process backend: real Kafka as local JVMs behind toxiproxy, no root, no Docker."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from harness.clusters.addresses import TOXIPROXY_PORT, Addresses
from harness.clusters.archive import class_archive
from harness.clusters.base import Links, UnexpectedExit, party
from harness.clusters.format import formatted, new_uuid
from harness.clusters.links import ToxiproxyLinks
from harness.clusters.nodes import LogWatch, NodeFiles, command, environment, tail, write_node
from harness.clusters.slots import Slot, take_slot
from harness.clusters.state import RunState, new_run, remove_directory
from harness.clusters.supervision import ProcessState, Supervision
from harness.clusters.sweep import sweep
from harness.clusters.toxiproxy import ToxiproxyClient
from harness.kafka.cache import Cache
from harness.kafka.config import CLIENT_PORT, DIRECT_PORT
from harness.kafka.java import Java, find_java
from harness.kafka.release import Release
from harness.kafka.toxiproxy_server import toxiproxy_server
from harness.model.errors import HarnessFailure, HarnessTimeout
from harness.model.scenario import ClusterShape
from harness.model.waiting import wait_for

Progress = Callable[[str], None]

CAPABILITIES = frozenset({"links", "kill", "terminate", "pause", "restart", "disk.read"})
_TOXIPROXY = "toxiproxy"
_READY_S = 120.0  # a loaded two-core machine has taken 40
_GONE_S = 15.0


class ProcessCluster:
    """Implements `base.Cluster`. Made by `start_processes`. Usable as a context manager that ends in `close()`."""

    capabilities = CAPABILITIES

    def __init__(
        self,
        release: Release,
        shape: ClusterShape,
        *,
        state: RunState,
        supervision: Supervision,
        java: Java,
        nodes: dict[int, NodeFiles],
    ) -> None:
        self.release = release
        self.shape = shape
        self.directory = state.directory
        self._addresses = Addresses.of(state.slot, shape)
        self.brokers = self._addresses.brokers
        self.controllers = self._addresses.controllers
        self.state = state
        self._toxiproxy = ToxiproxyClient(self._addresses.toxiproxy, TOXIPROXY_PORT)
        self.links: Links = ToxiproxyLinks(self._toxiproxy, self._addresses.links())
        self._supervision = supervision
        self._java = java
        self._nodes = nodes
        self._watches: dict[int, LogWatch] = {}
        self._asked: set[int] = set()  # nodes whose end was asked for since their last start
        self._exits: dict[tuple[str, int], UnexpectedExit] = {}  # by name and pid
        self._stopped = False

    # --- addresses ---

    def bootstrap(self) -> str:
        """See `base.Cluster`."""
        return ",".join(f"{self._addresses.client(broker)}:{CLIENT_PORT}" for broker in self.brokers)

    def bootstrap_direct(self) -> str:
        """See `base.Cluster`."""
        return ",".join(f"{self._addresses.node(broker)}:{DIRECT_PORT}" for broker in self.brokers)

    def direct_address(self, node: int) -> tuple[str, int]:
        """See `base.Cluster`."""
        return self._addresses.direct(node)

    # --- processes ---

    def kill(self, *nodes: int) -> None:
        """See `base.Cluster`."""
        self._asked.update(nodes)
        self._signal(nodes, signal.SIGKILL)
        self._wait_gone(nodes, _GONE_S, "die of SIGKILL")

    def terminate(self, node: int, deadline_s: float = 30) -> None:
        """See `base.Cluster`."""
        self._asked.add(node)
        self._signal([node], signal.SIGTERM)
        self._wait_gone([node], deadline_s, "shut down after SIGTERM")

    def pause(self, *nodes: int) -> None:
        """See `base.Cluster`."""
        self._signal(nodes, signal.SIGSTOP)
        self._wait_paused(nodes, True)

    def resume(self, *nodes: int) -> None:
        """See `base.Cluster`."""
        self._signal(nodes, signal.SIGCONT)
        self._wait_paused(nodes, False)

    def start(self, *nodes: int) -> None:
        """See `base.Cluster`."""
        self.unexpected_exits()  # remembered before the new process takes the old one's place
        states = self._supervision.status()
        for node in nodes:
            name, files = party(node), self._nodes[node]
            if name in states and states[name].alive:
                continue
            self._watches[node] = LogWatch(files.server_log)
            self._asked.discard(node)
            self._supervision.start(
                name, command(self._java, files), cwd=files.directory, output=files.console, env=environment()
            )

    def running(self, node: int) -> bool:
        """See `base.Cluster`."""
        return self._process(node).alive

    def paused(self, node: int) -> bool:
        """See `base.Cluster`."""
        process = self._process(node)
        return process.alive and _stopped(process.pid)

    def pid(self, node: int) -> int:
        """The process of a node that runs, for measurements."""
        return self._process(node).pid

    def wait_started(self, node: int, deadline_s: float) -> None:
        """See `base.Cluster`. Raises HarnessFailure at once when the node has ended."""
        files, watch = self._nodes[node], self._watches[node]

        def seen() -> str:
            process = self._process(node)
            if not process.alive:
                raise self._failure(node, f"{party(node)} ended before it had started ({process.status})")
            if watch.started():
                return ""
            return _last_line(files.server_log) or _last_line(files.console) or "an empty log"

        wait_for(
            seen,
            until=lambda last: not last,
            deadline_s=deadline_s,
            what=f'"Kafka Server started" of {party(node)}',
            interval_s=0.1,
        )

    def unexpected_exits(self) -> list[UnexpectedExit]:
        """See `base.Cluster`."""
        if not self._stopped:
            names = {party(node) for node in self._nodes if node not in self._asked} | {_TOXIPROXY}
            for name, process in self._supervision.status().items():
                if not process.alive and name in names:
                    self._remember_exit(name, process)
        return sorted(self._exits.values(), key=lambda exit_: exit_.at_ns)

    def _remember_exit(self, name: str, process: ProcessState) -> None:
        log = self.directory / f"{_TOXIPROXY}.log"
        for node, files in self._nodes.items():
            if party(node) == name:
                log = files.server_log if files.server_log.exists() else files.console
        found = UnexpectedExit(name, process.status, process.ended_ns or time.time_ns(), tail(log))
        self._exits.setdefault((name, process.pid), found)

    # --- files ---

    def log_directories(self, node: int) -> tuple[Path, ...]:
        """See `base.Cluster`."""
        return (self._nodes[node].data,)

    def server_log(self, node: int) -> Path:
        """See `base.Cluster`."""
        return self._nodes[node].server_log

    def console_log(self, node: int) -> Path:
        """What the JVM itself printed."""
        return self._nodes[node].console

    # --- as a whole ---

    def heal(self) -> None:
        """See `base.Cluster`."""
        self.links.heal_all()
        self.resume(*self._addresses.nodes)
        self.start(*self._addresses.nodes)

    def stop(self) -> None:
        """See `base.Cluster`."""
        if self._stopped:
            return
        self.unexpected_exits()
        self._stopped = True
        self._supervision.stop()
        remove_directory(self.directory)

    def close(self) -> None:
        """See `base.Cluster`."""
        if not self.state.kept:
            self.stop()
        elif not self._stopped:
            self._stopped = True
            self._supervision.let_go()

    def describe_kept(self) -> str:
        """See `base.Cluster`."""
        return (
            f"Kafka {self.release.version} is left running: clients {self.bootstrap()} (through toxiproxy at "
            f"{self._toxiproxy.host}:{self._toxiproxy.port}), past every fault {self.bootstrap_direct()}, "
            f"files {self.directory}; stop it with: durability clean {self.state.run}"
        )

    def __enter__(self) -> ProcessCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside ---

    def _bring_up(self, proxy_binary: Path) -> None:
        config = self.directory / "toxiproxy.json"
        config.write_text(self._addresses.toxiproxy_config(), "utf-8")
        address = ["-host", self._addresses.toxiproxy, "-port", str(TOXIPROXY_PORT)]
        self._supervision.start(
            _TOXIPROXY,
            [str(proxy_binary), *address, "-config", str(config)],
            cwd=self.directory,
            output=self.directory / f"{_TOXIPROXY}.log",
            env=environment() | {"LOG_LEVEL": "error"},
        )
        self.start(*self._addresses.nodes)
        self._wait_proxies()
        give_up_at = time.monotonic() + _READY_S
        for node in self._addresses.nodes:
            self.wait_started(node, max(0.0, give_up_at - time.monotonic()))

    def _wait_proxies(self) -> None:
        wanted = {link.name for link in self._addresses.links()}

        def missing() -> str:
            state = self._supervision.status()[_TOXIPROXY]
            if not state.alive:
                last = _last_line(self.directory / f"{_TOXIPROXY}.log")
                raise HarnessFailure(f"toxiproxy ended at its start ({state.status}): {last}")
            if not self._toxiproxy.answers():
                return "no answer"
            return ", ".join(sorted(wanted - set(self._toxiproxy.proxies())))

        wait_for(missing, until=lambda text: not text, deadline_s=20, what="toxiproxy to know every link")

    def _process(self, node: int) -> ProcessState:
        return self._supervision.status()[party(node)]

    def _signal(self, nodes: Sequence[int], number: signal.Signals) -> None:
        self._supervision.signal([party(node) for node in nodes], number)

    def _wait_gone(self, nodes: Sequence[int], deadline_s: float, what: str) -> None:
        names = [party(node) for node in nodes]

        def alive() -> list[str]:
            states = self._supervision.status()
            return [name for name in names if states[name].alive]

        wait_for(
            alive,
            until=lambda left: not left,
            deadline_s=deadline_s,
            what=f"{', '.join(names)} to {what}",
            interval_s=0.01,
        )

    def _wait_paused(self, nodes: Sequence[int], paused: bool) -> None:
        def otherwise() -> list[str]:
            states = [(party(node), self._process(node)) for node in nodes]
            return [name for name, state in states if state.alive and _stopped(state.pid) != paused]

        wait_for(
            otherwise,
            until=lambda left: not left,
            deadline_s=_GONE_S,
            what=f"processes to {'stand still' if paused else 'go on'}",
            interval_s=0.01,
        )

    def _failure(self, node: int, sentence: str) -> HarnessFailure:
        files = self._nodes[node]
        failure = HarnessFailure(f"{sentence}: {_last_error(files)}")
        failure.add_note(tail(files.console) + "\n" + tail(files.server_log))
        return failure


def start_processes(
    release: Release,
    shape: ClusterShape,
    *,
    root: Path,
    keep: bool,
    progress: Progress,
    cache: Path,
    java: Java | None = None,
) -> ProcessCluster:
    """A cluster whose every node has started. Whatever goes wrong on the way, nothing is left behind."""
    for line in sweep(root):
        progress(line)
    java = java or find_java(release.version)
    if java.note:
        progress(java.note)
    proxy_binary = toxiproxy_server(cache, progress)
    source = formatted(release, shape, java, Cache(cache), progress)
    slot = take_slot()
    try:
        state = _new_state(root, slot, release, shape, keep)
        try:
            supervision = Supervision(state.directory, slot.descriptor, stay=keep)
        except BaseException:
            remove_directory(state.directory)
            raise
    finally:
        slot.let_go()  # the supervisor and what it starts hold it from here on
    nodes: dict[int, NodeFiles] = {}
    state = state.supervised_by(supervision.pid)
    cluster = ProcessCluster(release, shape, state=state, supervision=supervision, java=java, nodes=nodes)
    try:
        state.save()
        cluster_id = new_uuid()
        addresses = Addresses.of(state.slot, shape)
        archive = class_archive(
            release,
            java,
            supervision=supervision,
            addresses=addresses,
            directory=state.directory / "training",
            formatted=source,
            cache=Cache(cache),
            progress=progress,
        )
        flags = (f"-XX:SharedArchiveFile={archive}",) if archive else ()
        for node in addresses.nodes:
            nodes[node] = write_node(
                node,
                release,
                shape,
                addresses,
                formatted=source,
                cluster_id=cluster_id,
                directory=state.directory / "nodes",
                extra_flags=flags,
            )
        cluster._bring_up(proxy_binary)
    except BaseException as error:
        try:
            cluster.stop()
        except HarnessTimeout as late:
            error.add_note(str(late))
        raise
    return cluster


def _new_state(root: Path, slot: Slot, release: Release, shape: ClusterShape, keep: bool) -> RunState:
    addresses = Addresses.of(slot.number, shape)
    bootstrap = ",".join(f"{addresses.client(broker)}:{CLIENT_PORT}" for broker in addresses.brokers)
    return new_run(root, slot=slot.number, release=release.version, bootstrap=bootstrap, kept=keep)


def _stopped(pid: int) -> bool:
    """Whether the kernel has the process stopped by a signal."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] == "T"


def _last_line(path: Path) -> str:
    lines = tail(path).splitlines()
    return lines[-1] if lines else ""


def _last_error(files: NodeFiles) -> str:
    lines = [*tail(files.console).splitlines(), *tail(files.server_log, 200).splitlines()]
    errors = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line]
    return (errors or lines or ["it said nothing"])[-1]
