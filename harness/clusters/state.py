"""The state that a run of a cluster saves on disk. After a crash, another harness sees in it what can be removed."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from msgspec import ValidationError, convert

from harness.clusters.disks.unmount import unmount_all
from harness.model.backend import PROCESSES
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scratch import writing_below

_FILE = "run-state.json"
_PREFIX = "run-"


@dataclass(frozen=True, slots=True)
class ProcessId:
    """Identifies a process, even after its pid was reused."""

    pid: int
    started: str  # boot id and start time in clock ticks since boot, from the kernel

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """The living process `pid`; None if there is none, or only its zombie."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
            boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = text.rpartition(")")[2].split()  # the process name before may hold spaces and parentheses
        return None if fields[0] in "ZX" else cls(pid, f"{boot}/{fields[19]}")

    @property
    def alive(self) -> bool:
        return ProcessId.of(self.pid) == self


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """One cluster's run. `kept`: the cluster goes on when its harness ends."""

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
        """No living process is left that would end the run."""
        return not self.supervised and (self.kept or not self.harness.alive)

    def save(self) -> None:
        """Writes the state into the run's directory, atomically."""
        descriptor, name = tempfile.mkstemp(dir=self.directory)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self) | {"directory": str(self.directory)}, file, indent=1)
        Path(name).replace(self.directory / _FILE)

    def supervised_by(self, pid: int) -> RunState:
        return replace(self, supervisor=ProcessId.of(pid))


def default_root(*, make: bool = True) -> Path:
    """The folder for the runs of this user. BadInput if it cannot be made, or if another user made it.

    make: False does not make the folder, for callers that only look for runs.
    """
    remedy = "remove it, or set TMPDIR to a folder that you may write to"
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
            f"{refused.filename or 'a temporary folder'} cannot be used as a folder ({refused.strerror}): {remedy}"
        ) from None
    return root


def new_run(root: Path, *, slot: int, release: str, kept: bool, backend: str = PROCESSES) -> RunState:
    """Makes a run's directory below `root`. It gets its name only when its state is in it; bootstrap is still empty.

    BadInput when it cannot be written.
    """
    harness = ProcessId.of(os.getpid())
    assert harness is not None
    with writing_below(root):
        root.mkdir(parents=True, exist_ok=True)
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
        state.save()  # the directory in it is outdated at once: `load` takes the place of the file instead
        unnamed.rename(root / run)
    return replace(state, directory=root.absolute() / run)


def runs(root: Path) -> list[RunState]:
    """Every run that has a directory below `root`, dead or alive."""
    found = (load(path) for path in sorted(root.glob(f"{_PREFIX}*")))
    return [state for state in found if state is not None]


def load(directory: Path) -> RunState | None:
    """The state in a run's directory; None if the directory was removed, is incomplete, or holds something else."""
    try:
        document = json.loads((directory / _FILE).read_text("utf-8"))
        # A later version of the harness may be running on this machine, and may write fields that are unknown here.
        return convert(document | {"directory": directory}, RunState)
    except (OSError, ValueError, TypeError, ValidationError):
        return None  # one bad file must not stop the sweep of all other folders


def remove_directory(directory: Path) -> None:
    """Removes a run's directory, complete or not, and unmounts what it has mounted. Idempotent.

    HarnessFailure when something in it cannot be removed.
    """

    def ignore_missing(
        _function: object, _path: object, info: tuple[type[BaseException], BaseException, object]
    ) -> None:
        if not isinstance(info[1], FileNotFoundError):
            raise info[1]

    try:
        unmount_all(directory)
        shutil.rmtree(directory, onerror=ignore_missing)
    except OSError as refused:
        raise HarnessFailure(
            f"{directory} cannot be removed ({refused}): end the processes that use it, then run: durability clean"
        ) from refused
