"""A file system that turns read-only: ext4 does so by itself when it meets an error (errors=remount-ro).

XFS has no such choice: it shuts down, as `disk_failed` makes it. A read-only loop device is no way there: Linux lets a
file system that is mounted go on writing to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.faults.disks.disk_failed import DiskFailed
from harness.faults.steps.step import DisksView
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class DiskReadOnly(DiskFailed):
    """Turns the disk of a log directory read-only under its broker (EROFS), as ext4 does; else as `disk_failed`."""

    do: ClassVar[str] = "disk_read_only"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.ext4", "kill", "restart"})

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        super().validate(plan)
        if plan.scenario.shape.disk != "ext4":
            raise BadInput('XFS never turns read-only by itself; set disk = "ext4" in [shape], or use disk_failed')

    def _break(self, disks: DisksView, directory: Path) -> None:
        disks.turn_read_only(directory)
