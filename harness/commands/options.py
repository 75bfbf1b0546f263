"""The options and the result of a gate: the types between the command line and the gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.evidence.gate import GateSummary
from harness.model.backend import AUTO
from harness.model.exits import Exit
from harness.model.hooks import Hooks
from harness.model.known_findings import KnownFile
from harness.model.limits import NO_LIMITS, Limits
from harness.model.user_storage import UserStorage

RECORDS_DEFAULT: Final = 700_000
TRIES_MAX: Final = 2
OUT_DEFAULT: Final = Path("durability-out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    """An existing cluster, in place of one that the harness starts.

    config: of clients, in the names of librdkafka, from config_file. hooks: the user's commands for faults.
    allow_faults: the id of the cluster that may be broken. rate_per_s: the most records a second of the whole load.
    """

    bootstrap: str
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    config_file: Path | None = None
    hooks: Hooks | None = None
    allow_faults: str | None = None
    rate_per_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """The options of one gate, or of one run of some scenarios.

    seed: makes the plan; brokers still differ from run to run.
    kafka: a version, a folder, a tarball or image:REF; None is the newest complete release.
    maven_repo: URL of a repository in place of Maven Central.
    limits: of each broker and controller in a container.
    tier_storage: the remote storage manager that scenarios with a tier use in place of Kafka's own, as
    tier_storage_file describes it.
    records: the total of a whole gate, of which each scenario gets a part by its load_weight.
    out: the folder of the evidence; None is durability-out/<time>-<release>/.
    only: names of built-in scenarios; empty means all of the gate. A run with names is a part of the gate.
    scenarios: files of the user, run in place of the gate. tags: built-in scenarios with these, likewise.
    without: names that are left out on purpose; the verdict names them.
    tries_max: the most runs of one scenario, while its last run is in doubt.
    known: findings that are accepted; they change the word and the exit code of the gate, and no verdict.
    attach: the existing cluster to run on; kafka then only says which version that runs.
    leave_out: scenarios that this machine cannot play are named as not run; without it they are refused.
    """

    seed: int
    kafka: str | None = None
    maven_repo: str | None = None
    backend: str = AUTO
    limits: Limits = NO_LIMITS
    tier_storage: UserStorage | None = None
    tier_storage_file: Path | None = None
    records: int = RECORDS_DEFAULT
    out: Path | None = None
    only: tuple[str, ...] = ()
    scenarios: tuple[Path, ...] = ()
    tags: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    leave_out: bool = False
    fail_fast: bool = False
    keep: bool = False
    tries_max: int = TRIES_MAX
    known: KnownFile | None = None
    attach: Attach | None = None

    @property
    def named(self) -> bool:
        """Whether the user named each scenario, so that one which cannot be played is an error."""
        return bool(self.only or self.scenarios)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The folder of a gate's evidence, and the summary that is in its gate.json."""

    out: Path
    summary: GateSummary

    @property
    def exit(self) -> Exit:
        return self.summary.exit

    @property
    def bundles(self) -> tuple[Path, ...]:
        """The bundle that counts for each scenario that left one, in the order of the run."""
        return tuple(self.out / r.bundle for r in self.summary.results if r.bundle is not None)
