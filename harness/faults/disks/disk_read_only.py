"""A file system that becomes read-only, as ext4 does after an error (errors=remount-ro).

XFS has no such option: it shuts down, as with `disk_failed`. A read-only loop device does not have this effect: Linux
allows a file system that is already mounted to continue writing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.clusters.base import Disks
from harness.faults.disks.disk_failed import DiskFailed
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class DiskReadOnly(DiskFailed):
    """Everything else is as with `disk_failed`."""

    do: ClassVar[str] = "disk_read_only"
    summary: ClassVar[str] = (
        "Makes the disk of a log directory read-only while its broker runs (EROFS), as ext4 does after an error."
    )
    proof: ClassVar[str] = "as for `disk_failed`"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.ext4", "kill", "restart"})

    def validate(self, plan: StepValidation) -> None:
        super().validate(plan)
        if plan.scenario.shape.disk != "ext4":
            raise BadInput('XFS never becomes read-only by itself; set disk = "ext4" in [shape], or use disk_failed')

    def _break(self, disks: Disks, directory: Path) -> None:
        disks.turn_read_only(directory)
