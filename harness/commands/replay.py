"""`durability replay`: plays a bundle, a scenario file or a generated episode again, each time on a new cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.commands.options import GateOptions
from harness.commands.plays import Played, play
from harness.model.bound import loss_bound
from harness.model.exits import Exit, worst
from harness.model.scenario.scenario import Scenario
from harness.run.progress import Progress

AT_ONCE: Final = 5  # so many replays are judged together; a killed command loses no more of them


def replay(scenario: Scenario, options: GateOptions, out: Path, times: int, progress: Progress) -> list[Played]:
    """Plays a scenario so many times, each time on a new cluster."""
    played: list[Played] = []
    while len(played) < times:
        some = min(AT_ONCE, times - len(played))
        progress.line(f"replays {len(played) + 1} to {len(played) + some} of {times}")
        played += play([scenario] * some, options, out / f"replays_{len(played) + 1}", progress, fresh=True).plays
    return played


def lines_of(played: Sequence[Played], wanted: frozenset[str]) -> list[str]:
    """How often it failed again. wanted: the kinds of findings of the first time; none = any."""
    lines = [f"{one.bundle.name}: {one.status or 'no verdict'}{_found(one.kinds)}" for one in played]
    return [*lines, _how_often(played, wanted)]


def quiet_lines_of(played: Sequence[Played], wanted: frozenset[str], out: Path) -> list[str]:
    """The three lines of --quiet: the word, how often it failed again, and where to look."""
    return [exit_of(played).name, _how_often(played, wanted), str(out)]


def _how_often(played: Sequence[Played], wanted: frozenset[str]) -> str:
    again = sum(one.failed_again(wanted) for one in played)
    kinds = ", ".join(sorted(wanted)) or "a finding"
    if again:
        return f"failed again: {again} of {len(played)} times ({kinds})"
    bound = loss_bound(0, len(played))
    return f"never failed again in {len(played)} times ({kinds}); it may still do so in {bound:.0%} of them"


def document_of(played: Sequence[Played], wanted: frozenset[str]) -> dict[str, object]:
    """The same as a document."""
    rows = [{"evidence": str(one.bundle), "verdict": one.status, "findings": sorted(one.kinds)} for one in played]
    again = sum(one.failed_again(wanted) for one in played)
    return {"wanted": sorted(wanted), "failed_again": again, "times": len(played), "replays": rows}


def exit_of(played: Sequence[Played]) -> Exit:
    return worst([one.exit for one in played])


def _found(kinds: frozenset[str]) -> str:
    return f" ({', '.join(sorted(kinds))})" if kinds else ""
