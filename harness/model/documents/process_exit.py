"""A process of the cluster that ended although the harness had sent it no signal to end."""

from __future__ import annotations

import signal
from typing import Annotated

from harness.model.documents.record import Record, meaning
from harness.model.doubt_names import DoubtName
from harness.model.verdict import Doubt


class ProcessExit(Record, frozen=True, kw_only=True):
    """The end of a process that the harness had sent neither SIGTERM nor SIGKILL since its start."""

    name: Annotated[str, meaning("`b1` = broker 1, `c101` = controller 101, `toxiproxy`, `s3`")]
    node: Annotated[int | None, meaning("id of the node; null = a process beside the nodes")]
    at_ns: Annotated[int, meaning("when it ended, or was found ended")]
    code: Annotated[int | None, meaning("its exit code; null = a signal ended it")]
    signal: Annotated[int | None, meaning("the number of the signal; null = it exited")]
    out_of_memory: Annotated[
        bool, meaning("its JVM logged OutOfMemoryError, or it reached the memory limit of its container")
    ] = False
    host_disk_full: Annotated[bool, meaning("it logged that no space is left, and it had no disk of its own")] = False
    host_memory_full: Annotated[bool, meaning("its JVM logged that the machine gave it no memory")] = False
    address_in_use: Annotated[bool, meaning("it logged that another process had its address")] = False
    error: Annotated[str | None, meaning("the last error or exception in its logs since its start; null = none")] = None
    log: Annotated[tuple[str, ...], meaning("the last lines of its log since its start; not judged")] = ()

    @property
    def status(self) -> str:
        """How it ended, in words."""
        memory = ", out of memory" if self.out_of_memory else ""
        if self.signal is not None:
            return f"signal {signal.Signals(self.signal).name}{memory}"
        return f"exit code {self.code}{memory}"

    @property
    def machine_doubt(self) -> Doubt | None:
        """The doubt if not the release but the machine ended it; None if the release may have."""
        if self.node is None:
            return Doubt(DoubtName.HELPER_ENDED, f"{self.name} ended ({self.status}), so the run tested something else")
        if self.signal == signal.SIGKILL and not self.out_of_memory:
            text = f"{self.name} ended by a SIGKILL that the harness did not send: from the kernel for lack of memory"
            return Doubt(DoubtName.NODE_KILLED, f"{text} of the whole machine, or by hand")
        if self.host_disk_full:
            text = f"{self.name} ended ({self.status}) when the disk of the machine was full"
            return Doubt(DoubtName.HOST_DISK_FULL, f"{text}: {self.error}")
        if self.host_memory_full:
            text = f"{self.name} ended ({self.status}) when the machine had no memory for it"
            return Doubt(DoubtName.HOST_MEMORY_FULL, f"{text}: {self.error}")
        if self.address_in_use:
            text = f"{self.name} ended ({self.status}) because another process of the machine had its address"
            return Doubt(DoubtName.ADDRESS_IN_USE, f"{text}: {self.error}")
        return None
