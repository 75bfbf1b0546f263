"""The download cache: whole, checked files that several harnesses may use at once.

    store/<algorithm>-<hex>/<name>   content under its own checksum, so one file serves every release that names it
    releases/<key>.json              which contents make up a release (see release.py)
    locks/<key>.lock                 one writer a key; never deleted, a deleted lock file protects nobody
    tmp/                             what is being written; left over only by a SIGKILL, swept after a day

A file appears by rename and is complete then; its checksum is read again whenever it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harness.model.errors import BadInput, HarnessTimeout

Progress = Callable[[str], None]

LOCK_DEADLINE_S = 1800.0
_LEFTOVER_AGE_S = 86_400.0


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
            raise ValueError(f"{text!r} is no checksum")
        return cls(algorithm, digits)

    @classmethod
    def of(cls, content: bytes, algorithm: str = "sha256") -> Digest:
        return cls(algorithm, hashlib.new(algorithm, content).hexdigest())

    @classmethod
    def of_file(cls, path: Path, algorithm: str = "sha256") -> Digest:
        with path.open("rb") as file:
            return cls(algorithm, hashlib.file_digest(file, algorithm).hexdigest())


def default_cache() -> Path:
    """`$XDG_CACHE_HOME/kafka-durability`, or the same under `~/.cache` (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification: a relative path here is invalid and to be ignored.
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "kafka-durability"


class Cache:
    """Files under one root directory. Raises BadInput when the directory cannot be written."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        with self.writing():
            for name in ("store", "releases", "locks", "tmp", "tools"):
                (self.root / name).mkdir(parents=True, exist_ok=True)

    def find(self, digest: Digest, name: str) -> Path | None:
        """The stored file, its content checked just now; a damaged one is removed and None returned."""
        path = self.path(digest, name)
        with self.writing(), suppress(FileNotFoundError):
            if path.is_file() and Digest.of_file(path, digest.algorithm) == digest:
                return path
            _remove(path)
        return None

    def put(self, content: bytes, digest: Digest, name: str) -> Path:
        """Stores `content`, whose checksum the caller has compared with `digest`."""
        path = self.path(digest, name)
        with self.writing():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._replace(path, content)
        return path

    def adopt(self, written: Path, digest: Digest, name: str) -> Path:
        """Moves a file that was written in `scratch()` into the store, under the checksum that the caller found."""
        path = self.path(digest, name)
        with self.writing():
            path.parent.mkdir(parents=True, exist_ok=True)
            written.replace(path)
        return path

    def path(self, digest: Digest, name: str) -> Path:
        """Where `find` looks; whether it is there and whole is `find`'s to say."""
        return self.root / "store" / str(digest) / name

    def read_record(self, key: str) -> dict[str, Any] | None:
        """A release record, or None when there is none or it cannot be read (it is then made anew)."""
        try:
            record = json.loads(self._record(key).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) else None

    def write_record(self, key: str, record: dict[str, Any]) -> None:
        with self.writing():
            self._replace(self._record(key), json.dumps(record, indent=1).encode())

    def record_keys(self) -> list[str]:
        return sorted(path.stem for path in (self.root / "releases").glob("*.json"))

    @contextmanager
    def locked(self, key: str, progress: Progress) -> Iterator[None]:
        """Keeps other harnesses from doing the same work; says so when it has to wait for one."""
        lock = FileLock(self.root / "locks" / f"{key}.lock")
        if not self._acquired(lock, 0):
            progress(f"waiting for another harness that is preparing {key}")
            if not self._acquired(lock, LOCK_DEADLINE_S):
                raise HarnessTimeout(f"waited {LOCK_DEADLINE_S:g} s for another harness that holds {lock.lock_file}")
        try:
            yield
        finally:
            lock.release()

    def _acquired(self, lock: FileLock, timeout_s: float) -> bool:
        with self.writing():
            try:
                lock.acquire(timeout=timeout_s)
            except Timeout:  # an OSError, too
                return False
        return True

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A directory on the cache's own file system, so that what is made in it can be renamed into place."""
        self._sweep()
        with self.writing():
            path = Path(tempfile.mkdtemp(dir=self.root / "tmp"))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def _record(self, key: str) -> Path:
        return self.root / "releases" / f"{key}.json"

    def _replace(self, path: Path, content: bytes) -> None:
        descriptor, temporary = tempfile.mkstemp(dir=self.root / "tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(temporary).chmod(0o644)
            if path.is_dir():  # no file of ours: whatever made it, a rename would stop at it
                _remove(path)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _sweep(self) -> None:
        for path in (self.root / "tmp").iterdir():
            try:
                if time.time() - path.lstat().st_mtime > _LEFTOVER_AGE_S:
                    _remove(path)
            except OSError:
                continue  # another harness swept it first, or it is not ours to sweep

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turns what the file system refuses (no space, no right to write) into one sentence."""
        try:
            yield
        except OSError as error:
            raise BadInput(
                f"the cache {self.root} cannot be used ({error.strerror or error}): free some space or point "
                "XDG_CACHE_HOME at a directory that can be written"
            ) from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
