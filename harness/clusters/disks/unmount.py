"""What a run has mounted, and how it goes away. Also run as a script, by its path, when a harness died:
`unmount.py [--thaw] DIRECTORY` imports no other module of ours, and nothing outside the standard library.

Only mounts of loop devices below the directory of a run are touched. Loop devices detach themselves with their last
user (LO_FLAGS_AUTOCLEAR), so that no end of a process leaves one without a mount.
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
# What limits the writes that reach a device, and not those that the page cache takes: a file in each control group, of
# cgroup v1 or v2, and how it says so many a second, and all.
GROUPS = Path("/sys/fs/cgroup")
V1 = ("blkio.throttle.write_iops_device", "{device} {per_s}", "{device} 0")
V2 = ("io.max", "{device} wiops={per_s}", "{device} wiops=max")
_FREE_S = 8.0  # a process that was killed closes its files when it is scheduled again
_LOOK_S = 0.05


@dataclass(frozen=True)
class Mount:
    """A mount of a loop device; `backing` is the image behind it, "" when that cannot be told."""

    path: Path
    device: str  # "7:0"
    backing: str


def mounts_below(directory: Path) -> list[Mount]:
    """The newest first, so that they can be undone in this order."""
    top = f"{os.path.realpath(directory)}/"
    found = []
    for line in _MOUNTS.read_text("utf-8", "surrogateescape").splitlines():
        fields = line.split()
        path = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        if path.startswith(top) and fields[2].startswith(f"{_LOOP_MAJOR}:"):
            found.append(Mount(Path(path), fields[2], backing_of(fields[2])))
    return found[::-1]


def backing_of(device: str) -> str:
    """The image behind a loop device such as "7:0"; "" when it has none."""
    try:
        return Path(f"/sys/dev/block/{device}/loop/backing_file").read_text("utf-8", "surrogateescape").rstrip("\n")
    except OSError:
        return ""


def thaw(mount: Path) -> None:
    """Ends a freeze (FIFREEZE), if there is one: who waits for the disk cannot even be killed before."""
    try:
        descriptor = os.open(mount, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # shut down, or gone: nobody waits for it
        return
    try:
        fcntl.ioctl(descriptor, _FITHAW, 0)
    except OSError as not_frozen:
        if not_frozen.errno not in (errno.EINVAL, errno.EIO):
            raise
    finally:
        os.close(descriptor)


def thaw_below(directory: Path) -> None:
    """Thaws whatever a run has mounted, and lets it be as fast as it can."""
    for mount in mounts_below(directory):
        limit_writes(mount, None)
        thaw(mount.path)


def limit_writes(mount: Mount, per_s: int | None) -> None:
    """Of whoever writes to the device of a mount, None = no limit. Outlives the mount, and its image on the device."""
    old = limits_of_groups(V1[0])
    name, some, every = V1 if old else V2
    text = (every if per_s is None else some).format(device=mount.device, per_s=per_s)
    for control in old or limits_of_groups(name):
        with contextlib.suppress(OSError):  # of a container that ended; and a disk that stays as it was is no bite
            control.write_text(f"{text}\n", "ascii")


def limits_of_groups(name: str) -> list[Path]:
    """The files of this name. Groups come and go meanwhile, as containers do."""
    return [Path(folder) / name for folder, _, names in os.walk(GROUPS) if name in names]


def unmount(mount: Mount) -> None:
    """Until it is gone and its loop device free. What somebody still uses after some seconds goes with its last user.

    Raises OSError when the kernel refuses.
    """
    limit_writes(mount, None)
    thaw(mount.path)
    give_up_at = time.monotonic() + _FREE_S
    while said := _umount(mount.path):
        if time.monotonic() > give_up_at and (said := _umount(mount.path, "--lazy")):
            raise OSError(f"{mount.path} cannot be unmounted: {said}")
        time.sleep(_LOOK_S)
    while mount.backing and backing_of(mount.device) == mount.backing and time.monotonic() < give_up_at:
        time.sleep(_LOOK_S)


def release(directory: Path) -> None:
    """Unmounts everything that a run has mounted below its directory. Idempotent."""
    for mount in mounts_below(directory):
        unmount(mount)


def _umount(path: Path, *options: str) -> str:
    """What it said against it; "" = it is done."""
    done = subprocess.run(["umount", *options, str(path)], capture_output=True, text=True, check=False)
    if done.returncode == 0 or not os.path.ismount(path):
        return ""
    return done.stderr.strip() or f"umount ended with {done.returncode}"


if __name__ == "__main__":
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:/usr/bin:/bin:/usr/sbin:/sbin"
    act = thaw_below if sys.argv[1] == "--thaw" else release
    with contextlib.suppress(FileNotFoundError):  # the directory is gone
        act(Path(sys.argv[-1]))
