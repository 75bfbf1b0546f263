"""`durability audit` as a process beside a real cluster, and what it prints."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.model.waiting import wait_for

COMMAND: Final = (sys.executable, "-m", "harness.commands.main", "audit")
START_S: Final = 60.0
ALARM_S: Final = 30.0


@dataclass(slots=True)
class AuditorProcess:
    """One auditor with --json."""

    process: subprocess.Popen[bytes]
    folder: Path
    out: Path
    rows: list[dict[str, Any]] = field(default_factory=list)

    def read(self) -> list[dict[str, Any]]:
        """All rows that it has printed so far."""
        self.rows = [json.loads(line) for line in self.out.read_text().splitlines() if line.endswith("}")]
        return self.rows

    def row(self, event: str, deadline_s: float = ALARM_S, **wanted: object) -> dict[str, Any]:
        """The first row of an event with these values, as soon as it is there."""

        def found() -> dict[str, Any] | None:
            matching = (r for r in self.read() if r["event"] == event)
            return next((r for r in matching if all(r.get(k) == v for k, v in wanted.items())), None)

        row = wait_for(found, until=lambda r: r is not None, deadline_s=deadline_s, what=f"{event} {wanted}")
        assert row is not None  # see until
        return row

    def events(self, rule: str) -> list[str]:
        """The events of a rule's alarms so far."""
        return [row["event"] for row in self.read() if row.get("rule") == rule]

    def status(self) -> dict[str, Any]:
        done = asked("status", "--db", str(self.folder), "--json")
        assert (done.returncode, done.stderr) == (0, "")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


@contextmanager
def auditing(root: Path, *options: str, name: str = "db") -> Iterator[AuditorProcess]:
    """An auditor that has read the state of the cluster. `root/name` is its database."""
    out, errors = root / f"{name}.out", root / f"{name}.err"
    with out.open("wb") as file, errors.open("wb") as said:
        process = subprocess.Popen([*COMMAND, *options, "--db", str(root / name), "--json"], stdout=file, stderr=said)
    auditor = AuditorProcess(process, root / name, out)
    try:

        def watching() -> bool:
            assert process.poll() is None, errors.read_text()
            return any(row["event"] == "watching" for row in auditor.read())

        wait_for(watching, until=bool, deadline_s=START_S, what="the auditor to watch")
        yield auditor
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        process.wait(30)


def asked(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Another command of `durability audit`, to its end."""
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=150, check=False)


def bootstrap(cluster: JvmCluster) -> tuple[str, str]:
    return "--bootstrap", cluster.bootstrap_direct()


def controllers(cluster: JvmCluster) -> tuple[str, str]:
    return "--controllers", ",".join("{}:{}".format(*cluster.direct_address(node)) for node in cluster.controllers)
