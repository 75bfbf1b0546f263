"""An existing cluster, as a `base.Cluster`. Hooks stop and start its nodes; its files stay closed."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from harness.clusters.attached.discovery import Door
from harness.clusters.attached.hook_links import HookLinks
from harness.clusters.attached.hook_runner import Done, HookRunner
from harness.clusters.base import TESTED, Disks, Links, TierServer
from harness.kafka.admin.client import AdminView
from harness.kafka.admin.security import Security
from harness.kafka.release.release import Release
from harness.model.documents.process_exit import ProcessExit
from harness.model.errors import HarnessFailure
from harness.model.hooks import KILL, PAUSE, TERMINATE, Hooks
from harness.model.live_cluster import LiveCluster
from harness.model.scenario.scenario import ClusterShape
from harness.model.waiting import wait_for

_CONNECT_S: Final = 1.0
_STOPS: Final = (KILL, TERMINATE)
_LOG: Final = "hooks.log"


class AttachedCluster:
    """Implements `base.Cluster`. hooks: None = no fault of nodes or links is possible. log: for the output of hooks."""

    def __init__(self, door: Door, live: LiveCluster, release: Release, hooks: Hooks | None, log: Path) -> None:
        self.live = live
        self.release = release
        self.releases: Mapping[str, Release] = {TESTED: release}
        self.java: str | None = None
        self.shape = ClusterShape(brokers=len(live.ids), controllers=max(1, len(live.controllers)))
        self.capabilities = hooks.capabilities(live.ids) if hooks else frozenset[str]()
        self.directory = log.parent
        self.brokers = live.ids
        self.controllers = live.controllers
        self.addressed_controllers: tuple[int, ...] = ()  # only brokers tell clients their addresses
        self.selects_replicas = False
        self.disks: Disks | None = None
        self.tier_store: Path | None = None
        self.tier_server: TierServer | None = None
        self._door = door
        self._hooks = hooks
        self._runner = HookRunner(hooks, log) if hooks else None
        self.links: Links = HookLinks(hooks, self._runner, live)

    @property
    def security(self) -> Security:
        """See `base.Cluster`."""
        return self._door.security

    @property
    def command_config(self) -> Path | None:
        """See `base.Cluster`."""
        return self._door.file

    def logs(self) -> dict[str, Path]:
        """See `base.Cluster`: the output of the hooks."""
        log = self._runner.log if self._runner else None
        return {_LOG: log} if log is not None and log.is_file() and log.stat().st_size else {}

    # --- addresses ---

    def bootstrap(self) -> str:
        """See `base.Cluster`. In the order of the brokers' ids."""
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self._addresses())

    def bootstrap_isolated(self) -> str:
        """See `base.Cluster`."""
        return ""

    def bootstrap_direct(self) -> str:
        """See `base.Cluster`. Hooks cut no link of clients."""
        return self.bootstrap()

    def client_settings(self) -> Mapping[str, str]:
        """See `base.Cluster`."""
        return self._door.config

    def direct_address(self, node: int) -> tuple[str, int]:
        """See `base.Cluster`. HarnessFailure for a controller: only brokers tell clients their addresses."""
        if node not in self.live.brokers:
            raise HarnessFailure(f"the address of controller {node} is not known")
        return self.live.brokers[node]

    def _addresses(self) -> list[tuple[str, int]]:
        return [self.live.brokers[broker] for broker in self.brokers]

    # --- nodes ---

    def kill(self, *nodes: int) -> None:
        """See `base.Cluster`."""
        self._together(KILL, nodes)

    def terminate(self, node: int, deadline_s: float = 30) -> None:  # noqa: ARG002 - that of the hook counts
        """See `base.Cluster`."""
        self._together(TERMINATE, (node,))

    def pause(self, *nodes: int) -> None:
        """See `base.Cluster`."""
        self._together(PAUSE, nodes)

    def resume(self, *nodes: int) -> None:
        """See `base.Cluster`."""
        for node in nodes:
            self._need_hooks().undo(_key(PAUSE, node))
        for node in nodes:
            self._need_hooks().await_undone(_key(PAUSE, node))

    def bring_up(self) -> None:
        """See `base.Cluster`: it was up before the harness came."""

    def start(self, *nodes: int) -> None:
        """See `base.Cluster`. A node that returns by itself needs no command."""
        for node in nodes:
            for operation in _STOPS:
                self._need_hooks().undo(_key(operation, node))

    def running(self, node: int) -> bool:
        """See `base.Cluster`. Not after a hook has stopped it, until the hook says otherwise; a broker must listen."""
        if self._runner and not all(self._back(node, operation) for operation in _STOPS):
            return False
        return node not in self.live.brokers or _listens(self.live.brokers[node])

    def paused(self, node: int) -> bool:
        """See `base.Cluster`."""
        return self._runner is not None and _key(PAUSE, node) in self._runner.left

    def wait_started(self, node: int, deadline_s: float) -> None:
        """See `base.Cluster`. A broker is back when the other brokers list it, too: then no controller fences it."""
        for operation in _STOPS:
            self._need_hooks().await_undone(_key(operation, node), deadline_s)
        if node not in self.live.brokers:
            return
        with AdminView(self.live.brokers, security=self.security) as admin:

            def seen() -> str:
                listed = admin.registered()
                if node not in listed:
                    return "it does not answer"
                return "" if all(node in known for known in listed.values()) else "other brokers do not list it"

            wait_for(
                seen,
                until=lambda last: not last,
                deadline_s=deadline_s,
                what=f"broker {node} to be back",
                interval_s=0.2,
            )

    def heal(self) -> None:
        """See `base.Cluster`."""
        if self._runner is None:
            return
        for key in reversed(self._runner.left):
            self._runner.undo(key)

    def stop(self) -> None:
        """See `base.Cluster`. Nothing of the cluster is stopped: what hooks did is undone. HarnessFailure, which names
        it, if something is not undone."""
        if self._runner is None:
            return
        if failed := self._runner.close():
            raise HarnessFailure(
                f"hooks are NOT undone: {'; '.join(failed)}; undo them by hand, see {self._runner.log}"
            )

    def close(self) -> None:
        """See `base.Cluster`."""
        self.stop()

    def describe_kept(self) -> str:
        """See `base.Cluster`."""
        return f"the cluster {self.live.cluster_id} is left as it is"

    def _together(self, operation: str, nodes: tuple[int, ...]) -> None:
        """Does something to all nodes at one moment. HarnessFailure if a hook fails; the others are waited for."""
        runner, hooks = self._need_hooks(), self._hooks
        assert hooks is not None
        wanted = [node for node in nodes if _key(operation, node) not in runner.left]
        if not wanted:
            return
        done = [Done(_key(operation, node), operation, hooks.values_of_node(node, self.live)) for node in wanted]
        with ThreadPoolExecutor(len(done), thread_name_prefix="hooks") as pool:
            running = [pool.submit(runner.apply, one) for one in done]
        for one in running:
            one.result()

    def _back(self, node: int, operation: str) -> bool:
        assert self._runner is not None
        return self._runner.is_undone(_key(operation, node))

    def _need_hooks(self) -> HookRunner:
        if self._runner is None:
            raise HarnessFailure("no hooks were given, so nothing can be done to a node")
        return self._runner

    # --- what only a cluster of the harness has ---

    def exits(self) -> list[ProcessExit] | None:
        """See `base.Cluster`. The processes of others cannot be watched."""
        return None

    def unexpected_exits(self) -> list[ProcessExit]:
        """See `base.Cluster`."""
        return []

    def forget_exits(self) -> None:
        """See `base.Cluster`."""

    def let_end(self, node: int) -> None:
        """See `base.Cluster`."""

    def agent_address(self, node: int) -> tuple[str, int]:
        """See `base.Cluster`."""
        _closed(node)

    def let_halt(self, node: int, code: int) -> None:
        """See `base.Cluster`."""

    def how_it_ended(self, node: int) -> str:  # noqa: ARG002 - nobody knows
        """See `base.Cluster`."""
        return ""

    def release_memory(self, node: int) -> None:
        """See `base.Cluster`."""

    def log_directories(self, node: int) -> tuple[Path, ...]:
        """See `base.Cluster`."""
        _closed(node)

    def server_log(self, node: int) -> Path:
        """See `base.Cluster`."""
        _closed(node)

    def console_log(self, node: int) -> Path:
        """See `base.Cluster`."""
        _closed(node)

    def directory_id(self, node: int) -> str:
        """See `base.Cluster`."""
        _closed(node)

    def wipe(self, node: int) -> None:
        """See `base.Cluster`."""
        _closed(node)

    def use_release(self, node: int, which: str) -> None:  # noqa: ARG002 - no release of it is known
        """See `base.Cluster`."""
        _closed(node)

    def release_of(self, node: int) -> Release:  # noqa: ARG002 - all nodes run what the user says
        """See `base.Cluster`."""
        return self.release

    def limit_file_size(self, node: int, size_bytes: int | None) -> None:  # noqa: ARG002 - it is not possible
        """See `base.Cluster`."""
        _closed(node)

    def set_clock(self, node: int, ahead_s: float) -> None:  # noqa: ARG002 - it is not possible
        """See `base.Cluster`."""
        _closed(node)

    def squeeze_memory(self, node: int) -> int:
        """See `base.Cluster`."""
        _closed(node)


def _key(operation: str, node: int) -> str:
    return f"{operation} of node {node}"


def _closed(node: int) -> NoReturn:
    raise HarnessFailure(f"the files and the process of node {node} are out of reach: the harness did not start it")


def _listens(address: tuple[str, int]) -> bool:
    with suppress(OSError), socket.create_connection(address, timeout=_CONNECT_S):
        return True
    return False
