"""What faults, workload and run see of a cluster, whichever backend runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from harness.kafka.release.release import Release
from harness.model.link import Break, CutMode, Direction
from harness.model.scenario.scenario import ClusterShape, FileSystem

FIRST_CONTROLLER = 101
# Releases of a cluster: the one under test, and the earlier one that it begins on where its shape says so.
TESTED: Final = "tested"
START: Final = "start"


@dataclass(frozen=True, slots=True)
class UnexpectedExit:
    """A process of the cluster that ended although nobody asked it to."""

    name: str  # "b1", "c101", "toxiproxy"
    status: str  # "exit code 1", "signal SIGABRT"
    at_ns: int  # epoch nanoseconds
    log_tail: str

    def __str__(self) -> str:
        last = self.log_tail.strip().splitlines()
        return f"{self.name} ended by itself ({self.status}); its log ends: {last[-1] if last else 'empty'}"


class Links(Protocol):
    """Directed links. Parties are "b1", "b2", ... (brokers), "c101", ... (controllers), "client" and "isolated_client".

    A link is named by who opens the connection: ("b2", "b1") is follower 2 fetching from leader 1, ("client", "b1")
    are all client connections to broker 1 but those of the "isolated_client" party, whose clients have a listener of
    their own.
    Requests go the way the link is named, answers come back.
    Raises BadInput for a link that nobody opens (a KRaft controller never connects to a broker).
    """

    def cut(self, src: str, dst: str, mode: CutMode, direction: Direction = "both") -> None:
        """Connections that exist and those to come: "silent" accepts and swallows, "refusing" closes and refuses."""
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
        """Through the hop of the link, which the caller runs where `hop` says; closes the connections that exist."""
        ...

    def frame_proxy(self, src: str, dst: str) -> tuple[str, str]:
        """Where a hop on the link listens, and whom it has to reach. BadInput for a link that has none."""
        ...

    def heal(self, src: str, dst: str, what: Break | None = None) -> None:
        """All that is broken on the link, or only its cuts, its slowness or its detour. Idempotent."""
        ...

    def heal_all(self) -> None:
        """Idempotent."""
        ...

    def active(self) -> list[str]:
        """What is broken now, as text, sorted; empty after healing."""
        ...

    def parties_reaching(self, dst: str) -> tuple[str, ...]:
        """Who opens connections to `dst`."""
        ...

    def reached_from(self, src: str) -> tuple[str, ...]:
        """To whom `src` opens connections."""
        ...


class Disks(Protocol):
    """Disks of the brokers' own, each a file system for one log directory ("disk.own"), by which they are named here.

    Before anything is broken it is made sure that the directory is the mount of the disk that this run made for it.
    HarnessFailure otherwise, and where the machine refuses.
    """

    @property
    def file_system(self) -> FileSystem: ...

    def shut_down(self, directory: Path) -> None:
        """The file system fails at once, with EIO, and for good; whatever had not reached the disk is gone."""
        ...

    def usable(self, directory: Path) -> bool:
        """Whether it is mounted and takes files, or would if it had room; False when it fails or is read-only."""
        ...

    def remount(self, directory: Path, *, as_remembered: bool = False) -> None:
        """Unmounts it, if it is mounted, and mounts it again, which replays its journal. Nobody may be using it.

        as_remembered: with all that was written since `remember` gone from it, however well it was flushed.
        """
        ...

    def remember(self, directory: Path) -> None:
        """What stands on the disk now is what `as_remembered` puts back."""
        ...

    def freeze(self, directory: Path) -> None:
        """Whoever writes to it, or flushes, waits until `thaw`, and cannot be killed before."""
        ...

    def thaw(self, directory: Path) -> None:
        """Idempotent."""
        ...

    def slow(self, directory: Path, writes_per_s: int | None) -> None:
        """What reaches it does so in so many writes a second ("disk.slow"); None = as fast as it can. Idempotent."""
        ...

    def flush_s(self, directory: Path) -> float:
        """How long a small file takes to be on it, in seconds."""
        ...

    def turn_read_only(self, directory: Path) -> None:
        """It meets an error and takes no more writes, with EROFS, until it is mounted again ("disk.ext4")."""
        ...

    def fill(self, directory: Path, spare_kb: int) -> int:
        """Leaves only so much room on it; the bytes that it took."""
        ...

    def make_room(self, directory: Path) -> None:
        """Takes back what `fill` put there. Idempotent."""
        ...

    def heal(self, directories: Sequence[Path]) -> None:
        """None is frozen, slow or full any more. Idempotent."""
        ...


class TierServer(Protocol):
    """The server that brokers reach their remote tier by."""

    def admit(self) -> None:
        """Starts it anew: it takes the brokers' keys."""
        ...

    def turn_away(self) -> None:
        """Starts it anew, and it takes other keys than the brokers have, as when theirs were revoked."""
        ...


