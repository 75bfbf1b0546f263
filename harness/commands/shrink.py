"""`durability shrink`: finds the smallest scenario that still has the finding of a bundle, within a time.

Brokers are not deterministic, so one replay without the finding says little: first it is measured how often the plan
fails again, and each smaller scenario is played as often as that makes it likely to show.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.chaos.played import kinds_of, scenario_of
from harness.chaos.shrink import happenings_of, shrink
from harness.commands.options import GateOptions
from harness.commands.replay import Played, failed_again, play_once
from harness.evidence.verdicts import read_verdict
from harness.model.bound import loss_bound
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.toml_text import text_of
from harness.run.progress import Progress

SMALLEST: Final = "smallest.toml"
ISSUE: Final = "issue.md"
# The plan is first replayed at most so often, and ends after so many findings.
REPLAYS_MAX: Final = 4
FOUND_ENOUGH: Final = 2
# A smaller scenario counts as one without the finding if it would have had it with this probability.
CONFIDENCE: Final = 0.9
TRIES_MAX: Final = 4
# The share of the time that is kept for the rate of the smallest scenario.
KEPT_SHARE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a scenario failed again."""

    failed: int
    played: int

    @property
    def text(self) -> str:
        if not self.played:
            return "not measured"
        low, high = 1 - loss_bound(self.played - self.failed, self.played), loss_bound(self.failed, self.played)
        return f"{self.failed} of {self.played} replays (95 % bounds: {low:.0%} and {high:.0%})"

    @property
    def tries(self) -> int:
        """How often a smaller scenario is played before it counts as one that does not fail."""
        share = self.failed / self.played if self.played else 0.0
        if share >= 1:
            return 1
        return min(TRIES_MAX, math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - share))) if share else TRIES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkResult:
    """smallest, issue: the files that were written; None where the finding did not appear again."""

    before: Rate
    after: Rate
    removed: Sequence[str]
    happenings: int
    smallest: Path | None
    issue: Path | None
    tried: int

    @property
    def exit(self) -> Exit:
        """PASS where the finding appeared again: then there is a smallest scenario."""
        return Exit.PASS if self.smallest is not None else Exit.INCONCLUSIVE

    @property
    def document(self) -> dict[str, object]:
        """All of it, for --json."""
        rates = {"before": self.before, "after": self.after}
        return {
            "smallest": None if self.smallest is None else str(self.smallest),
            "report": None if self.issue is None else str(self.issue),
            **{name: {"failed": one.failed, "played": one.played} for name, one in rates.items()},
            "faults_or_operations": self.happenings,
            "removed": list(self.removed),
            "tried": self.tried,
        }

    @property
    def lines(self) -> list[str]:
        if self.smallest is None:
            return [f"the finding did not appear again: {self.before.text}; give a longer --budget, or replay it"]
        return [
            f"before: {self.before.text}",
            f"after:  {self.after.text}; {self.happenings} faults or operations, {self.tried} scenarios tried",
            f"removed: {', '.join(self.removed) or 'nothing'}",
            f"smallest: {self.smallest}",
            f"report:   {self.issue}",
        ]


@dataclass(slots=True)
class _Player:
    """Plays scenarios until the time is over, and remembers how often each one failed."""

    options: GateOptions
    out: Path
    wanted: frozenset[str]
    until_s: float
    progress: Progress
    played: int = 0
    longest_s: float = 0.0
    last: dict[str, Played] = field(default_factory=dict)

    def left(self) -> bool:
        """Whether one more run is likely to end in time."""
        return time.monotonic() + self.longest_s < self.until_s

    def rate(self, scenario: Scenario, most: int, enough: int) -> Rate:
        """Plays a scenario so often, or until it failed often enough."""
        failed = done = 0
        while done < most and failed < enough and (self.left() or not self.played):
            failed += self._fails_once(scenario)
            done += 1
        return Rate(failed, done)

    def _fails_once(self, scenario: Scenario) -> bool:
        began_s = time.monotonic()
        self.played += 1
        one = play_once(scenario, self.options, self.out / f"try_{self.played:03d}", self.progress)
        self.longest_s = max(self.longest_s, time.monotonic() - began_s)
        failed = failed_again(one, self.wanted)
        if failed:
            self.last[text_of(scenario)] = one
        self.progress.line(f"    try {self.played}: {'failed again' if failed else 'did not fail again'}")
        return failed


