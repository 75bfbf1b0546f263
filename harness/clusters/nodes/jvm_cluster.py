"""A cluster of real Kafka JVMs behind toxiproxy, the same for local processes and for containers."""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from harness.clusters.base import START, TESTED, Disks, Links, TierServer, party
from harness.clusters.disks.loop_devices import OwnDisks
from harness.clusters.network.address_plan import Plan
from harness.clusters.network.links import ToxiproxyLinks
from harness.clusters.network.toxiproxy import ToxiproxyClient
from harness.clusters.nodes import agent, clocks
from harness.clusters.nodes.exits import REFUSED_SETTINGS, Exits
from harness.clusters.nodes.node_files import NodeFiles, Site, configure, last_error
from harness.clusters.nodes.node_logs import LogWatch, last_line, tail
from harness.clusters.nodes.s3_server import S3_SERVER, s3_log
from harness.clusters.nodes.storage_format import identity_of, reformat
from harness.clusters.nodes.tier_folder import store_of
from harness.clusters.processes.runner import Memory, ProcessState, Runner
from harness.clusters.state import RunState, remove_directory
from harness.kafka.admin.security import PLAINTEXT, Security
from harness.kafka.release.release import Release
from harness.model.documents.process_exit import ProcessExit
from harness.model.errors import HarnessFailure, MachineFailure
from harness.model.scenario.scenario import ClusterShape
from harness.model.scratch import writing_below
from harness.model.waiting import wait_for

TOXIPROXY = "toxiproxy"
_READY_S = 120.0  # a loaded two-core machine has taken 40
_GONE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendResources:
    """The parts of a cluster that its backend provides: the runner of its processes, the address plan, and others."""

    runner: Runner
    plan: Plan
    toxiproxy: ToxiproxyClient
    capabilities: frozenset[str]
    formatted: Path  # the formatted folder from which a wiped disk is copied
    disks: OwnDisks | None = None  # the brokers' own disks
    memory: Memory | None = None  # None: the backend cannot limit memory


