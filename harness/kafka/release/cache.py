"""The download cache: complete, checked files that several harnesses and threads may use at once.

    store/<algorithm>-<hex>/<name>   content under its own checksum, so one file serves every release that names it
    releases/<key>.json              which contents make up a release (see release.py)
    locks/<key>.lock                 one writer for each key; never deleted, because a deleted lock file excludes no one
    tools/                           programs, formatted folders and class-data archives that were made once
    tmp/                             files being written; each folder in it is locked by the harness that uses it

A file appears by rename and is complete then. Its checksum is verified whenever it is used.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from harness.model.errors import BadInput, HarnessTimeout

Progress = Callable[[str], None]

LOCK_DEADLINE_S = 1800.0
_SAY_EVERY_S = 5.0
_LEFTOVER_AGE_S = 86_400.0  # of files in tmp/, which carry no lock


@dataclass(frozen=True, slots=True)
class Digest:
    """A checksum with the name of its algorithm, written `sha256-<hex>`."""

    algorithm: str
    hex: str

    def __str__(self) -> str:
        return f"{self.algorithm}-{self.hex}"

    @classmethod
    def parse(cls, text: str) -> Digest:
        algorithm, _, digits = text.partition("-")
        if algorithm not in hashlib.algorithms_available:
            raise ValueError(f"{text!r} is not a checksum")
        return cls(algorithm, digits)

    @classmethod
    def of(cls, content: bytes, algorithm: str = "sha256") -> Digest:
        return cls(algorithm, hashlib.new(algorithm, content).hexdigest())

    @classmethod
    def of_file(cls, path: Path, algorithm: str = "sha256") -> Digest:
        with path.open("rb") as file:
            return cls(algorithm, hashlib.file_digest(file, algorithm).hexdigest())


def default_cache() -> Path:
    """`$XDG_CACHE_HOME/kafka-durability`, or the same under `~/.cache` (XDG Base Directory Specification).

    BadInput when neither variable names a place: an empty or relative HOME would put the cache at `/` or into the
    current folder.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification: a relative path here is invalid and is to be ignored.
    return (Path(base) if Path(base).is_absolute() else _home() / ".cache") / "kafka-durability"


def _home() -> Path:
    try:
        home = Path.home()
    except RuntimeError:  # HOME is unset, and the user has no entry in the password database
        home = None
    given = os.environ.get("HOME")
    if home is None or (given is not None and not Path(given).is_absolute()):
        problem = "is not set, and this user has no entry in /etc/passwd" if given is None else f"is {given!r}"
        raise BadInput(
            f"there is no place for the download cache, because HOME {problem}: set HOME or XDG_CACHE_HOME to an "
            "absolute path"
        )
    return home


