"""A run's slot: a number that no other run on this machine has, held by flock until the run's last process ends."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path

from harness.clusters.processes.addresses import SLOTS, TOXIPROXY_PORT, Addresses
from harness.model.errors import BadInput, MachineFailure

# One place for all users, whatever their TMPDIR: addresses belong to the machine.
SLOT_DIRECTORY = Path("/tmp/kafka-durability-slots")


class Slot:
    """A taken slot. The lock belongs to the open file, so child processes that inherit the file hold it, too."""

    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self.descriptor = descriptor

    def close(self) -> None:
        """Closes this process's file. The slot is free when every process that inherited it has ended. Idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def take_slot(directory: Path = SLOT_DIRECTORY) -> Slot:
    """Takes the lowest free slot.

    HarnessFailure when there is none, BadInput when the lock files in `directory` cannot be used.
    """
    try:
        _make_shared(directory)
        for number in range(SLOTS):
            descriptor = _locked(directory / f"{number}.lock")
            if descriptor is None:
                continue
            if _unused(number):
                return Slot(number, descriptor)
            os.close(descriptor)
    except OSError as refused:
        raise BadInput(
            f"{refused.filename or directory} cannot be used ({refused.strerror or refused}): {directory} has to be a "
            "folder where every user may create files, on a disk with free space; remove it, and it is made again"
        ) from refused
    raise MachineFailure(f"all {SLOTS} slots of {directory} are taken: `durability clean` ends clusters that were kept")


def _make_shared(directory: Path) -> None:
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o1777)


def _locked(path: Path) -> int | None:
    """An open file with its lock; None when another process holds that. Lock files stay: they cost nothing."""
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _opened(path: Path) -> int:
    # Linux refuses O_CREAT on another user's file in a sticky directory (fs.protected_regular), so try to read first.
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        try:
            return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _unused(number: int) -> bool:
    """Whether no process listens on the slot's addresses. A container may share the network and not the lock files."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ignores past connections, not listeners
        try:
            probe.bind((Addresses(number, (), ()).toxiproxy, TOXIPROXY_PORT))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise MachineFailure(f"cannot listen on the loopback addresses of slot {number}: {error}") from error
    return True
