"""Finds what a run has mounted, and unmounts it.

Also run as a script, by its path, after a harness died: `unmount.py [--thaw] DIRECTORY`. So it imports no other module
of ours, and only the standard library. It touches only mounts of loop devices below the directory of a run. Loop
devices detach themselves with their last user (LO_FLAGS_AUTOCLEAR), so none stays behind without a mount.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_FITHAW = 0xC0045878  # linux/fs.h
_LOOP_MAJOR = 7  # Documentation/admin-guide/devices.txt
_MOUNTS = Path("/proc/self/mountinfo")
# Control groups limit the writes that reach a device; the page cache still takes writes at full speed. Each group has
# a control file: its name, the text for a limit in writes a second, and the text for no limit.
GROUPS = Path("/sys/fs/cgroup")
V1 = ("blkio.throttle.write_iops_device", "{device} {per_s}", "{device} 0")
V2 = ("io.max", "{device} wiops={per_s}", "{device} wiops=max")
_FREE_S = 8.0  # a killed process closes its files only when it is scheduled again
_LOOK_S = 0.05


@dataclass(frozen=True)
class Mount:
    """A mount of a loop device. `backing` is the image behind it, "" if unknown."""

    path: Path
    device: str  # "7:0"
    backing: str


def mounts_below(directory: Path) -> list[Mount]:
    """Mounts of loop devices below `directory`, newest first: the order in which they can be unmounted."""
    top = f"{os.path.realpath(directory)}/"
    found = []
    for line in _MOUNTS.read_text("utf-8", "surrogateescape").splitlines():
        fields = line.split()
        path = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        if path.startswith(top) and fields[2].startswith(f"{_LOOP_MAJOR}:"):
            found.append(Mount(Path(path), fields[2], backing_of(fields[2])))
    return found[::-1]


def backing_of(device: str) -> str:
    """The image behind a loop device such as "7:0"; "" if it has none."""
    try:
        return Path(f"/sys/dev/block/{device}/loop/backing_file").read_text("utf-8", "surrogateescape").rstrip("\n")
    except OSError:
        return ""


def thaw(mount: Path) -> None:
    """Ends a freeze (FIFREEZE), if there is one: before that, a process that waits for the disk cannot be killed."""
    try:
        descriptor = os.open(mount, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # shut down or unmounted: no process waits for it
        return
    try:
        fcntl.ioctl(descriptor, _FITHAW, 0)
    except OSError as not_frozen:
        if not_frozen.errno not in (errno.EINVAL, errno.EIO):
            raise
    finally:
        os.close(descriptor)


def thaw_below(directory: Path) -> None:
    """Thaws every mount of a run and lifts its limit of writes."""
    for mount in mounts_below(directory):
        limit_writes(mount, None)
        thaw(mount.path)


def limit_writes(mount: Mount, per_s: int | None) -> None:
    """Limits the writes of every process to the device of a mount, in writes a second; None = no limit.

    The limit belongs to the device, so it outlives the mount and its image.
    """
    old = limits_of_groups(V1[0])
    name, limited, unlimited = V1 if old else V2
    text = (unlimited if per_s is None else limited).format(device=mount.device, per_s=per_s)
    for control in old or limits_of_groups(name):
        # The group may be of a container that has ended. If the disk does not become slow, its fault has no effect.
        with contextlib.suppress(OSError):
            control.write_text(f"{text}\n", "ascii")


def limits_of_groups(name: str) -> list[Path]:
    """The control files of this name in all control groups, which appear and disappear with containers."""
    return [Path(folder) / name for folder, _, names in os.walk(GROUPS) if name in names]


def unmount(mount: Mount) -> None:
    """Unmounts, and returns when the loop device is free.

    A mount that is still in use after `_FREE_S` seconds is detached: the kernel ends it with its last user. OSError
    when the kernel refuses.
    """
    limit_writes(mount, None)
    thaw(mount.path)
    give_up_at = time.monotonic() + _FREE_S
    while refusal := _umount(mount.path):
        if time.monotonic() > give_up_at and (refusal := _umount(mount.path, "--lazy")):
            raise OSError(f"{mount.path} cannot be unmounted: {refusal}")
        time.sleep(_LOOK_S)
    while mount.backing and backing_of(mount.device) == mount.backing and time.monotonic() < give_up_at:
        time.sleep(_LOOK_S)


def unmount_all(directory: Path) -> None:
    """Unmounts everything that a run has mounted below its directory. Idempotent."""
    for mount in mounts_below(directory):
        unmount(mount)


def _umount(path: Path, *options: str) -> str:
    """Why it could not be unmounted; "" if it is unmounted."""
    done = subprocess.run(["umount", *options, str(path)], capture_output=True, text=True, check=False)
    if done.returncode == 0 or not os.path.ismount(path):
        return ""
    return done.stderr.strip() or f"umount ended with {done.returncode}"


if __name__ == "__main__":
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:/usr/bin:/bin:/usr/sbin:/sbin"
    act = thaw_below if sys.argv[1] == "--thaw" else unmount_all
    with contextlib.suppress(FileNotFoundError):  # the directory no longer exists
        act(Path(sys.argv[-1]))
