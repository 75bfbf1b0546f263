"""Disks of the nodes' own: real file systems on loop devices, each on a sparse image in the run's directory.

What a power loss, a disk that dies or one that stalls does to a log can only be tried on a file system that nobody else
needs. The harness mounts it, as root, at the very path of a node's log directory: a process just uses it, a container
sees it through the bind of its node's folder from its next start on.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.clusters.disks.unmount import (
    GROUPS,
    V1,
    Mount,
    limit_writes,
    limits_of_groups,
    mounts_below,
    thaw,
    unmount,
)
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scenario.scenario import DISKS, FileSystem

SIZE_BYTES: Final = 4 << 30  # sparse: an image takes what is written to it, and 65 MB
_GOING_DOWN: Final = 0x8004587D  # XFS_IOC_GOINGDOWN, which ext4 has as EXT4_IOC_SHUTDOWN
_NO_LOG_FLUSH: Final = 2  # XFS_FSOP_GOING_FLAGS_NOLOGFLUSH: whatever is not on the disk yet is gone
_FIFREEZE: Final = 0xC0045877
_MKFS_S: Final = 60.0
_CAP_SYS_ADMIN: Final = 21  # capabilities(7)
_BALLAST: Final = ".ballast"  # no folder, so no broker takes it for a log
_PACKAGES: Final[Mapping[str, str]] = {"xfs": "xfsprogs", "ext4": "e2fsprogs"}
_OWN_GROUPS: Final = Path("/proc/self/cgroup")
_LOOP_CONTROL: Final = Path("/dev/loop-control")
_SBIN: Final = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"


def capability(file_system: str) -> str:
    """What a backend has where disks with this file system can be had: "disk.xfs"."""
    return f"disk.{file_system}"


OWN: Final = "disk.own"  # some file system can be had
# Root may write on where ext4 is full for everybody else, and a broker may be root.
_WITHOUT_RESERVE: Final[Mapping[FileSystem, tuple[str, ...]]] = {"ext4": ("-m", "0")}
SLOW: Final = "disk.slow"  # it can be made to take its time
ALL: Final = frozenset({OWN, SLOW, *map(capability, DISKS)})


def missing() -> dict[str, str]:
    """Why this machine lacks capabilities of disks, with the remedy, by capability; empty when it lacks none."""
    reasons = {capability(file_system): why for file_system in DISKS if (why := _lacking(file_system))}
    if len(reasons) == len(DISKS):
        return dict.fromkeys((OWN, SLOW), next(iter(reasons.values()))) | reasons
    if not _slowing():
        reasons[SLOW] = "no control group limits what this process writes: systemd-run --scope -p IOAccounting=yes"
    return reasons


def _lacking(file_system: str) -> str:
    if os.geteuid() != 0 or not _rights() >> _CAP_SYS_ADMIN & 1:
        return "disks of the nodes' own are mounted by root with CAP_SYS_ADMIN: run as root"
    if not _LOOP_CONTROL.exists():
        return f"there is no {_LOOP_CONTROL}: modprobe loop"
    for tool, package in (("mount", "mount"), ("losetup", "mount"), (f"mkfs.{file_system}", _PACKAGES[file_system])):
        if _tool(tool) is None:
            return f"{tool} is not installed: apt install {package}"
    return "" if file_system in _known() else f"this kernel knows no {file_system}: modprobe {file_system}"


def _known() -> set[str]:
    """File systems of this kernel, or of modules that mount loads."""
    modules = Path(f"/lib/modules/{os.uname().release}/kernel/fs")
    return {*Path("/proc/filesystems").read_text("ascii").split(), *(path.name for path in modules.glob("*"))}


def _rights() -> int:
    """The effective capabilities of this process."""
    status = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    return next((int(line.split()[1], 16) for line in status if line.startswith("CapEff:")), 0)


def _tool(name: str) -> str | None:
    """Root's PATH need not lead to root's tools."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}")


