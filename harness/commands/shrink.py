"""`durability shrink`: finds the smallest scenario that still has the finding of a bundle, within a time.

Brokers are not deterministic, so one replay without the finding says little: it is measured how often the plan fails
again, and each smaller scenario is played as often as that makes it likely to show. A single judgement costs more than
a play, so scenarios are played in batches, and the first batch has guesses beside the plan.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from harness.chaos.played import kinds_of, scenario_of
from harness.chaos.shrink import Shrunk, happenings_of, removed_from, shrink
from harness.chaos.suspects import guesses, repeated
from harness.commands.options import GateOptions
from harness.commands.plays import Played, play
from harness.evidence.figures import run_of
from harness.evidence.verdicts import read_verdict
from harness.model.bound import loss_bound
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.toml_text import text_of
from harness.run.progress import Progress

SMALLEST: Final = "smallest.toml"
ISSUE: Final = "issue.md"
# The plan is replayed so often at once, and as often again where it did not fail. So is the smallest scenario.
REPLAYS: Final = 2
REPLAYS_MAX: Final = 4
GUESSES_MAX: Final = 5
# Where the plan does not always fail again, the steps of a scenario are played so many times.
REPEATED: Final = 4
# The expected times of a play and of a judgement, before the first ones ended. A play takes as long as the run that is
# shrunk, and on a release with a bug that may be minutes.
PLAY_S: Final = 45.0
PLAY_LEAST_S: Final = 5.0  # a play whose cluster did not start takes none
JUDGING_S: Final = 90.0
# A smaller scenario counts as one without the finding if it would have had it with this probability.
CONFIDENCE: Final = 0.9
TRIES_MAX: Final = 4
# The first judgement of a process starts Spark and compiles all queries; later ones take this share of it at most.
WARM_SHARE: Final = 0.5


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
    """smallest, issue: the files that were written; None where the finding did not appear again.

    happenings, steps: faults and operations of the smallest scenario, and all of its steps. tried: how many scenarios
    were tried. plays: how many plays there were, of all scenarios.
    """

    before: Rate
    after: Rate
    removed: Sequence[str]
    happenings: int
    smallest: Path | None
    issue: Path | None
    tried: int
    steps: int = 0
    plays: int = 0

    @property
    def exit(self) -> Exit:
        """PASS where the finding appeared again: then there is a smallest scenario."""
        return Exit.PASS if self.smallest is not None else Exit.INCONCLUSIVE

    @property
    def document(self) -> dict[str, object]:
        """All of it, for --json."""
        rates = {"before": self.before, "after": self.after}
        return {
            "steps": self.steps,
            "plays": self.plays,
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
            f"after:  {self.after.text}",
            f"faults or operations: {self.happenings}, of {self.steps} steps; {self.tried} scenarios tried, "
            f"{self.plays} plays",
            f"removed: {', '.join(self.removed) or 'nothing'}",
            f"smallest: {self.smallest}",
            f"report:   {self.issue}",
        ]

    @property
    def quiet_lines(self) -> list[str]:
        """The three lines of --quiet: the word, why, and where to look."""
        if self.smallest is None:
            return [self.exit.name, *self.lines, "no smallest scenario"]
        return [self.exit.name, f"{self.steps} steps; after: {self.after.text}", str(self.smallest)]


@dataclass(slots=True)
class _Player:
    """Plays scenarios until the time is over.

    keeps: it keeps time for the rate of the smallest scenario. last: the latest play of each scenario that failed, by
    its text.
    """

    options: GateOptions
    out: Path
    wanted: frozenset[str]
    until_s: float
    progress: Progress
    keeps: bool = True
    tries: int = 1
    plays: int = 0
    batches: int = 0
    play_s: float = PLAY_S
    judging_s: float = JUDGING_S
    last: dict[str, Played] = field(default_factory=dict)

    def room(self) -> int:
        """How many plays are likely to end, and to be judged, in time. The first batch is never refused."""
        left_s = self.until_s - time.monotonic() - self.judging_s
        if self.keeps:
            left_s -= REPLAYS * self.play_s + WARM_SHARE * self.judging_s
        return max(REPLAYS if not self.batches else 0, int(left_s / self.play_s))

    def left(self) -> bool:
        """Whether there is time for one more play."""
        return self.room() > 0

    def play(self, scenarios: Sequence[Scenario], *, fresh: bool = False) -> list[bool]:
        """Plays scenarios. Returns for each whether it failed again."""
        self.batches += 1
        batch = play(scenarios, self.options, self.out / f"batch_{self.batches:02d}", self.progress, fresh=fresh)
        self.plays += len(scenarios)
        self.play_s = max(PLAY_LEAST_S, batch.driving_s / len(scenarios))
        self.judging_s = batch.judging_s * (WARM_SHARE if self.batches == 1 else 1)
        failed = [one.failed_again(self.wanted) for one in batch.plays]
        for scenario, one, again in zip(scenarios, batch.plays, failed, strict=True):
            so = "failed again" if again else "no verdict" if one.status is None else "did not fail again"
            self.progress.line(f"    {len(scenario.steps)} steps: {so}")
            if again:
                self.last[text_of(scenario)] = one
        return failed

    def fails(self, scenarios: Sequence[Scenario]) -> list[bool]:
        """Whether each scenario fails in one of as many tries as the rate of the plan asks for, while there is time.

        All tries after the first one are one batch: starting a cluster and Spark takes longer than one more play.
        """
        failed = [False] * len(scenarios)
        for tries in (1, self.tries - 1):
            waiting = [n for n, before in enumerate(failed) if not before]
            asked = (waiting * tries)[: self.room()]
            if not asked:
                break
            self.progress.line(f"trying {len(waiting)} smaller scenarios, with {len(asked)} plays")
            for n, again in zip(asked, self.play([scenarios[n] for n in asked]), strict=True):
                failed[n] |= again
        return failed

    def rate(self, scenario: Scenario, known: Rate) -> Rate:
        """Adds plays on new clusters until there are enough of them, or no time is left."""
        most = REPLAYS if known.failed else REPLAYS_MAX
        some = min(most - known.played, self.room())
        if some <= 0:
            return known
        return Rate(known.failed + sum(self.play([scenario] * some, fresh=True)), known.played + some)


def shrink_bundle(evidence: Path, options: GateOptions, out: Path, budget_s: float, progress: Progress) -> ShrinkResult:
    """Shrinks the scenario of a bundle that is FAIL. BadInput if it is none."""
    scenario, _ = scenario_of(evidence)
    wanted = kinds_of(evidence)
    if not wanted:
        raise BadInput(f"{evidence} has no verdict with a finding; judge it with: durability verify {evidence}")
    began_s = time.monotonic()
    player = _Player(options, out, wanted, began_s + budget_s, progress, play_s=_took_s(evidence))
    progress.line(f"looking for {', '.join(sorted(wanted))} again")
    suspected = guesses(scenario, *_places(evidence, wanted))[:GUESSES_MAX]
    suspected = suspected[: max(0, player.room() - REPLAYS)]
    progress.line(f"playing the plan {REPLAYS} times, and {len(suspected)} guesses")
    first = player.play([*[scenario] * REPLAYS, *suspected])
    before = Rate(sum(first[:REPLAYS]), REPLAYS)
    hits = [one for one, again in zip(suspected, first[REPLAYS:], strict=True) if again]
    if not before.failed:
        before = player.rate(scenario, before)
    rate = before
    if before.failed < before.played and not hits and (louder := _louder(player, [*suspected, scenario])):
        hits, rate = [louder[0]], louder[1]
    if not before.failed and not hits:
        nothing = Rate(0, 0)
        return ShrinkResult(
            before=before, after=nothing, removed=(), happenings=0, smallest=None, issue=None, tried=len(suspected)
        )
    player.tries = rate.tries
    begin = min(hits, key=lambda one: len(one.steps)) if hits else scenario
    shrunk = shrink(begin, player.fails, player.left)
    player.keeps = False
    after = player.rate(shrunk.scenario, Rate(0, 0))
    return _written(scenario, shrunk, len(suspected), player, before, after)


def _took_s(evidence: Path) -> float:
    """How long a play is expected to take: as long as the run of a bundle, at least."""
    run = run_of(evidence)
    return max(PLAY_S, (run.lasted_s if run is not None else None) or 0.0)


def _louder(player: _Player, scenarios: Sequence[Scenario]) -> tuple[Scenario, Rate] | None:
    """A scenario that has the steps of one of these several times and failed, and how often; None if none failed."""
    several = [one for scenario in scenarios if (one := repeated(scenario, REPEATED)) is not None]
    # One play of these takes as long as so many plays of the plan.
    several = several[: player.room() // REPEATED]
    if not several:
        return None
    player.progress.line(f"playing the steps of {len(several)} scenarios {REPEATED} times each")
    failed = [one for one, again in zip(several, player.play(several), strict=True) if again]
    if not failed:
        return None
    smallest = min(failed, key=lambda one: len(one.steps))
    return smallest, player.rate(smallest, Rate(1, 1))


def _places(evidence: Path, wanted: frozenset[str]) -> tuple[frozenset[str], list[str]]:
    """The topics of the findings, and the steps during which they were found, the most frequent first."""
    found = [one for one in read_verdict(evidence).findings if one.condemns and one.kind.value in wanted]
    steps = Counter(one.step for one in found if one.step is not None)
    return frozenset(one.topic for one in found if one.topic is not None), [name for name, _ in steps.most_common()]


def _written(
    scenario: Scenario, shrunk: Shrunk, guessed: int, player: _Player, before: Rate, after: Rate
) -> ShrinkResult:
    """Writes the smallest scenario and the report."""
    smallest, issue = player.out / SMALLEST, player.out / ISSUE
    written = replace(shrunk.scenario, title=f"Shrunk from: {scenario.title}")
    smallest.write_text(text_of(written), encoding="utf-8")
    shown = player.last.get(text_of(shrunk.scenario)) or next(reversed(player.last.values()))
    issue.write_text(_issue(written, shown, before, after, player), encoding="utf-8")
    return ShrinkResult(
        before=before,
        after=after,
        removed=removed_from(scenario, shrunk.scenario),
        happenings=happenings_of(shrunk.scenario),
        smallest=smallest,
        issue=issue,
        tried=guessed + shrunk.tried,
        steps=len(shrunk.scenario.steps),
        plays=player.plays,
    )


def _issue(scenario: Scenario, shown: Played, before: Rate, after: Rate, player: _Player) -> str:
    """The text of a bug report."""
    options, verdict = player.options, read_verdict(shown.bundle)
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
            f"    durability run {SMALLEST} --kafka {options.kafka or version} --seed {options.seed}"
            f" --backend {options.backend}{options.limits.command_line()}",
            "",
            "## Configuration, load and steps",
            "```toml",
            text_of(scenario).rstrip(),
            "```",
            "",
            f"Evidence, with the logs of all nodes: {shown.bundle.relative_to(player.out)}",
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
