"""The brokers' own disks: real file systems on loop devices, each on a sparse image in the run's directory.

A power loss, or a disk that fails or stalls, can only be tried on a file system that no other process needs. The
harness mounts it, as root, at the path of a broker's log directory. A process uses it at once; a container sees it
through the bind mount of its node's folder, from its next start on.
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
from harness.model.errors import BadInput, HarnessFailure, MachineFailure
from harness.model.scenario.scenario import DISKS, FileSystem

SIZE_BYTES: Final = 4 << 30  # sparse: an image takes 65 MB and the data that is written to it
_GOING_DOWN: Final = 0x8004587D  # XFS_IOC_GOINGDOWN; ext4 calls it EXT4_IOC_SHUTDOWN
_NO_LOG_FLUSH: Final = 2  # XFS_FSOP_GOING_FLAGS_NOLOGFLUSH: data that is not on the disk yet is lost
_FIFREEZE: Final = 0xC0045877
_MKFS_S: Final = 60.0
_CAP_SYS_ADMIN: Final = 21  # capabilities(7)
_BALLAST: Final = ".ballast"  # a file: a broker takes every folder for a log
_PACKAGES: Final[Mapping[str, str]] = {"xfs": "xfsprogs", "ext4": "e2fsprogs"}
_OWN_GROUPS: Final = Path("/proc/self/cgroup")
_LOOP_CONTROL: Final = Path("/dev/loop-control")
_SBIN: Final = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"


def capability(file_system: str) -> str:
    """The capability of a backend that can make disks with this file system: "disk.xfs"."""
    return f"disk.{file_system}"


OWN: Final = "disk.own"  # disks with at least one file system can be made
# ext4 reserves blocks for root, and a broker may run as root: then a full disk would not be full for it.
_WITHOUT_RESERVE: Final[Mapping[FileSystem, tuple[str, ...]]] = {"ext4": ("-m", "0")}
SLOW: Final = "disk.slow"  # the writes to a disk can be limited
ALL: Final = frozenset({OWN, SLOW, *map(capability, DISKS)})


def missing() -> dict[str, str]:
    """By capability of disks that this machine lacks: why, with the remedy."""
    reasons = {capability(file_system): why for file_system in DISKS if (why := _why_missing(file_system))}
    if len(reasons) == len(DISKS):
        return dict.fromkeys((OWN, SLOW), next(iter(reasons.values()))) | reasons
    if not _can_slow():
        reasons[SLOW] = (
            "no control group limits the writes of this process: start it under systemd-run --scope -p IOAccounting=yes"
        )
    return reasons


def _why_missing(file_system: str) -> str:
    if os.geteuid() != 0 or not _rights() >> _CAP_SYS_ADMIN & 1:
        return "only root with CAP_SYS_ADMIN can mount the brokers' own disks: run as root"
    if not _LOOP_CONTROL.exists():
        return f"there is no {_LOOP_CONTROL}: run modprobe loop"
    for tool, package in (("mount", "mount"), ("losetup", "mount"), (f"mkfs.{file_system}", _PACKAGES[file_system])):
        if _tool(tool) is None:
            return f"{tool} is not installed: apt install {package}"
    return "" if file_system in _known() else f"this kernel has no {file_system}: run modprobe {file_system}"


def _known() -> set[str]:
    """File systems of this kernel, and those of modules that `mount` loads."""
    modules = Path(f"/lib/modules/{os.uname().release}/kernel/fs")
    return {*Path("/proc/filesystems").read_text("ascii").split(), *(path.name for path in modules.glob("*"))}


def _rights() -> int:
    """The effective capabilities of this process."""
    status = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    return next((int(line.split()[1], 16) for line in status if line.startswith("CapEff:")), 0)


def _tool(name: str) -> str | None:
    """The path of a tool; None if it is not installed. Root's PATH need not contain the folders of root's tools."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}")