class Cluster(Protocol):
    """A running Kafka cluster of brokers 1..n and isolated controllers 101.. ."""

    shape: ClusterShape
    release: Release  # under test
    releases: Mapping[str, Release]  # TESTED, and START where the cluster begins on another one
    capabilities: frozenset[str]
    directory: Path
    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    links: Links
    disks: Disks | None  # None where log directories lie on the file system of the machine
    tier_store: Path | None  # the folder that brokers share as their remote tier, where the shape has one
    tier_server: TierServer | None  # where the shape has a tier in S3

    def bootstrap(self) -> str:
        """Where clients of the load start: through every fault."""
        ...

    def bootstrap_isolated(self) -> str:
        """Where those start that come in by a way of their own, through faults of their own; empty without such."""
        ...

    def bootstrap_direct(self) -> str:
        """Where observers start: past every fault of the links."""
        ...

    def client_settings(self) -> Mapping[str, str]:
        """Of librdkafka, for whoever starts at `bootstrap` or `bootstrap_lone`; empty where those ways are plain."""
        ...

    def direct_address(self, node: int) -> tuple[str, int]:
        """The listener of a node that no fault of the links touches; for a controller its only one (KIP-919)."""
        ...

    def kill(self, *nodes: int) -> None:
        """SIGKILL, all of them at one moment; returns when they are gone. A node that is down is left alone."""
        ...

    def terminate(self, node: int, deadline_s: float = 30) -> None:
        """SIGTERM, that is a controlled shutdown. Raises HarnessTimeout when it has not ended by the deadline."""
        ...

    def pause(self, *nodes: int) -> None:
        """SIGSTOP; returns when they stand still."""
        ...

    def resume(self, *nodes: int) -> None:
        """SIGCONT; returns when they are no longer stopped."""
        ...

    def start(self, *nodes: int) -> None:
        """Starts stopped nodes again on the same disk, and does not wait for them; running ones are left alone."""
        ...

    def running(self, node: int) -> bool:
        """Whether its process exists, paused or not."""
        ...

    def paused(self, node: int) -> bool: ...

    def wait_started(self, node: int, deadline_s: float) -> None:
        """Until the node says "Kafka Server started" after its last start; a broker is unfenced then."""
        ...

    def log_directories(self, node: int) -> tuple[Path, ...]: ...

    def server_log(self, node: int) -> Path: ...

    def console_log(self, node: int) -> Path:
        """What the JVM itself printed."""
        ...

    def directory_id(self, node: int) -> str:
        """Of its metadata directory (KIP-858): with voters that can change a controller is known by it, too."""
        ...

    def wipe(self, node: int) -> None:
        """Puts an empty, newly formatted disk in the place of each log directory of a node that is down ("disk.write").

        Same node and cluster id, another directory id (KIP-858). HarnessFailure while the node runs.
        """
        ...

    def use_release(self, node: int, which: str) -> None:
        """From its next start on, a node that is down runs that release of `releases`, on the disk that it has.

        HarnessFailure while the node runs, and for a release that the cluster has not.
        """
        ...

    def release_of(self, node: int) -> Release:
        """What a node runs, or will when it is started."""
        ...

    def limit_file_size(self, node: int, size_bytes: int | None) -> None:
        """The size beyond which no file of a running node can grow ("disk.full"); None lifts it.

        The node is expected to end of it, so that its end is no unexpected exit. A new process begins without a limit;
        a node that is down is left alone.
        """
        ...

    def let_end(self, node: int) -> None:
        """The node is expected to end by itself: until its next start that is no unexpected exit."""
        ...

    def how_it_ended(self, node: int) -> str:
        """Of a node that is down: "exit code 3", "signal SIGKILL", and what else is known; empty while it runs."""
        ...

    def set_clock(self, node: int, ahead_s: float) -> None:
        """From now on so far ahead of the machine's, or behind it if negative ("clock").

        Takes effect within a second, and lasts until it is set anew. HarnessFailure unless the shape asked for it.
        """
        ...

    def squeeze_memory(self, node: int) -> int:
        """Leaves a running node no more memory than it has ("memory.limit"); the limit, in bytes."""
        ...

    def release_memory(self, node: int) -> None:
        """Ends `squeeze_memory`. Idempotent."""
        ...

    def unexpected_exits(self) -> list[UnexpectedExit]:
        """Processes that died unasked since the start, the oldest first."""
        ...

    def heal(self) -> None:
        """Links healed, paused nodes resumed, stopped nodes started (not waited for). Idempotent."""
        ...

    def stop(self) -> None:
        """Everything gone, processes and directory. Idempotent."""
        ...

    def close(self) -> None:
        """`stop()`, unless the cluster is to be kept."""
        ...

    def describe_kept(self) -> str:
        """How to reach and how to stop a cluster that is kept."""
        ...


TIER: Final = "tier"  # the party of a link that the server of a remote tier is


def party(node: int) -> str:
    """The name of a node as a party of a link: "b1", "c101"."""
    return f"c{node}" if node >= FIRST_CONTROLLER else f"b{node}"
