"""What goes into a gate and what comes out of it: the seam between the command line and the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from harness.evidence.gate import GateSummary
from harness.model.backend import AUTO
from harness.model.exits import Exit
from harness.model.limits import NO_LIMITS, Limits
from harness.model.user_storage import UserStorage

RECORDS_DEFAULT: Final = 1_000_000
OUT_DEFAULT: Final = Path("durability-out")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """One gate, or one run of a scenario.

    kafka: version, folder, tarball, image:REF; None = the newest complete release.
    out: None = durability-out/<time>-<release>/.
    only: names of built-in scenarios; empty = all of the gate. scenarios: files of the user's own, run instead.
    tags: sets of built-in scenarios, run instead. leave_out: of a set or a gate, what nothing here can play is named as
    not run; else it is refused. What the release cannot play is left out of a set in any case.
    records: total over all scenarios of a whole gate, of which each gets its share.
    tier_storage: what scenarios with a remote tier have for one in the place of Kafka's own.
    seed: repeats the plan, not the brokers. limits: of each broker and controller, in containers.
    """

    seed: int
    kafka: str | None = None
    maven_repo: str | None = None
    backend: str = AUTO
    limits: Limits = NO_LIMITS
    tier_storage: UserStorage | None = None
    records: int = RECORDS_DEFAULT
    out: Path | None = None
    only: tuple[str, ...] = ()
    scenarios: tuple[Path, ...] = ()
    tags: tuple[str, ...] = ()
    leave_out: bool = False
    fail_fast: bool = False
    keep: bool = False


class Progress(Protocol):
    """Where a long command says what it does. Both forms take one line of text."""

    def __call__(self, text: str) -> None:
        """What is being done now; a terminal shows the last one only."""
        ...

    def line(self, text: str) -> None:
        """What stays: the release, the seed, the verdict on a scenario. Goes to standard output."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """What a gate leaves: OUT and the summary that stands in its gate.json. `exit` follows what ran."""

    out: Path
    summary: GateSummary

    @property
    def exit(self) -> Exit:
        return self.summary.exit

    @property
    def bundles(self) -> tuple[Path, ...]:
        """The bundle of every scenario that left one, in the order of the run."""
        return tuple(self.out / r.bundle for r in self.summary.results if r.bundle is not None)