class JvmCluster:
    """Implements `base.Cluster`. Made by a backend. Usable as a context manager that ends in `close()`."""

    def __init__(
        self, sites: Mapping[str, Site], state: RunState, resources: BackendResources, nodes: Mapping[int, NodeFiles]
    ) -> None:
        self.releases: Mapping[str, Release] = {which: site.release for which, site in sites.items()}
        self.release = self.releases[TESTED]
        self.shape: ClusterShape = sites[TESTED].shape
        self.state = state
        self.directory = state.directory
        self.capabilities = resources.capabilities
        self.brokers = resources.plan.brokers
        self.controllers = self.addressed_controllers = resources.plan.controllers
        self.selects_replicas = True
        self.disks: Disks | None = resources.disks
        self.tier_store = store_of(state.directory) if self.shape.tier else None
        self.tier_server: TierServer | None = None  # set by the backend
        self.links: Links = ToxiproxyLinks(resources.toxiproxy, resources.plan.links())
        self.java = sites[TESTED].launch.java_version
        self._security = sites[TESTED].security
        self._resources = resources
        self._runner = resources.runner
        self._sites = sites
        self._nodes = dict(nodes)
        self._runs = dict.fromkeys(nodes, START if START in sites else TESTED)
        self._watches: dict[int, LogWatch] = {}
        self._exits = Exits(
            {party(node): files for node, files in self._nodes.items()},
            {TOXIPROXY: _proxy_log(self.directory), S3_SERVER: s3_log(self.directory)},
            own_disks=resources.disks is not None,
        )
        self._up = False
        self._stopped = False

    @property
    def security(self) -> Security:
        """See `base.Cluster`. Observers have a plaintext listener."""
        return PLAINTEXT

    @property
    def command_config(self) -> Path | None:
        """See `base.Cluster`."""
        return None

    def logs(self) -> dict[str, Path]:
        """See `base.Cluster`: the server log of every node that has one."""
        logs = {f"server-{node}.log": files.server_log for node, files in self._nodes.items()}
        return {name: log for name, log in logs.items() if log.is_file()}

    # --- addresses ---

    def bootstrap(self) -> str:
        """See `base.Cluster`."""
        return self._resources.plan.bootstrap()

    def bootstrap_isolated(self) -> str:
        """See `base.Cluster`."""
        return self._resources.plan.bootstrap_isolated()

    def bootstrap_direct(self) -> str:
        """See `base.Cluster`."""
        return ",".join("{}:{}".format(*self.direct_address(broker)) for broker in self.brokers)

    def client_settings(self) -> Mapping[str, str]:
        """See `base.Cluster`."""
        return self._security.client() if self._security else {}

    def direct_address(self, node: int) -> tuple[str, int]:
        """See `base.Cluster`."""
        return self._resources.plan.direct(node)

    # --- processes ---

    def bring_up(self) -> None:
        """See `base.Cluster`. toxiproxy runs already."""
        if self._up:
            return
        self.start(*self._resources.plan.nodes)
        self._wait_proxies()
        give_up_at = time.monotonic() + _READY_S
        try:
            for node in self._resources.plan.nodes:
                self.wait_started(node, max(0.0, give_up_at - time.monotonic()))
        except HarnessFailure:
            self._forget_what_says_nothing()
            raise
        if self._security:
            at = {node: self.direct_address(node) for node in self._resources.plan.nodes}
            self._security.create_user({b: at[b] for b in self.brokers}, {c: at[c] for c in self.controllers})
        self._up = True

    def kill(self, *nodes: int) -> None:
        """See `base.Cluster`."""
        self._end(nodes, signal.SIGKILL)
        self._wait_gone(nodes, _GONE_S, "end after SIGKILL")

    def terminate(self, node: int, deadline_s: float = 30) -> None:
        """See `base.Cluster`."""
        self._end([node], signal.SIGTERM)
        why = "a controlled shutdown waits until every active broker has the metadata of it, so one that lags delays it"
        self._wait_gone([node], deadline_s, f"shut down after SIGTERM ({why})")

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
        states = self._runner.status()
        self._exits.note(states)  # before the new process replaces the old one
        for node in nodes:
            name, files = party(node), self._nodes[node]
            if name in states and states[name].alive:
                continue
            self._watches[node] = LogWatch(files.server_log)
            self._exits.begun(name)
            self._runner.start(
                name,
                files.command.argv,
                cwd=files.directory,
                output=files.console,
                env=files.command.env,
            )

    def running(self, node: int) -> bool:
        """See `base.Cluster`."""
        return self._process(node).alive

    def paused(self, node: int) -> bool:
        """See `base.Cluster`."""
        process = self._process(node)
        return process.alive and _stopped(process.pid)

    def pid(self, node: int) -> int:
        """The process id of a running node, for measurements."""
        return self._process(node).pid

    def wait_started(self, node: int, deadline_s: float) -> None:
        """See `base.Cluster`. HarnessFailure at once when the node has ended."""
        files, watch = self._nodes[node], self._watches[node]

        def seen() -> str:
            process = self._process(node)
            if not process.alive:
                raise self._failure(node, f"{party(node)} ended before it had started ({process.status})")
            if watch.seen():
                return ""
            return last_line(files.server_log) or last_line(files.console) or "an empty log"

        wait_for(
            seen,
            until=lambda last: not last,
            deadline_s=deadline_s,
            what=f'"Kafka Server started" of {party(node)}',
            interval_s=0.1,
        )

    def exits(self) -> list[ProcessExit]:
        """See `base.Cluster`."""
        if not self._stopped:
            self._exits.note(self._runner.status())
        return self._exits.known()

    def unexpected_exits(self) -> list[ProcessExit]:
        """See `base.Cluster`."""
        self.exits()
        return self._exits.known(unexpected=True)

    def forget_exits(self) -> None:
        """See `base.Cluster`."""
        self._exits.forget()

    # --- files ---

    def log_directories(self, node: int) -> tuple[Path, ...]:
        """See `base.Cluster`."""
        return self._nodes[node].log_directories

    def server_log(self, node: int) -> Path:
        """See `base.Cluster`."""
        return self._nodes[node].server_log

    def directory_id(self, node: int) -> str:
        """See `base.Cluster`."""
        return identity_of(self._nodes[node].data)["directory.id"]

    def console_log(self, node: int) -> Path:
        """See `base.Cluster`."""
        return self._nodes[node].console

    def wipe(self, node: int) -> None:
        """See `base.Cluster`."""
        if self.running(node):
            raise HarnessFailure(f"the disk of {party(node)} cannot be wiped while the node runs")
        with writing_below(self.directory, MachineFailure):
            reformat(self._resources.formatted, self.log_directories(node))

    def use_release(self, node: int, which: str) -> None:
        """See `base.Cluster`."""
        if which not in self._sites:
            raise HarnessFailure(
                f"{party(node)} cannot run the release {which!r}: the cluster has {', '.join(self._sites)}"
            )
        if self.running(node):
            raise HarnessFailure(f"{party(node)} cannot be given another release while it runs")
        with writing_below(self.directory, MachineFailure):
            self._nodes[node] = configure(node, self._sites[which], self._nodes[node])
        self._runs[node] = which

    def release_of(self, node: int) -> Release:
        """See `base.Cluster`."""
        return self.releases[self._runs[node]]

    def limit_file_size(self, node: int, size_bytes: int | None) -> None:
        """See `base.Cluster`. Lowers only the soft limit of RLIMIT_FSIZE: the process's owner may raise that again."""
        process = self._process(node)
        if not process.alive:
            return
        if size_bytes is not None:
            self.let_end(node)
        try:
            _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard if size_bytes is None else size_bytes, hard))
        except ProcessLookupError:
            pass  # it ended in between
        except (OSError, ValueError, OverflowError) as refused:
            raise HarnessFailure(f"the file size of {party(node)} cannot be limited: {refused}") from refused

    def let_end(self, node: int) -> None:
        """See `base.Cluster`."""
        self._exits.let_end(party(node))

    def agent_address(self, node: int) -> tuple[str, int]:
        """See `base.Cluster`."""
        if not self.shape.agent:
            raise HarnessFailure("the nodes of this cluster have no agent: its shape does not say agent = true")
        return agent.address(self._resources.plan.node(node))

    def let_halt(self, node: int, code: int) -> None:
        """See `base.Cluster`."""
        self._exits.let_halt(party(node), code)

    def how_it_ended(self, node: int) -> str:
        """See `base.Cluster`."""
        process = self._process(node)
        return "" if process.alive else process.status

    def set_clock(self, node: int, ahead_s: float) -> None:
        """See `base.Cluster`."""
        if not self.shape.clock:
            raise HarnessFailure("the clocks of this cluster cannot be set: its shape does not say clock = true")
        with writing_below(self.directory, MachineFailure):
            self._nodes[node].clock.set(ahead_s)

    def squeeze_memory(self, node: int) -> int:
        """See `base.Cluster`."""
        if self._resources.memory is None:
            raise HarnessFailure("this backend cannot limit the memory of a node")
        return self._resources.memory.squeeze(party(node))

    def release_memory(self, node: int) -> None:
        """See `base.Cluster`."""
        if self._resources.memory is not None:
            self._resources.memory.release(party(node))

    # --- the whole cluster ---

    def heal(self) -> None:
        """See `base.Cluster`."""
        self.links.heal_all()
        if self.disks:
            self.disks.heal([path for broker in self.brokers for path in self.log_directories(broker)])
        self.resume(*self._resources.plan.nodes)
        self.start(*self._resources.plan.nodes)

    def stop(self) -> None:
        """See `base.Cluster`."""
        if self._stopped:
            return
        self.exits()
        self._stopped = True
        self._runner.stop()
        if self.shape.clock:
            clocks.tidy()
        remove_directory(self.directory)

    def close(self) -> None:
        """See `base.Cluster`."""
        if not self.state.kept:
            self.stop()
        elif not self._stopped:
            self._stopped = True
            self._runner.detach()

    def describe_kept(self) -> str:
        """See `base.Cluster`."""
        login = f", client settings {self._security.java}" if self._security else ""
        return (
            f"Kafka {self.release.version} is left running: clients {self.bootstrap()} (through toxiproxy at "
            f"{self._resources.toxiproxy.host}:{self._resources.toxiproxy.port}), observers {self.bootstrap_direct()} "
            f"(not affected by faults), files {self.directory}{login}; stop it with: durability clean {self.state.run}"
        )

    def __enter__(self) -> JvmCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- internal ---

    def _forget_what_says_nothing(self) -> None:
        """Forgets the ends of nodes that tell nothing of the release under test: they run another one, or refused the
        settings that the harness and the scenario gave them."""
        refused = any(REFUSED_SETTINGS in (one.error or "") for one in self.exits())
        if refused or START in self._sites:
            self.forget_exits()

    def _wait_proxies(self) -> None:
        wanted = set(self._resources.plan.proxies())

        def missing() -> str:
            state = self._runner.status()[TOXIPROXY]
            if not state.alive:
                last = last_line(proxy_log(self.directory))
                raise MachineFailure(f"toxiproxy ended while it started ({state.status}): {last}")
            if not self._resources.toxiproxy.answers():
                return "no answer"
            return ", ".join(sorted(wanted - set(self._resources.toxiproxy.proxies())))

        wait_for(missing, until=lambda text: not text, deadline_s=20, what="toxiproxy to know every link")

    def _process(self, node: int) -> ProcessState:
        return self._runner.status()[party(node)]

    def _end(self, nodes: Sequence[int], number: signal.Signals) -> None:
        """Sends a signal that ends nodes. One that has ended by itself before that is none of those which it ended."""
        self._exits.sent(self._runner.signal([party(node) for node in nodes], number))

    def _signal(self, nodes: Sequence[int], number: signal.Signals) -> None:
        self._runner.signal([party(node) for node in nodes], number)

    def _wait_gone(self, nodes: Sequence[int], deadline_s: float, what: str) -> None:
        names = [party(node) for node in nodes]

        def alive() -> list[str]:
            states = self._runner.status()
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
            what=f"processes to {'stop after SIGSTOP' if paused else 'run after SIGCONT'}",
            interval_s=0.01,
        )

    def _failure(self, node: int, sentence: str) -> HarnessFailure:
        files = self._nodes[node]
        failure = HarnessFailure(f"{sentence}: {last_error(files)}")
        failure.add_note(tail(files.console) + "\n" + tail(files.server_log))
        return failure


def proxy_log(run: Path) -> Path:
    """The log of a run's toxiproxy; makes its folder."""
    log = _proxy_log(run)
    log.parent.mkdir(exist_ok=True)
    return log


def _proxy_log(run: Path) -> Path:
    return run / TOXIPROXY / f"{TOXIPROXY}.log"


def _stopped(pid: int) -> bool:
    """Whether the process is stopped by a signal."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] == "T"
