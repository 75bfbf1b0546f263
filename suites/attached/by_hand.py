"""A plain KRaft cluster that the harness did not start: three brokers and a controller, with Kafka's own defaults.

It imports nothing of `harness.clusters`. A pid file for each node lets commands of hooks stop and start it, as an
operator's scripts would: `python -m suites.attached.by_hand FOLDER start 2`.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.kafka.release.cache import default_cache
from harness.kafka.release.java import find_java
from harness.kafka.release.release import resolve
from harness.model.waiting import wait_for

MODULE: Final = "suites.attached.by_hand"  # also when it runs as the main module
RELEASE: Final = "4.4.0"
BROKERS: Final = (1, 2, 3)
CONTROLLER: Final = 9
CLUSTER_ID: Final = "J0hnDoesOwnClusterQQQQ"
_START_S: Final = 90.0
_STOP_S: Final = 60.0
_LOGGING: Final = """\
status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.console.ref=console
"""
_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


@dataclass(frozen=True)
class ByHand:
    """The folder of a cluster, with a folder for each node. ports: of each node's clients and of its controller.

    combined: the brokers are the controllers, too, and there is no other one. hosts: of nodes elsewhere than here.
    protocol: of the listener for clients, whose further settings are in `settings`.
    """

    folder: Path
    ports: Mapping[int, tuple[int, int]]
    settings: Mapping[str, str] = field(default_factory=dict)
    combined: bool = False
    hosts: Mapping[int, str] = field(default_factory=dict)
    protocol: str = "PLAINTEXT"

    @property
    def bootstrap(self) -> str:
        """The addresses for clients."""
        return ",".join(f"{self._host(broker)}:{self.ports[broker][0]}" for broker in BROKERS)

    @property
    def nodes(self) -> tuple[int, ...]:
        """All nodes."""
        return tuple(self.ports)

    def _host(self, node: int) -> str:
        return self.hosts.get(node, "127.0.0.1")

    def node(self, node: int) -> Path:
        """The folder of a node."""
        return self.folder / f"node-{node}"

    def write(self) -> None:
        """Writes the settings and the storage of each node, and the commands that start them."""
        release = resolve(RELEASE, maven_repo=None, cache=default_cache(), progress=lambda _: None)
        java = str(find_java(RELEASE).executable)
        classpath = ":".join(map(str, release.classpath))
        for node in self.nodes:
            folder = self.node(node)
            folder.mkdir(parents=True)
            properties = folder / "server.properties"
            properties.write_text("".join(f"{k}={v}\n" for k, v in self._properties(node).items()), "utf-8")
            logging = folder / "log4j2.properties"
            logging.write_text(_LOGGING, "utf-8")
            command = [java, *_JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", classpath]
            command += ["kafka.Kafka", str(properties)]
            (folder / "command").write_text(shlex.join(command), "utf-8")
            tool = [java, *_JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", classpath, "kafka.tools.StorageTool"]
            tool += ["format", "-t", CLUSTER_ID, "-c", str(properties)]
            done = subprocess.run(tool, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stdout + done.stderr

    def _properties(self, node: int) -> dict[str, str]:
        client, controller = self.ports[node]
        controllers = BROKERS if self.combined else (CONTROLLER,)
        roles = [role for role, of in (("broker", BROKERS), ("controller", controllers)) if node in of]
        host = self._host(node)
        listeners = {"broker": f"{self.protocol}://{host}:{client}", "controller": f"CONTROLLER://{host}:{controller}"}
        return {
            "process.roles": ",".join(roles),
            "node.id": str(node),
            "controller.quorum.voters": ",".join(f"{n}@{self._host(n)}:{self.ports[n][1]}" for n in controllers),
            "listeners": ",".join(listeners[role] for role in roles),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.node(node) / "data"),
            **({"security.inter.broker.protocol": self.protocol} if node in BROKERS else {}),
            **self.settings,
        }


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens at."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def start(folder: Path) -> None:
    """Starts a node, unless it runs, and returns when it has said that it started."""
    if _pid(folder) is not None:
        return
    log = folder / "console.log"
    begins = log.stat().st_size if log.exists() else 0
    with log.open("ab") as output:
        process = subprocess.Popen(
            shlex.split((folder / "command").read_text("utf-8")),
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            start_new_session=True,
        )
    (folder / "pid").write_text(str(process.pid), "ascii")
    wait_for(
        lambda: b"Kafka Server started" in log.read_bytes()[begins:] or process.poll() is not None,
        until=bool,
        deadline_s=_START_S,
        what=f"{folder} to start",
    )
    assert process.poll() is None, log.read_text("utf-8", "replace")[-2000:]


def stop(folder: Path, number: signal.Signals = signal.SIGKILL) -> None:
    """Sends a node a signal that ends it, and returns when it has ended."""
    if (pid := _pid(folder)) is None:
        return
    os.kill(pid, number)
    if number is not signal.SIGKILL:
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: _pid(folder) is None, until=bool, deadline_s=_STOP_S, what=f"{folder} to end")


def _pid(folder: Path) -> int | None:
    """The process of a node that runs, frozen or not; None when there is none, or only its zombie."""
    try:
        pid = int((folder / "pid").read_text("ascii"))
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return pid if state not in "ZX" and str(folder).encode() in command else None


def state(folder: Path) -> str:
    """ "running", "frozen" or "stopped"."""
    if (pid := _pid(folder)) is None:
        return "stopped"
    seen = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    return "frozen" if seen == "T" else "running"


@contextmanager
def by_hand(
    folder: Path, settings: Mapping[str, str] | None = None, *, combined: bool = False, protocol: str = "PLAINTEXT"
) -> Iterator[ByHand]:
    """A running cluster in a folder. It is ended when this ends."""
    nodes = BROKERS if combined else (CONTROLLER, *BROKERS)
    ports = free_ports(2 * len(nodes))
    of = {n: (ports[2 * i], ports[2 * i + 1]) for i, n in enumerate(nodes)}
    cluster = ByHand(folder, of, settings or {}, combined, protocol=protocol)
    cluster.write()
    try:
        starting = [subprocess.Popen([sys.executable, "-m", MODULE, str(folder), "start", str(n)]) for n in nodes]
        for one in starting:
            assert one.wait(_START_S + 10) == 0
        yield cluster
    finally:
        for node in nodes:
            stop(cluster.node(node))


def main(folder: str, what: str, node: str) -> int:
    """The commands of hooks. `is`: exit 0 if the node is in that state, as in `is-stopped`."""
    place = Path(folder) / f"node-{node}"
    if what == "start":
        start(place)
    elif what in ("kill", "terminate"):
        stop(place, signal.SIGKILL if what == "kill" else signal.SIGTERM)
    elif what in ("pause", "resume"):
        if (pid := _pid(place)) is not None:
            os.kill(pid, signal.SIGSTOP if what == "pause" else signal.SIGCONT)
    else:
        print(state(place))
        return 0 if what == f"is-{state(place)}" else 1
    return 0


if __name__ == "__main__":
    if sys.argv[2] == "up":  # for a person: python -m suites.attached.by_hand FOLDER up combined|apart [KEY=VALUE...]
        given = dict(word.split("=", 1) for word in sys.argv[4:])
        with by_hand(Path(sys.argv[1]).absolute(), given, combined=sys.argv[3] == "combined") as running:
            print(running.bootstrap, flush=True)
            while True:
                time.sleep(3600)
    sys.exit(main(*sys.argv[1:]))
