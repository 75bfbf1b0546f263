"""The interface of a cluster, the same for every backend. Faults, the workload and the run use nothing else of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from harness.kafka.admin.security import Security
from harness.kafka.release.release import Release
from harness.model.documents.process_exit import ProcessExit
from harness.model.link import Break, CutMode, Direction
from harness.model.scenario.scenario import ClusterShape, FileSystem

FIRST_CONTROLLER = 101
# Keys of `Cluster.releases`: the release under test, and the earlier one on which the cluster starts if its shape
# names one (`starts_on`).
TESTED: Final = "tested"
START: Final = "start"
# The end of `how_it_ended` of a process that the kernel killed for its memory.
OUT_OF_MEMORY: Final = "out of the memory that its container may use"
TIER: Final = "tier"  # the server of a remote tier, as a party of a link


def party(node: int) -> str:
    """The name of a node as a party of a link: "b1" for a broker, "c101" for a controller."""
    return f"c{node}" if node >= FIRST_CONTROLLER else f"b{node}"


class Links(Protocol):
    """Directed network links between the parties of a cluster.

    Parties are "b1", "b2", ... (brokers), "c101", ... (controllers), "client", "isolated_client" and, with a remote
    tier in S3, "tier". A link is named by the party that opens the connection, then the party that accepts it:
    ("b2", "b1") is follower 2 fetching from leader 1. ("client", "b1") stands for all client connections to broker 1,
    except those of "isolated_client", which use a listener of their own. Requests travel from the first
    party to the second, answers travel back.
    Raises BadInput for a link that does not exist: a KRaft controller never connects to a broker.
    """

    def cut(self, src: str, dst: str, mode: CutMode, direction: Direction = "both") -> None:
        """Cuts existing and new connections.

        "silent" accepts connections and swallows the bytes; "refusing" closes connections and refuses new ones.
        """
        ...

    def slow(
        self,
        src: str,
        dst: str,
        latency_ms: int = 0,
        jitter_ms: int = 0,
        rate_kb_s: int | None = None,
        direction: Direction = "both",
    ) -> None:
        """Delays each chosen direction by `latency_ms` +- `jitter_ms` and limits it to `rate_kb_s` KB/s."""
        ...

    def divert(self, src: str, dst: str) -> None:
        """Sends the link through its frame proxy and closes existing connections.

        The caller runs that proxy at the address that `frame_proxy` returns.
        """
        ...

    def frame_proxy(self, src: str, dst: str) -> tuple[str, str]:
        """The address at which a frame proxy of the link has to listen, and the address to which it has to forward.

        BadInput for a link that cannot have one.
        """
        ...

    def heal(self, src: str, dst: str, what: Break | None = None) -> None:
        """Heals everything on the link, or only its cuts, its slowness or its diversion. Idempotent."""
        ...

    def heal_all(self) -> None:
        """Heals every link. Idempotent."""
        ...

    def active(self) -> list[str]:
        """The links that are broken now, one sorted text for each; empty after healing."""
        ...

    def parties_reaching(self, dst: str) -> tuple[str, ...]:
        """The parties that open connections to `dst`."""
        ...

    def reached_from(self, src: str) -> tuple[str, ...]:
        """The parties to which `src` opens connections."""
        ...


class Disks(Protocol):
    """The brokers' own disks ("disk.own"): one file system for each log directory, and named by that directory.

    Before a disk is broken, it is checked that the directory is the mount of the disk that this run made for it.
    Raises HarnessFailure if it is not, and if the machine refuses.
    """

    @property
    def file_system(self) -> FileSystem: ...

    def shut_down(self, directory: Path) -> None:
        """The file system fails at once and for good, with EIO. All data that had not reached the disk is lost."""
        ...

    def usable(self, directory: Path) -> bool:
        """Whether the disk is mounted and takes files, or would if it had room. False when it fails or is read-only."""
        ...

    def remount(self, directory: Path, *, as_remembered: bool = False) -> None:
        """Unmounts the disk, if it is mounted, and mounts it again, which replays its journal.

        No process may be using the disk. as_remembered: restores the content of the last `remember`, so that all later
        writes are lost, even flushed ones.
        """
        ...

    def remember(self, directory: Path) -> None:
        """Saves the present content of the disk for `remount(as_remembered=True)`."""
        ...

    def freeze(self, directory: Path) -> None:
        """Blocks every process that writes to the disk or flushes it, until `thaw`. SIGKILL does not end it before."""
        ...

    def thaw(self, directory: Path) -> None:
        """Ends `freeze`. Idempotent."""
        ...

    def slow(self, directory: Path, writes_per_s: int | None) -> None:
        """Limits the writes that reach the disk to so many a second ("disk.slow"); None = no limit. Idempotent."""
        ...

    def flush_s(self, directory: Path) -> float:
        """Seconds that it takes to write and flush a small file."""
        ...

    def turn_read_only(self, directory: Path) -> None:
        """The file system meets an error and refuses writes with EROFS until it is mounted again ("disk.ext4")."""
        ...

    def fill(self, directory: Path, spare_kb: int) -> int:
        """Fills the disk except for `spare_kb` KB. Returns the bytes that this took."""
        ...

    def make_room(self, directory: Path) -> None:
        """Ends `fill`. Idempotent."""
        ...

    def heal(self, directories: Sequence[Path]) -> None:
        """Afterwards none of the disks is frozen, slow or full. Idempotent."""
        ...


class TierServer(Protocol):
    """The server through which brokers reach a remote tier in S3."""

    def admit(self) -> None:
        """Restarts the server so that it accepts the brokers' keys."""
        ...

    def turn_away(self) -> None:
        """Restarts the server with keys that the brokers do not have, as if theirs had been revoked."""
        ...