class Pace:
    """Reports how far some work is, and for how long it has been running, at most every 5 s."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._began_s = self._said_s = time.monotonic()

    def __call__(self, text: str) -> None:
        now_s = time.monotonic()
        if now_s - self._said_s >= _SAY_EVERY_S:
            self._said_s = now_s
            self._progress(f"{text}, {now_s - self._began_s:.0f} s")


class Cache:
    """Files under one root directory. Raises BadInput when the directory cannot be written."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        with self.writing():
            for name in ("store", "releases", "locks", "tmp", "tools"):
                (self.root / name).mkdir(parents=True, exist_ok=True)

    def find(self, digest: Digest, name: str) -> Path | None:
        """The stored file after its checksum was verified; None when it is absent, or damaged and therefore removed."""
        path = self.path(digest, name)
        with self.writing(), suppress(FileNotFoundError):
            if path.is_file() and Digest.of_file(path, digest.algorithm) == digest:
                return path
            _remove(path)
        return None

    def put(self, content: bytes, digest: Digest, name: str) -> Path:
        """Stores `content`. The caller has compared its checksum with `digest`."""
        path = self.path(digest, name)
        with self.writing():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._replace(path, content)
        return path

    def adopt(self, written: Path, digest: Digest, name: str) -> Path:
        """Moves a file that was written in `scratch()` into the store, under the checksum that the caller computed."""
        path = self.path(digest, name)
        with self.writing():
            path.parent.mkdir(parents=True, exist_ok=True)
            written.replace(path)
        return path

    def path(self, digest: Digest, name: str) -> Path:
        """The path under which `find` looks. The file may be absent or damaged."""
        return self.root / "store" / str(digest) / name

    def read_record(self, key: str) -> dict[str, object] | None:
        """A release record; None when it is absent or unreadable, in which case the caller makes it again."""
        try:
            record = json.loads(self._record(key).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) else None

    def write_record(self, key: str, record: Mapping[str, object]) -> None:
        with self.writing():
            self._replace(self._record(key), json.dumps(record, indent=1).encode())

    def record_keys(self) -> list[str]:
        return sorted(path.stem for path in (self.root / "releases").glob("*.json"))

    @contextmanager
    def locked(self, key: str, progress: Progress) -> Iterator[None]:
        """Excludes other harnesses and threads from the same work. Reports that it waits, and for how long.

        HarnessTimeout when the lock is not free after half an hour.
        """
        lock = self._lock(key)
        if not self._acquired(lock, 0):
            waiting = f"waiting for {key}, which another harness or thread is preparing"
            progress(waiting)
            self._wait_for(lock, waiting, Pace(progress))
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def locked_if_free(self, key: str) -> Iterator[bool]:
        """Like `locked`, but does not wait. Yields False when another harness or thread does the same work."""
        lock = self._lock(key)
        mine = self._acquired(lock, 0)
        try:
            yield mine
        finally:
            if mine:
                lock.release()

    def _lock(self, key: str) -> FileLock:
        return FileLock(self.root / "locks" / f"{key}.lock")

    def _wait_for(self, lock: FileLock, waiting: str, pace: Pace) -> None:
        give_up_at = time.monotonic() + LOCK_DEADLINE_S
        while not self._acquired(lock, _SAY_EVERY_S):
            pace(waiting)
            if time.monotonic() >= give_up_at:
                raise HarnessTimeout(f"waited {LOCK_DEADLINE_S:g} s for the harness that holds {lock.lock_file}")

    def _acquired(self, lock: FileLock, timeout_s: float) -> bool:
        with self.writing():
            try:
                lock.acquire(timeout=timeout_s)
            except Timeout:  # a subclass of OSError
                return False
        return True

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A directory on the cache's own file system, so that files made in it can be renamed into place."""
        self.sweep()
        with self.writing():
            path, lock = self._new_scratch()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)

    def _new_scratch(self) -> tuple[Path, int]:
        """A new folder in tmp/, and the descriptor that holds its lock until this process ends."""
        while True:
            path = Path(tempfile.mkdtemp(dir=self.root / "tmp"))
            try:
                lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:  # another harness swept it before it was locked
                continue
            with suppress(OSError):  # a network file system may not lock folders: `sweep` then uses their age
                fcntl.flock(lock, fcntl.LOCK_EX)
            if path.is_dir():
                return path, lock
            os.close(lock)

    def sweep(self) -> list[Path]:
        """Removes everything in tmp/ that no living harness uses, and returns what was removed."""
        return [path for path in (self.root / "tmp").iterdir() if _removed_if_unused(path)]

    def _record(self, key: str) -> Path:
        return self.root / "releases" / f"{key}.json"

    def _replace(self, path: Path, content: bytes) -> None:
        descriptor, temporary = tempfile.mkstemp(dir=self.root / "tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(temporary).chmod(0o644)
            if path.is_dir():  # the harness never makes a folder here; a rename onto one would fail
                _remove(path)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turns an error of the file system (no space, no right to write) into a BadInput of one sentence."""
        try:
            yield
        except OSError as error:
            raise BadInput(
                f"the cache {self.root} cannot be used ({error.strerror or error}): free some space or point "
                "XDG_CACHE_HOME at a directory that can be written"
            ) from error


def sweep_default_cache() -> list[str]:
    """Removes what killed harnesses left in the user's cache: half-finished builds and downloads. A line for each."""
    try:
        root = default_cache()
        return [f"removed {path}, left by a killed harness" for path in Cache(root).sweep()] if root.is_dir() else []
    except BadInput:  # without a usable cache there is nothing in it
        return []


def _removed_if_unused(path: Path) -> bool:
    lock = None
    try:
        if path.is_dir() and not path.is_symlink():
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        unused = lock is not None and _locks_tell(lock)
        if not unused and time.time() - path.lstat().st_mtime <= _LEFTOVER_AGE_S:
            return False
        _remove(path)
    except OSError:  # in use, swept by another harness at this moment, or another user's
        return False
    finally:
        if lock is not None:
            os.close(lock)
    return True


def _locks_tell(folder: int) -> bool:
    """Whether the lock was free and is taken now; False where folders cannot be locked. BlockingIOError: in use."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
