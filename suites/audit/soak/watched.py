"""One auditor of the soak: started, killed now and then, started again, and measured all the time."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from harness.audit.queries.status import status_of
from harness.model.errors import BadInput
from harness.model.waiting import wait_for

_COMMAND: Final = (sys.executable, "-m", "harness.commands.main", "audit")
_SAMPLE_S: Final = 10.0
_WATCHING_S: Final = 120.0
_SETTLED_S: Final = 60.0
_SIGN_S: Final = 3.0
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Heard:
    """One event of an alarm. Times are seconds of the wall clock."""

    auditor: str
    event: str
    at_s: float
    opened_s: float
    rule: str
    severity: str
    incident: str
    topics: tuple[str, ...]
    what: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment of one process of an auditor."""

    auditor: str
    process: int  # how many were started before
    at_s: float
    age_s: float
    memory_mib: float
    descriptors: int
    threads: int
    cpu_s: float


@dataclass(slots=True)
class Outage:
    """From the signal that ended an auditor until the next one watched. stated: the database says so."""

    number: str
    from_s: float
    to_s: float | None = None
    stated: bool | None = None


@dataclass(slots=True)
class Plan:
    """How an auditor is treated. life_s, down_s: how long it lives, and how long none runs then; None = to the end."""

    name: str
    options: tuple[str, ...]
    life_s: tuple[float, float] | None
    down_s: tuple[float, float] = (0.0, 40.0)


@dataclass(slots=True)
class Watched:
    """A thread that keeps one auditor running as its plan says, until `close`."""

    plan: Plan
    folder: Path
    rng: random.Random
    write: Callable[[str, object], None]  # appends a row to a file of the soak
    samples: list[Sample] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    started: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _read: int = 0  # bytes of the output of the process that runs

    @property
    def database(self) -> Path:
        return self.folder / self.plan.name

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"auditor {self.plan.name}")
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=180)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._live()
            except Exception as failed:  # the soak goes on, and says so
                self.problems.append(f"{type(failed).__name__}: {failed}")
                self._stop.wait(5)

    def _live(self) -> None:
        """One process, from its start to its end."""
        out = self.folder / f"{self.plan.name}-{self.started}.out"
        errors = out.with_suffix(".err")
        self._read = 0
        with out.open("wb") as file, errors.open("wb") as said:
            command = [*_COMMAND, *self.plan.options, "--db", str(self.database), "--json"]
            process = subprocess.Popen(command, stdout=file, stderr=said)
        number, begun_s = self.started, time.time()
        self.started += 1
        try:
            wait_for(
                lambda: process.poll() is not None or b'"watching"' in out.read_bytes(),
                until=bool,
                deadline_s=_WATCHING_S,
                what=f"auditor {self.plan.name} to watch",
                interval_s=0.5,
            )
            self._back()
            life_s = self.rng.uniform(*self.plan.life_s) if self.plan.life_s else float("inf")
            while process.poll() is None and time.time() - begun_s < life_s and not self._stop.is_set():
                self._sample(process.pid, number, begun_s)
                self._hear(out)
                self._stop.wait(_SAMPLE_S)
            if process.poll() is not None:
                self.problems.append(f"auditor {number} ended by itself ({process.returncode}): {errors.read_text()}")
                self.outages.append(Outage("itself", self.samples[-1].at_s if self.samples else begun_s))
        finally:
            if process.poll() is None:
                self._end(process)
            self._hear(out)
        if not self._stop.is_set():
            self._stop.wait(self.rng.uniform(*self.plan.down_s))

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        how = signal.SIGTERM if self._stop.is_set() or self.rng.random() < 0.1 else signal.SIGKILL
        self.outages.append(Outage(how.name, time.time()))
        process.send_signal(how)
        process.wait(60)

    def _back(self) -> None:
        """It watches again: the database has to name the time in which none did."""
        outage = self.outages[-1] if self.outages else None
        if outage is None or outage.to_s is not None:
            return
        outage.to_s = time.time()
        gaps = status_of(self.database).unwatched
        # The last sign of life is from about the time of the signal: after it, if the signal was SIGTERM.
        outage.stated = any(
            abs(g.from_ns / 1e9 - outage.from_s) < _SIGN_S and g.to_ns / 1e9 > outage.from_s for g in gaps
        )
        self.write("outages.jsonl", {"auditor": self.plan.name, **asdict(outage)})

    def _sample(self, pid: int, number: int, begun_s: float) -> None:
        try:
            proc = Path("/proc") / str(pid)
            status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
            ticks = (proc / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
            sample = Sample(
                auditor=self.plan.name,
                process=number,
                at_s=time.time(),
                age_s=time.time() - begun_s,
                memory_mib=int(status["VmRSS"].split()[0]) / 1024,
                descriptors=len(list((proc / "fd").iterdir())),
                threads=int(status["Threads"]),
                cpu_s=sum(map(int, ticks)) / 100,
            )
        except (OSError, KeyError):
            return  # it has just ended
        self.samples.append(sample)
        self.write("samples.jsonl", asdict(sample))

    def _hear(self, out: Path) -> None:
        with out.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            row = json.loads(line)
            if "rule" not in row:
                continue
            heard = Heard(
                auditor=self.plan.name,
                event=row["event"],
                at_s=_seconds(row["at"]),
                opened_s=_seconds(row["opened"]),
                rule=row["rule"],
                severity=row["severity"],
                incident=row["incident"],
                topics=tuple(sorted({place["topic"] or "" for place in row["places"]})),
                what=row["what"],
            )
            self.heard.append(heard)
            self.write("alarms.jsonl", asdict(heard))

    def was_down(self, from_s: float, to_s: float) -> bool:
        """Whether it did not watch for a part of this time, or had not looked often before."""
        ends = [outage.to_s or float("inf") for outage in self.outages]
        down = any(o.from_s < to_s and end_s + 30 > from_s for o, end_s in zip(self.outages, ends, strict=True))
        return down or not self.samples or self.samples[0].at_s + 30 > from_s

    def grown(self) -> dict[int, tuple[float, float]]:
        """Process -> its memory in MiB a minute after its start, and the highest since; of those that lived longer."""
        found: dict[int, tuple[float, float]] = {}
        for sample in self.samples:
            if sample.age_s >= _SETTLED_S:
                first, most = found.get(sample.process, (sample.memory_mib, 0.0))
                found[sample.process] = first, max(most, sample.memory_mib)
        return found

    def status(self) -> dict[str, object]:
        """A few figures of the database."""
        try:
            status = status_of(self.database)
        except BadInput as none:
            return {"status": str(none)}
        files = self.database.glob("*")
        return {
            "looks": status.vitals.looks,
            "blind_s": round(status.vitals.blind_s, 1),
            "unwatched": len(status.unwatched),
            "unwatched_s": round(status.vitals.unwatched_s, 1),
            "open_alarms": [alarm.incident for alarm in status.alarms],
            "database_mib": round(sum(path.stat().st_size for path in files) / _MIB, 2),
        }


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
