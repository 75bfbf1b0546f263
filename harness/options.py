"""What a user asked for, checked and typed, on its way from the command line to the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

RECORDS_DEFAULT: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """One gate, or one run of a scenario.

    kafka: version, folder, tarball; None = the newest complete release. out: None = durability-out/<time>-<release>/.
    only: names of built-in scenarios; empty = all of the gate. scenarios: files of the user's own, run instead.
    records: total over all scenarios. seed: repeats the plan, not the brokers.
    """

    seed: int
    kafka: str | None = None
    maven_repo: str | None = None
    backend: str = "auto"
    records: int = RECORDS_DEFAULT
    out: Path | None = None
    only: tuple[str, ...] = ()
    scenarios: tuple[Path, ...] = ()
    fail_fast: bool = False
    keep: bool = False
