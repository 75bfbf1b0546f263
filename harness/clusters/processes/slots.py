"""A run's slot: a number that nobody else on this machine has, held by flock until its last process is gone."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path

from harness.clusters.processes.addresses import SLOTS, TOXIPROXY_PORT, Addresses
from harness.model.errors import HarnessFailure

# One place for all users, whatever their TMPDIR: addresses belong to the machine.
SLOT_DIRECTORY = Path("/tmp/kafka-durability-slots")


class Slot:
    """A taken slot. The lock lives in the open file, so children that inherit it hold it, too."""

    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self.descriptor = descriptor

    def let_go(self) -> None:
        """Closes our hold on it; it is free when every process that inherited it is gone. Idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def take_slot(directory: Path = SLOT_DIRECTORY) -> Slot:
    """The lowest free slot. Raises HarnessFailure when there is none."""
    _shared(directory)
    for number in range(SLOTS):
        descriptor = _locked(directory / f"{number}.lock")
        if descriptor is None:
            continue
        if _unused(number):
            return Slot(number, descriptor)
        os.close(descriptor)
    raise HarnessFailure(f"all {SLOTS} slots of {directory} are taken: `durability clean` ends clusters that were kept")


def _shared(directory: Path) -> None:
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o1777)


def _locked(path: Path) -> int | None:
    """An open file with its lock, None when somebody has it. Lock files are never removed: that would free nothing."""
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _opened(path: Path) -> int:
    # Linux refuses O_CREAT on another user's file in a sticky directory (fs.protected_regular), so read first.
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        try:
            return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _unused(number: int) -> bool:
    """Whether nobody listens on the slot's addresses, lock or no lock (a container may share only the network)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # past connections do not count, listeners do
        try:
            probe.bind((Addresses(number, (), ()).toxiproxy, TOXIPROXY_PORT))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise HarnessFailure(f"cannot listen on loopback addresses of slot {number}: {error}") from error
    return True
