"""What a run of a cluster leaves on disk about itself, so that whoever comes after a crash knows what is dead."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from harness.clusters.disks.unmount import release
from harness.model.backend import PROCESSES
from harness.model.errors import BadInput

_FILE = "run-state.json"
_PREFIX = "run-"


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process that cannot be confused with a later one of the same number."""

    pid: int
    started: str  # boot and clock ticks since it, as the kernel tells them

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ProcessId:
        return cls(data["pid"], data["started"])

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """The living process `pid`; None when there is none, or only its zombie."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
            boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = text.rpartition(")")[2].split()  # the name before may hold spaces and parentheses
        return None if fields[0] in "ZX" else cls(pid, f"{boot}/{fields[19]}")

    @property
    def alive(self) -> bool:
        return ProcessId.of(self.pid) == self


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """One cluster's run. `kept` means that it stays when its harness ends."""

    run: str
    directory: Path
    slot: int
    release: str
    bootstrap: str
    kept: bool
    harness: ProcessId
    backend: str = PROCESSES
    supervisor: ProcessId | None = None

    @property
    def supervised(self) -> bool:
        return self.supervisor is not None and self.supervisor.alive

    @property
    def dead(self) -> bool:
        """Nobody is left who would end it."""
        return not self.supervised and (self.kept or not self.harness.alive)

    def save(self) -> None:
        """Atomically, into the run's directory."""
        descriptor, name = tempfile.mkstemp(dir=self.directory)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self) | {"directory": str(self.directory)}, file, indent=1)
        Path(name).replace(self.directory / _FILE)

    def supervised_by(self, pid: int) -> RunState:
        return replace(self, supervisor=ProcessId.of(pid))


def default_root(*, make: bool = True) -> Path:
    """Where runs of this user live. Raises BadInput when it cannot be made, or belongs to another user.

    make: False does not make the folder, for callers that only look for runs.
    """
    remedy = "remove it, or set TMPDIR to a directory of your own"
    try:
        root = Path(tempfile.gettempdir()) / f"kafka-durability-{os.getuid()}"
        if make:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not os.path.lexists(root):
            return root
        if root.is_symlink() or root.stat().st_uid != os.getuid():
            raise BadInput(f"{root} is a link or belongs to another user: {remedy}")
    except OSError as refused:
        raise BadInput(
            f"{refused.filename or 'a temporary directory'} cannot be had as a directory ({refused.strerror}): {remedy}"
        ) from None
    return root


def new_run(root: Path, *, slot: int, release: str, kept: bool, backend: str = PROCESSES) -> RunState:
    """Makes a run's directory; it appears under its name with its state already in it, its bootstrap unknown yet."""
    root.mkdir(parents=True, exist_ok=True)
    harness = ProcessId.of(os.getpid())
    assert harness is not None
    unnamed = Path(tempfile.mkdtemp(prefix=".new-", dir=root))
    run = f"{_PREFIX}{slot}-{unnamed.name.removeprefix('.new-')}"
    state = RunState(
        run=run,
        directory=unnamed,
        slot=slot,
        release=release,
        bootstrap="",
        kept=kept,
        harness=harness,
        backend=backend,
    )
    state.save()  # `load` takes the directory from where it finds the file
    unnamed.rename(root / run)
    return replace(state, directory=root.absolute() / run)


def runs(root: Path) -> list[RunState]:
    """Every run of which `root` holds a directory, dead or alive."""
    found = (load(path) for path in sorted(root.glob(f"{_PREFIX}*")))
    return [state for state in found if state is not None]


def load(directory: Path) -> RunState | None:
    """The state of a run's directory; None when it vanished meanwhile, was never complete, or holds something else."""
    try:
        document = json.loads((directory / _FILE).read_text("utf-8"))
        document |= {"directory": directory, "harness": ProcessId.from_dict(document["harness"])}
        supervisor = document["supervisor"]
        document |= {"supervisor": ProcessId.from_dict(supervisor) if supervisor else None}
        # Another version of the harness may be at work on this machine, and write more than this one knows.
        known = {field.name for field in fields(RunState)}
        return RunState(**{name: value for name, value in document.items() if name in known})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # whatever stands there: one folder must not stop the sweep of all others


def remove_directory(directory: Path) -> None:
    """Removes a run's directory, complete or not, and what it has mounted; one that is gone already is fine."""

    def gone_is_fine(_function: object, _path: object, info: tuple[type[BaseException], BaseException, object]) -> None:
        if not isinstance(info[1], FileNotFoundError):
            raise info[1]

    release(directory)
    shutil.rmtree(directory, onerror=gone_is_fine)