class Cluster(Protocol):
    """A Kafka cluster: brokers 1..n, and isolated controllers from 101 on."""

    @property
    def shape(self) -> ClusterShape: ...
    @property
    def release(self) -> Release:
        """The release under test."""
        ...

    @property
    def releases(self) -> Mapping[str, Release]:
        """TESTED, and START if the cluster starts on an earlier release."""
        ...

    @property
    def java(self) -> str | None:
        """Version and vendor of the Java that runs `release`; None = not known."""
        ...

    @property
    def capabilities(self) -> frozenset[str]: ...
    @property
    def directory(self) -> Path: ...
    @property
    def brokers(self) -> tuple[int, ...]: ...
    @property
    def controllers(self) -> tuple[int, ...]: ...
    @property
    def links(self) -> Links: ...
    @property
    def disks(self) -> Disks | None:
        """None if the log directories lie on the file system of the machine."""
        ...

    @property
    def tier_store(self) -> Path | None:
        """The folder that the brokers share as their remote tier; None without a tier."""
        ...

    @property
    def tier_server(self) -> TierServer | None:
        """None unless the shape has a tier in S3."""
        ...

    @property
    def addressed_controllers(self) -> tuple[int, ...]:
        """Those of `controllers` that have a `direct_address`."""
        ...

    @property
    def selects_replicas(self) -> bool:
        """Whether leaders send a consumer to the follower in its rack, which is r1 for broker 1 (KIP-392)."""
        ...

    @property
    def security(self) -> Security:
        """How observers' own connections to `direct_address` are secured."""
        ...

    @property
    def command_config(self) -> Path | None:
        """A file with the settings of clients for other commands; None where these need none."""
        ...

    def logs(self) -> Mapping[str, Path]:
        """Logs for the evidence, as they are now, by their names there."""
        ...

    def bootstrap(self) -> str:
        """Bootstrap servers for the clients of the load: every fault of the links affects these connections."""
        ...

    def bootstrap_isolated(self) -> str:
        """Bootstrap servers for isolated clients, which have links and faults of their own; empty if there are none."""
        ...

    def bootstrap_direct(self) -> str:
        """Bootstrap servers for observers: no fault of the links affects these connections."""
        ...

    def client_settings(self) -> Mapping[str, str]:
        """librdkafka settings that `bootstrap` and `bootstrap_isolated` need; empty for plaintext listeners."""
        ...

    def direct_address(self, node: int) -> tuple[str, int]:
        """Host and port of a node's listener that no fault of the links affects.

        A controller has only one listener (KIP-919).
        """
        ...

    def bring_up(self) -> None:
        """Starts every node and returns when each has started. Does nothing on a cluster that is up.

        HarnessFailure if a node does not start. Its logs are there, and its end is one of `exits` where it may be the
        fault of the release under test.
        """
        ...

    def kill(self, *nodes: int) -> None:
        """Sends SIGKILL to all of them at one moment and returns when they have ended. Ignores stopped nodes."""
        ...

    def terminate(self, node: int, deadline_s: float = 30) -> None:
        """Shuts a node down in a controlled way, by SIGTERM. HarnessTimeout when it has not ended by the deadline."""
        ...

    def pause(self, *nodes: int) -> None:
        """Sends SIGSTOP and returns when the processes are stopped."""
        ...

    def resume(self, *nodes: int) -> None:
        """Sends SIGCONT and returns when the processes run again."""
        ...

    def start(self, *nodes: int) -> None:
        """Starts stopped nodes on the disks that they have, without waiting for them. Ignores running nodes."""
        ...

    def running(self, node: int) -> bool:
        """Whether the node's process exists, paused or not."""
        ...

    def paused(self, node: int) -> bool: ...

    def wait_started(self, node: int, deadline_s: float) -> None:
        """Waits until the node logs "Kafka Server started" after its last start; a broker is unfenced then."""
        ...

    def log_directories(self, node: int) -> tuple[Path, ...]: ...

    def server_log(self, node: int) -> Path: ...

    def console_log(self, node: int) -> Path:
        """The output of the JVM itself."""
        ...

    def directory_id(self, node: int) -> str:
        """The id of the node's metadata directory (KIP-858). It is part of a controller's identity as a voter."""
        ...

    def wipe(self, node: int) -> None:
        """Replaces each log directory of a stopped node by an empty, newly formatted one ("disk.write").

        Node id and cluster id stay, the directory ids are new (KIP-858). HarnessFailure while the node runs.
        """
        ...

    def use_release(self, node: int, which: str) -> None:
        """From its next start on, a stopped node runs that release of `releases`, on the disks that it has.

        HarnessFailure while the node runs, and for a release that the cluster does not have.
        """
        ...

    def release_of(self, node: int) -> Release:
        """The release that the node runs, or will run when it is started."""
        ...

    def limit_file_size(self, node: int, size_bytes: int | None) -> None:
        """Limits the size of every file of a running node ("disk.full"); None lifts the limit.

        The node is expected to end because of it, so its end does not count as unexpected. A new process starts without
        a limit. Ignores stopped nodes.
        """
        ...

    def let_end(self, node: int) -> None:
        """The node is expected to end by itself: until its next start, its end does not count as unexpected."""
        ...

    def agent_address(self, node: int) -> tuple[str, int]:
        """Host and port at which the agent of a node takes rules ("agent"). HarnessFailure unless the shape asked for
        it."""
        ...

    def let_halt(self, node: int, code: int) -> None:
        """A rule of the agent may end the node with this exit code: until its next start, such an end is one by the
        harness, like that of `kill`. An end with another code is not."""
        ...

    def how_it_ended(self, node: int) -> str:
        """How a stopped node ended: "exit code 3", "signal SIGKILL", and further details; empty while it runs."""
        ...

    def set_clock(self, node: int, ahead_s: float) -> None:
        """Sets the node's clock `ahead_s` seconds ahead of the machine's clock, or behind it if negative ("clock").

        Takes effect within a second and lasts until the next call. HarnessFailure unless the shape asked for it.
        """
        ...

    def squeeze_memory(self, node: int) -> int:
        """Limits a running node to the memory that it uses now ("memory.limit"). Returns the limit in bytes."""
        ...

    def release_memory(self, node: int) -> None:
        """Ends `squeeze_memory`. Idempotent."""
        ...

    def exits(self) -> list[ProcessExit] | None:
        """Processes that have ended since the start although the harness had sent them no signal to end, oldest first.

        None if the cluster's processes cannot be watched. Those of `let_end` and `limit_file_size` are among them.
        """
        ...

    def unexpected_exits(self) -> list[ProcessExit]:
        """Those of `exits` without the processes that a fault may end."""
        ...

    def forget_exits(self) -> None:
        """Leaves the ends that are known by now out of later answers: a run has recorded them."""
        ...

    def heal(self) -> None:
        """Heals links and disks, resumes paused nodes, starts stopped ones without waiting for them. Idempotent."""
        ...

    def stop(self) -> None:
        """Ends all processes and removes the directory. Idempotent."""
        ...

    def close(self) -> None:
        """`stop()`, unless the cluster is to be kept."""
        ...

    def describe_kept(self) -> str:
        """One sentence: how to reach a cluster that is kept, and how to stop it."""
        ...