def shrink_bundle(evidence: Path, options: GateOptions, out: Path, budget_s: float, progress: Progress) -> ShrinkResult:
    """Shrinks the scenario of a bundle that is FAIL. BadInput if it is none."""
    scenario, _ = scenario_of(evidence)
    wanted = kinds_of(evidence)
    if not wanted:
        raise BadInput(f"{evidence} has no verdict with a finding; judge it with: durability verify {evidence}")
    began_s = time.monotonic()
    player = _Player(options, out, wanted, began_s + budget_s * (1 - KEPT_SHARE), progress)
    progress.line(f"looking for {', '.join(sorted(wanted))} again")
    before = player.rate(scenario, REPLAYS_MAX, FOUND_ENOUGH)
    if not before.failed:
        return ShrinkResult(
            before=before, after=Rate(0, 0), removed=(), happenings=0, smallest=None, issue=None, tried=0
        )

    def fails(smaller: Scenario) -> bool:
        progress.line(f"trying {len(smaller.steps)} steps, {len(smaller.topics)} topics")
        return player.rate(smaller, before.tries, 1).failed > 0

    shrunk = shrink(scenario, fails, player.left)
    player.until_s = began_s + budget_s
    after = player.rate(shrunk.scenario, REPLAYS_MAX, FOUND_ENOUGH)
    smallest, issue = out / SMALLEST, out / ISSUE
    smallest.write_text(text_of(shrunk.scenario), encoding="utf-8")
    shown = player.last.get(text_of(shrunk.scenario)) or next(reversed(player.last.values()))
    issue.write_text(_issue(shrunk.scenario, shown, before, after, options), encoding="utf-8")
    return ShrinkResult(
        before=before,
        after=after,
        removed=shrunk.removed,
        happenings=happenings_of(shrunk.scenario),
        smallest=smallest,
        issue=issue,
        tried=shrunk.tried,
    )


def _issue(scenario: Scenario, shown: Played, before: Rate, after: Rate, options: GateOptions) -> str:
    """The text of a bug report."""
    bundle = shown.out / scenario.name
    verdict = read_verdict(bundle)
    found = [finding for finding in verdict.findings if finding.condemns]
    release = verdict.facts.release
    version = release.version if release else "unknown"
    rows = [
        f"- {one.kind}: {one.count} records of {one.topic}/{one.partition}, offsets {one.offset_first} to "
        f"{one.offset_last}: {one.detail}"
        for one in found[:10]
    ]
    return "\n".join(
        [
            f"# {', '.join(sorted(shown.kinds))} after {_happenings(scenario)}",
            "",
            f"Kafka {version}{f', commit {release.commit}' if release and release.commit else ''}. "
            f"{rates_text(before, after)}",
            "",
            "## Findings",
            *rows,
            *([f"- and {len(found) - 10} more findings"] if len(found) > 10 else []),
            "",
            "## How to see it",
            f"    durability run {SMALLEST} --kafka {options.kafka or version} --seed {options.seed}",
            "",
            "## Configuration, load and steps",
            "```toml",
            text_of(scenario).rstrip(),
            "```",
            "",
            f"Evidence, with the logs of all nodes: {bundle.relative_to(shown.out.parent)}",
            "",
        ]
    )


def rates_text(before: Rate, after: Rate) -> str:
    """How often the smallest scenario fails, and the one that was found, in a sentence."""
    found = f"the one that was found failed in {before.text}."
    if not after.played:
        return f"There was no time left to measure how often the scenario below fails; {found}"
    return f"The scenario below fails in {after.text}; {found}"


def _happenings(scenario: Scenario) -> str:
    steps = [step.do for step in scenario.steps if step.do not in ("heal", "hold") and not step.do.startswith("wait_")]
    return ", ".join(steps) or "no fault"