@dataclass(frozen=True, slots=True)
class OwnDisks:
    """Implements `base.Disks` for the log directories of one run, all with the one file system."""

    file_system: FileSystem
    run: Path  # its directory

    def __post_init__(self) -> None:
        if reason := missing().get(capability(self.file_system)):
            raise BadInput(f'shape: disk = "{self.file_system}": {reason}')

    # --- making ---

    def make(self, directories: Sequence[Path]) -> None:
        """An empty disk of its own at each of the directories, which must not be there yet or be empty."""
        for directory in directories:
            self._make(directory)

    def _make(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        image = self._image(directory)
        image.parent.mkdir(exist_ok=True)
        with image.open("xb") as file:
            file.truncate(SIZE_BYTES)
        whole = _WITHOUT_RESERVE.get(self.file_system, ())
        _run([_mkfs(self.file_system), "-q", *whole, str(image)], f"make {self.file_system} for {directory}")
        self._mount(directory)
        with contextlib.suppress(FileNotFoundError):
            (directory / "lost+found").rmdir()  # a broker takes every folder for a log

    def flush(self, directories: Sequence[Path]) -> None:
        """All that was written reaches the images."""
        for directory in directories:
            _run(["sync", "--file-system", str(directory)], f"flush {directory}")

    def _mount(self, directory: Path) -> None:
        # errors=remount-ro is what Debian mounts ext4 with; XFS has no such choice, it shuts down.
        options = "loop,noatime,nodev,nosuid" + (",errors=remount-ro" if self.file_system == "ext4" else "")
        command = ["mount", "-t", self.file_system, "-o", options, str(self._image(directory)), str(directory)]
        _run(command, f"mount the disk of {directory}")

    def _image(self, directory: Path) -> Path:
        return self.run / "disks" / f"{directory.parent.name}-{directory.name}.img"

    # --- breaking ---

    def shut_down(self, directory: Path) -> None:
        """See `base.Disks`."""
        with self._guarded(directory) as descriptor:
            fcntl.ioctl(descriptor, _GOING_DOWN, struct.pack("I", _NO_LOG_FLUSH))
        if self.usable(directory):
            raise HarnessFailure(f"the file system at {directory} did not go down")

    def usable(self, directory: Path) -> bool:
        """See `base.Disks`."""
        try:
            self._own(directory)
            os.close(os.open(directory, os.O_RDWR | os.O_TMPFILE, 0o600))
        except HarnessFailure:
            return False
        except OSError as refused:
            return refused.errno not in (errno.EIO, errno.EROFS)
        return True

    def freeze(self, directory: Path) -> None:
        """See `base.Disks`."""
        with self._guarded(directory) as descriptor:
            fcntl.ioctl(descriptor, _FIFREEZE, 0)

    def thaw(self, directory: Path) -> None:
        """See `base.Disks`."""
        thaw(directory)

    def slow(self, directory: Path, writes_per_s: int | None) -> None:
        """See `base.Disks`."""
        limit_writes(self._own(directory), writes_per_s)

    def flush_s(self, directory: Path) -> float:
        """See `base.Disks`."""
        with self._guarded(directory):
            descriptor = os.open(directory, os.O_WRONLY | os.O_TMPFILE, 0o600)
        try:
            os.write(descriptor, b"\0" * 4096)
            began = time.monotonic()
            os.fsync(descriptor)
            return time.monotonic() - began
        finally:
            os.close(descriptor)

    def turn_read_only(self, directory: Path) -> None:
        """See `base.Disks`. Only ext4 does so by itself when it meets an error; this makes it meet one."""
        mount = self._own(directory)
        trigger = Path(f"/sys/fs/ext4/{Path(f'/sys/dev/block/{mount.device}').resolve().name}/trigger_fs_error")
        if not trigger.exists():
            raise HarnessFailure(f"the file system at {directory} cannot be made to meet an error")
        trigger.write_text("the harness\n", "ascii")

    def fill(self, directory: Path, spare_kb: int) -> int:
        """See `base.Disks`."""
        with self._guarded(directory):
            pass
        room = os.statvfs(directory)
        size_bytes = max(0, room.f_bavail * room.f_frsize - spare_kb * 1024)
        done, step = 0, size_bytes
        with (directory / _BALLAST).open("wb") as file:
            # What describes the ballast takes room, too: by halves, until only the spare is left.
            while (step := min(step, size_bytes - done)) >= room.f_frsize:
                try:
                    os.posix_fallocate(file.fileno(), done, step)
                    done += step
                except OSError as full:
                    if full.errno != errno.ENOSPC:
                        raise
                    step //= 2
        return done

    def make_room(self, directory: Path) -> None:
        """See `base.Disks`."""
        (directory / _BALLAST).unlink(missing_ok=True)

    def remember(self, directory: Path) -> None:
        """See `base.Disks`."""
        image = self._image(directory)
        self.freeze(directory)
        try:
            _run(["cp", "--sparse=always", str(image), f"{image}.then"], f"copy the disk of {directory}")
        finally:
            self.thaw(directory)

    # --- mending ---

    def remount(self, directory: Path, *, as_remembered: bool = False) -> None:
        """See `base.Disks`."""
        for mount in mounts_below(directory.parent):
            if mount.path == Path(os.path.realpath(directory)):
                unmount(mount)
        image = self._image(directory)
        if as_remembered:
            Path(f"{image}.then").replace(image)
        self._mount(directory)

    def heal(self, directories: Sequence[Path]) -> None:
        """Nothing is frozen, slow or full. Idempotent."""
        for directory in directories:
            self.thaw(directory)
            with contextlib.suppress(HarnessFailure):  # not mounted just now
                self.slow(directory, None)
            with contextlib.suppress(OSError):  # shut down, or read-only: the fault that did it mends it
                self.make_room(directory)

    @contextlib.contextmanager
    def _guarded(self, directory: Path) -> Iterator[int]:
        """The open directory, once it is sure that it is a disk of this run, and not that of the machine."""
        mount = self._own(directory)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            device = os.fstat(descriptor).st_dev
            if device == Path("/").stat().st_dev or f"{os.major(device)}:{os.minor(device)}" != mount.device:
                raise HarnessFailure(f"{directory} is not the mount of its disk: it is left alone")
            yield descriptor
        finally:
            os.close(descriptor)

    def _own(self, directory: Path) -> Mount:
        """The mount at a directory, whose device is a loop on the very image that this run made for it."""
        path, image = Path(os.path.realpath(directory)), os.path.realpath(self._image(directory))
        for mount in mounts_below(self.run):
            if mount.path == path and mount.backing == image:
                return mount
        raise HarnessFailure(f"{directory} is not the mount of its disk: it is left alone")


def _slowing() -> bool:
    """Whether the writes of this process, and of its children, can be limited."""
    if limits_of_groups(V1[0]):
        return True
    lines = _OWN_GROUPS.read_text("ascii").splitlines()
    return any((GROUPS / line.removeprefix("0::/") / "io.max").exists() for line in lines if line.startswith("0::/"))


def _mkfs(file_system: str) -> str:
    return _tool(f"mkfs.{file_system}") or f"mkfs.{file_system}"


def _run(command: Sequence[str], what: str) -> None:
    """HarnessFailure, with what it said, when a tool does not do its work."""
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:{_SBIN}"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MKFS_S, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise HarnessFailure(f"cannot {what}: {failed}") from failed
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise HarnessFailure(f"cannot {what}: {said[0]}")
