"""Several scenarios played one after the other and judged together: most of the cost of a single play is its judging.

They use one cluster where their shapes are the same and nothing was doubtful, as the scenarios of a gate do.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.chaos.played import kinds_of
from harness.chaos.summary import RECORDS
from harness.commands.gate import gate
from harness.commands.options import GateOptions
from harness.evidence.manifest import MANIFEST
from harness.model.exits import Exit
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.toml_text import text_of
from harness.model.verdict import Status, exit_of
from harness.run.progress import Progress


@dataclass(frozen=True, slots=True)
class Played:
    """One play. bundle: its evidence. kinds: the kinds of its condemning findings."""

    bundle: Path
    status: Status | None
    kinds: frozenset[str]

    @property
    def exit(self) -> Exit:
        """HARNESS if it has no verdict."""
        return Exit.HARNESS if self.status is None else exit_of(self.status)

    def failed_again(self, wanted: frozenset[str]) -> bool:
        """Whether it has one of these kinds of findings; of any kind where none is named."""
        return bool(self.kinds & wanted) if wanted else self.status is Status.FAIL


@dataclass(frozen=True, slots=True)
class Batch:
    """The plays in their order. driving_s, judging_s: how long brokers ran, and how long the judgement took."""

    plays: tuple[Played, ...]
    driving_s: float
    judging_s: float


def play(
    scenarios: Sequence[Scenario], options: GateOptions, out: Path, progress: Progress, *, fresh: bool = False
) -> Batch:
    """Plays scenarios, and judges them when all brokers are stopped. fresh: each one on a cluster of its own."""
    began_s = time.time()
    with tempfile.TemporaryDirectory(prefix="durability-plays-") as folder:
        files = [Path(folder, f"{scenario.name}_{n}.toml") for n, scenario in enumerate(scenarios, 1)]
        for file, scenario in zip(files, scenarios, strict=True):
            played = replace(scenario, negative_control=None, fresh=scenario.fresh or fresh)
            file.write_text(text_of(played), encoding="utf-8")
        asked = replace(options, scenarios=tuple(files), out=out, tries_max=1, records=RECORDS)
        result = gate(asked, progress)
    statuses = {one.name: one.status for one in result.summary.results}
    bundles = [out / file.stem for file in files]
    plays = tuple(Played(bundle, statuses.get(bundle.name), kinds_of(bundle)) for bundle in bundles)
    sealed_s = [(one / MANIFEST).stat().st_mtime for one in bundles if (one / MANIFEST).is_file()]
    driven_s, ended_s = max(sealed_s, default=began_s), time.time()
    return Batch(plays, driving_s=driven_s - began_s, judging_s=ended_s - driven_s)
