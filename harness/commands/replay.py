"""`durability replay`: plays a bundle, a scenario file or a generated episode again, each time on a new cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.chaos.played import kinds_of
from harness.commands.gate import gate
from harness.commands.options import GateOptions
from harness.model.bound import loss_bound
from harness.model.exits import Exit, worst
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.toml_text import text_of
from harness.model.verdict import Status
from harness.run.progress import Progress

RECORDS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Played:
    """One replay. kinds: the kinds of its condemning findings."""

    out: Path
    status: Status | None
    kinds: frozenset[str]
    exit: Exit


def replay(scenario: Scenario, options: GateOptions, out: Path, times: int, progress: Progress) -> list[Played]:
    """Plays a scenario so many times, each time on a new cluster and into a folder of its own."""
    played: list[Played] = []
    for number in range(1, times + 1):
        progress.line(f"replay {number} of {times}")
        played.append(play_once(scenario, options, out / f"replay_{number}", progress))
    return played


def play_once(scenario: Scenario, options: GateOptions, out: Path, progress: Progress) -> Played:
    """Plays and judges a scenario on a new cluster."""
    with tempfile.TemporaryDirectory(prefix="durability-replay-") as folder:
        file = Path(folder, f"{scenario.name}.toml")
        file.write_text(text_of(replace(scenario, negative_control=None)), encoding="utf-8")
        result = gate(replace(options, scenarios=(file,), out=out, tries_max=1, records=RECORDS), progress)
    found = frozenset[str]().union(*(kinds_of(bundle) for bundle in result.bundles))
    (first,) = result.summary.results
    return Played(out=out, status=first.status, kinds=found, exit=result.exit)


def lines_of(played: Sequence[Played], wanted: frozenset[str]) -> list[str]:
    """How often it failed again. wanted: the kinds of findings of the first time; none = any."""
    again = sum(failed_again(one, wanted) for one in played)
    kinds = ", ".join(sorted(wanted)) or "a finding"
    lines = [f"{one.out.name}: {one.status or 'no verdict'}{_found(one.kinds)}" for one in played]
    if again:
        return [*lines, f"failed again: {again} of {len(played)} times ({kinds})"]
    bound = loss_bound(0, len(played))
    return [*lines, f"never failed again in {len(played)} times ({kinds}); it may still do so in {bound:.0%} of them"]


def document_of(played: Sequence[Played], wanted: frozenset[str]) -> dict[str, object]:
    """The same as a document."""
    rows = [{"evidence": str(one.out), "verdict": one.status, "findings": sorted(one.kinds)} for one in played]
    again = sum(failed_again(one, wanted) for one in played)
    return {"wanted": sorted(wanted), "failed_again": again, "times": len(played), "replays": rows}


def failed_again(played: Played, wanted: frozenset[str]) -> bool:
    """Whether a replay has one of these kinds of findings; of any kind where none is named."""
    return bool(played.kinds & wanted) if wanted else played.status is Status.FAIL


def exit_of(played: Sequence[Played]) -> Exit:
    return worst([one.exit for one in played])


def _found(kinds: frozenset[str]) -> str:
    return f" ({', '.join(sorted(kinds))})" if kinds else ""