@dataclass(frozen=True, slots=True)
class OwnDisks:
    """Implements `base.Disks` for the log directories of one run, all with the same file system.

    `run` is the directory of the run. Raises BadInput if this machine cannot make such disks.
    """

    file_system: FileSystem
    run: Path

    def __post_init__(self) -> None:
        if reason := missing().get(capability(self.file_system)):
            raise BadInput(f'shape: disk = "{self.file_system}": {reason}')

    def make(self, directories: Sequence[Path]) -> None:
        """Mounts an empty disk at each directory, which must be empty or not exist yet."""
        for directory in directories:
            self._make(directory)

    def _make(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        image = self._image(directory)
        image.parent.mkdir(exist_ok=True)
        with image.open("xb") as file:
            file.truncate(SIZE_BYTES)
        options = _WITHOUT_RESERVE.get(self.file_system, ())
        _run([_mkfs(self.file_system), "-q", *options, str(image)], f"make {self.file_system} for {directory}")
        self._mount(directory)
        with contextlib.suppress(FileNotFoundError):
            (directory / "lost+found").rmdir()  # a broker takes every folder for a log

    def flush(self, directories: Sequence[Path]) -> None:
        """Flushes all writes to the disks."""
        for directory in directories:
            _run(["sync", "--file-system", str(directory)], f"flush {directory}")

    def _mount(self, directory: Path) -> None:
        # Debian mounts ext4 with errors=remount-ro. XFS has no such option: it shuts down.
        options = "loop,noatime,nodev,nosuid" + (",errors=remount-ro" if self.file_system == "ext4" else "")
        command = ["mount", "-t", self.file_system, "-o", options, str(self._image(directory)), str(directory)]
        _run(command, f"mount the disk of {directory}")

    def _image(self, directory: Path) -> Path:
        return self.run / "disks" / f"{directory.parent.name}-{directory.name}.img"

    def shut_down(self, directory: Path) -> None:
        """See `base.Disks`."""
        with self._checked(directory) as descriptor:
            fcntl.ioctl(descriptor, _GOING_DOWN, struct.pack("I", _NO_LOG_FLUSH))
        if self.usable(directory):
            raise HarnessFailure(f"the file system at {directory} did not shut down")

    def usable(self, directory: Path) -> bool:
        """See `base.Disks`."""
        try:
            self._own_mount(directory)
            os.close(os.open(directory, os.O_RDWR | os.O_TMPFILE, 0o600))
        except HarnessFailure:
            return False
        except OSError as refused:
            return refused.errno not in (errno.EIO, errno.EROFS)
        return True

    def freeze(self, directory: Path) -> None:
        """See `base.Disks`."""
        with self._checked(directory) as descriptor:
            fcntl.ioctl(descriptor, _FIFREEZE, 0)

    def thaw(self, directory: Path) -> None:
        """See `base.Disks`."""
        thaw(directory)

    def slow(self, directory: Path, writes_per_s: int | None) -> None:
        """See `base.Disks`."""
        limit_writes(self._own_mount(directory), writes_per_s)

    def flush_s(self, directory: Path) -> float:
        """See `base.Disks`."""
        with self._checked(directory):
            descriptor = os.open(directory, os.O_WRONLY | os.O_TMPFILE, 0o600)
        try:
            os.write(descriptor, b"\0" * 4096)
            began = time.monotonic()
            os.fsync(descriptor)
            return time.monotonic() - began
        finally:
            os.close(descriptor)

    def turn_read_only(self, directory: Path) -> None:
        """See `base.Disks`. Only ext4 turns read-only after an error; its kernel interface can provoke one."""
        mount = self._own_mount(directory)
        trigger = Path(f"/sys/fs/ext4/{Path(f'/sys/dev/block/{mount.device}').resolve().name}/trigger_fs_error")
        if not trigger.exists():
            raise HarnessFailure(f"the file system at {directory} is not ext4, or this kernel has no trigger_fs_error")
        trigger.write_text("the harness\n", "ascii")

    def fill(self, directory: Path, spare_kb: int) -> int:
        """See `base.Disks`."""
        with self._checked(directory):
            pass
        room = os.statvfs(directory)
        size_bytes = max(0, room.f_bavail * room.f_frsize - spare_kb * 1024)
        done, step = 0, size_bytes
        with (directory / _BALLAST).open("wb") as file:
            # The ballast's metadata takes room as well, so halve the step until only the spare is left.
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
        """See `base.Disks`."""
        for directory in directories:
            self.thaw(directory)
            with contextlib.suppress(HarnessFailure):  # not mounted at the moment
                self.slow(directory, None)
            with contextlib.suppress(OSError):  # shut down or read-only: the fault that did it remounts it
                self.make_room(directory)

    @contextlib.contextmanager
    def _checked(self, directory: Path) -> Iterator[int]:
        """The open directory, after checks that it is on a disk of this run and not on the machine's."""
        mount = self._own_mount(directory)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            device = os.fstat(descriptor).st_dev
            if device == Path("/").stat().st_dev or f"{os.major(device)}:{os.minor(device)}" != mount.device:
                raise HarnessFailure(f"{directory} is not the mount of a disk that this run made: it is left alone")
            yield descriptor
        finally:
            os.close(descriptor)

    def _own_mount(self, directory: Path) -> Mount:
        """The mount at a directory. Its device is a loop device on the image that this run made for the directory."""
        path, image = Path(os.path.realpath(directory)), os.path.realpath(self._image(directory))
        for mount in mounts_below(self.run):
            if mount.path == path and mount.backing == image:
                return mount
        raise HarnessFailure(f"{directory} is not the mount of a disk that this run made: it is left alone")


def _can_slow() -> bool:
    """Whether a control group can limit the writes of this process and of its children."""
    if limits_of_groups(V1[0]):
        return True
    lines = _OWN_GROUPS.read_text("ascii").splitlines()
    return any((GROUPS / line.removeprefix("0::/") / "io.max").exists() for line in lines if line.startswith("0::/"))


def _mkfs(file_system: str) -> str:
    return _tool(f"mkfs.{file_system}") or f"mkfs.{file_system}"


def _run(command: Sequence[str], what: str) -> None:
    """Runs a tool. HarnessFailure, with the first line of its output, when it fails."""
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:{_SBIN}"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MKFS_S, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise MachineFailure(f"cannot {what}: {failed}") from failed
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise MachineFailure(f"cannot {what}: {output[0]}")
