"""`durability chaos`: plays generated episodes one after the other, and judges them a batch at a time.

A batch has one shape, and so one cluster. It is judged when that is stopped: Spark never runs beside live brokers.
`durability replay` plays the plan of one episode, or of one bundle, again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from harness.chaos import coverage
from harness.chaos.former import FormerPairs
from harness.chaos.night import Episode, Header, Night, counts, only_night
from harness.chaos.plan import Plan, is_planted, name_of, plan_of, variation_of
from harness.chaos.profile import Profile
from harness.chaos.summary import RECORDS, summary_of
from harness.clusters import Releases
from harness.clusters.choosing import able, missing
from harness.commands.gate import reported, task_of
from harness.commands.options import GateOptions
from harness.commands.prepare import find_release, prepare
from harness.commands.scenario_selection import Choice, Wanted, assign_backends
from harness.commands.tries import Tries, drive_task
from harness.commands.verify import BatchVerdicts, check_judge, judge_each
from harness.evidence.gate import GateSummary, write_gate
from harness.evidence.known import with_known
from harness.kafka.release.cache import default_cache
from harness.kafka.release.digests import files_of
from harness.kafka.release.release import Release
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.known_findings import KnownFile
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.toml_text import text_of
from harness.model.verdict import Status, Verdict
from harness.run.cluster_pool import ClusterPool
from harness.run.progress import Progress

# So many plans are made for an episode; the one with the most new pairs is played.
VARIATIONS: Final = 4
PAIRS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOptions:
    """hours, episodes: where the night ends; one of them is given. gate: of the release and the backend.

    planted_every: the harness plants a loss in each episode with a number that is a multiple of it.
    """

    gate: GateOptions
    out: Path
    profile: Profile
    planted_every: int
    hours: float | None = None
    episodes: int | None = None
    stop_on_first: bool = False
    known: KnownFile | None = None

    def plants(self, episode: int) -> bool:
        """Whether the harness plants a loss in this episode."""
        return episode % self.planted_every == 0


@dataclass(frozen=True, slots=True)
class NightResult:
    """A night that has ended."""

    night: Night
    summary: GateSummary

    @property
    def exit(self) -> Exit:
        """As of a gate; an episode on which the harness failed makes it no PASS, and HARNESS unless another is FAIL."""
        return self.summary.exit


@dataclass(slots=True)
class _Playing:
    """All that a night needs while it plays."""

    options: ChaosOptions
    release: Release
    named: NamedRelease
    backend: str
    night: Night
    former: FormerPairs
    progress: Progress
    began_s: float
    before_s: float

    @property
    def elapsed_s(self) -> float:
        """How long the night has lasted, over all its parts."""
        return self.before_s + time.monotonic() - self.began_s

    def is_over(self, episode: int) -> bool:
        """Whether the night ends before this episode."""
        options = self.options
        if options.stop_on_first and any(_stops(one) for one in self.night.episodes):
            return True
        if options.episodes is not None:
            return episode > options.episodes
        return self.elapsed_s >= (options.hours or 0) * 3600


def chaos(options: ChaosOptions, progress: Progress) -> NightResult:
    """Plays a night, or the rest of one. BadInput, and nothing written, where the options cannot be met."""
    release, backend = find_release(options.gate, progress)
    check_judge()
    _check_capabilities(options.profile, backend)
    files = files_of(release)
    named = reported(release, files.digest)
    header = Header(
        seed=options.gate.seed,
        profile=options.profile.name,
        profile_sha256=options.profile.digest,
        release=release.version,
        build=files.digest.digest,
        backend=backend,
        limits=options.gate.limits.command_line().strip(),
    )
    with only_night(options.out):
        night = Night.open(options.out, header)
        return _play(options, release, named, night, progress)


def _play(
    options: ChaosOptions, release: Release, named: NamedRelease, night: Night, progress: Progress
) -> NightResult:
    """Plays a night, or the rest of one, to its end."""
    header = night.header
    if night.episodes:
        progress.line(f"continues a night with {len(night.episodes)} episodes, {night.elapsed_s / 60:.0f} min")
    progress.line(f"seed {header.seed}, profile {header.profile}")
    former = FormerPairs(default_cache(), release.version)
    progress.line(f"pairs that former nights covered on {release.version}: {len(former.pairs)}")
    began_s, backend = time.monotonic(), header.backend
    playing = _Playing(options, release, named, backend, night, former, progress, began_s, night.elapsed_s)
    _judge_waiting(playing)
    while not playing.is_over(night.next_episode()):
        _play_batch(playing)
    summary = with_known(summary_of(night, named, options.gate.limits), options.out, options.known)
    write_gate(options.out, summary)
    return NightResult(night, summary)


def _check_capabilities(profile: Profile, backend: str) -> None:
    if lacking := sorted(profile.capabilities - able(backend)):
        why = missing().get(lacking[0], "this backend does not have it")
        raise BadInput(f"profile {profile.name} needs {lacking[0]}: {why}; give another --profile")


def _stops(episode: Episode) -> bool:
    if episode.planted:
        return False
    return episode.status is Status.FAIL or (episode.status is None and not episode.not_played)


def _judge_waiting(playing: _Playing) -> None:
    """Judges what the last part of the night had played when it was killed."""
    if waiting := playing.night.waiting():
        playing.progress.line(f"judging {len(waiting)} episodes that were played before")
        seed, profile = playing.night.header.seed, playing.options.profile
        kept = [(number, playing.night.kept_plan(number)) for number in waiting]
        plans = [plan_of(seed, profile, n, variation_of(one), planted=is_planted(one)) for n, one in kept]
        folders = [playing.options.out / plan.scenario.name for plan in plans]
        each = judge_each(folders, playing.progress)
        for plan, folder in zip(plans, folders, strict=True):
            _end(playing, plan, folder, each, None, 0.0)


def _play_batch(playing: _Playing) -> None:
    """Plays episodes of one shape on one cluster, and judges them when it is stopped."""
    plans = list(_batch(playing))
    tries: list[Tries] = []
    took: list[float] = []
    releases, playable, refused = _prepared(playing, [plan.scenario for plan in plans])
    for plan in plans:
        if plan.scenario.name in refused:
            _end_unplayed(playing, plan, refused[plan.scenario.name])
    plans = [plan for plan in plans if plan.scenario.name in playable]
    with ClusterPool(releases, playing.progress, limits=playing.options.gate.limits) as pool:
        for plan in plans:
            if tries and playing.options.hours is not None and playing.is_over(plan.episode):
                break
            began_s = time.monotonic()
            tries.append(_drive(playing, plan, releases, pool))
            took.append(time.monotonic() - began_s)
    bundles = [driven.bundle for one in tries for driven in one.driven]
    each = judge_each(bundles, playing.progress) if bundles else BatchVerdicts()
    for plan, one, seconds in zip(plans, tries, took, strict=False):
        _end(playing, plan, playing.options.out / plan.scenario.name, each, one, seconds)


def _batch(playing: _Playing) -> Iterator[Plan]:
    """The plans of the next episodes with one shape; each knows what those before it will have covered."""
    first, block = playing.night.next_episode(), playing.options.profile.block
    last = ((first - 1) // block + 1) * block if not playing.options.stop_on_first else first
    if playing.options.episodes is not None:
        last = min(last, playing.options.episodes)
    covered = {pair for one in playing.night.episodes for pair in one.pairs}
    for number in range(first, last + 1):
        planted = playing.options.plants(number)
        seed, profile = playing.night.header.seed, playing.options.profile
        plans = (plan_of(seed, profile, number, v, planted=planted) for v in range(VARIATIONS))
        plan = coverage.best_plan(plans, covered, playing.former.pairs)
        covered |= coverage.pairs_of(plan.happenings, plan.scenario)
        yield plan


def _prepared(playing: _Playing, scenarios: Sequence[Scenario]) -> tuple[Releases, set[str], dict[str, str]]:
    """All that the episodes need beside the brokers; which of them can be played, and why the others cannot."""
    refused: dict[str, str] = {}
    options = replace(playing.options.gate, leave_out=True)
    for scenario in scenarios:
        try:
            assign_backends(options, [Wanted(scenario, scenario)], [playing.backend], playing.release)
        except BadInput as reason:
            refused[scenario.name] = str(reason)
    rest = [scenario for scenario in scenarios if scenario.name not in refused]
    prepared = prepare(playing.release, rest, playing.options.gate, playing.progress)
    return prepared.releases, {scenario.name for scenario in rest}, refused


def _drive(playing: _Playing, plan: Plan, releases: Releases, pool: ClusterPool) -> Tries:
    scenario = plan.scenario
    playing.progress.line(f"[{plan.episode}] {scenario.title}")
    playing.night.keep_plan(plan, text_of(scenario))
    wanted = Wanted(scenario, scenario)
    (selected,) = assign_backends(playing.options.gate, [wanted], [playing.backend], playing.release).selected
    names = (scenario.name,)
    choice = Choice(gate=(scenario,), required=names, part=False, left_out=(), wanted=(wanted,))
    gate = replace(playing.options.gate, records=RECORDS)
    task = task_of(selected, choice, releases, gate, playing.options.out, playing.named)
    return drive_task(task, pool, playing.progress, tries_max=1)


def _end(playing: _Playing, plan: Plan, folder: Path, each: BatchVerdicts, tries: Tries | None, took_s: float) -> None:
    """Writes the line of an episode, and keeps little of its evidence if it is PASS."""
    verdict = each.verdicts.get(folder)
    error = None
    if verdict is None:
        of_run = tries.error if tries is not None else None
        error = each.without_verdict.get(folder.name) or of_run or "it has no verdict"
    playing.night.add(_episode(playing, plan, verdict, error, took_s))
    ended = playing.night.episodes[-1]
    playing.former.add(ended.pairs)
    # A planted loss that was not found is looked into, so its evidence stays.
    if verdict is not None and verdict.status is Status.PASS and not ended.planted:
        playing.night.thin(folder.name)
    playing.progress.line(_line(ended))


def _end_unplayed(playing: _Playing, plan: Plan, reason: str) -> None:
    ended = msgspec.structs.replace(_episode(playing, plan, None, reason, 0.0), not_played=True, pairs=())
    playing.night.add(ended)
    playing.progress.line(_line(ended))


def _episode(playing: _Playing, plan: Plan, verdict: Verdict | None, error: str | None, took_s: float) -> Episode:
    doubts = verdict.doubts if verdict else ()
    findings = [f.kind.value for f in verdict.findings if f.condemns] if verdict else []
    return Episode(
        episode=plan.episode,
        variation=plan.variation,
        status=verdict.status if verdict else None,
        happenings=plan.happenings,
        permits=tuple(dict.fromkeys(one.topic for one in plan.permitted)),
        pairs=tuple(sorted(coverage.pairs_of(plan.happenings, plan.scenario))) if verdict else (),
        findings=tuple(dict.fromkeys(findings)),
        doubts=tuple(f"{doubt.name}: {doubt.text}" for doubt in doubts),
        of_release=any(doubt.of_release for doubt in doubts),
        error=error,
        planted=is_planted(plan.scenario),
        took_s=round(took_s, 1),
        elapsed_s=round(playing.elapsed_s, 1),
    )


def _line(episode: Episode) -> str:
    """One episode as one line."""
    word = episode.status.value if episode.status else "not played" if episode.not_played else "no verdict"
    word += ", with a planted loss" if episode.planted else ""
    what = "; ".join(" and ".join(each) for each in episode.happenings)
    why = [*episode.findings, *(episode.doubts[:1] if episode.status is not Status.FAIL else ()), episode.error or ""]
    said = ", ".join(text for text in why if text)
    return f"    {name_of(episode.episode)}: {word} ({what}){f': {said}' if said else ''}"


def document_of(result: NightResult) -> dict[str, object]:
    """The figures of a night that gate.json does not have, for --json."""
    episodes = result.night.episodes
    covered = Counter(pair for one in episodes for pair in one.pairs)
    return {
        "proved_percent": round(result.summary.proved_percent, 1),
        "counts": counts(episodes),
        "without_permitted_losses": sum(one.status is not None and not one.permits for one in episodes),
        "hours": round(result.night.elapsed_s / 3600, 3),
        "episodes": msgspec.to_builtins(episodes),
        "pairs": [[*pair, count] for pair, count in sorted(covered.items())],
    }


def lines_of(result: NightResult) -> list[str]:
    """The summary of a night for the terminal."""
    episodes = result.night.episodes
    found = counts(episodes)
    strict = [one for one in episodes if one.status is not None and not one.permits]
    covered = Counter(pair for one in episodes for pair in one.pairs)
    hours = result.night.elapsed_s / 3600
    rows = [f"{first} {second}: {count}" for first, second, count in coverage.table_of(covered, PAIRS_SHOWN)]
    return [
        f"{', '.join(f'{count} {word}' for word, count in found.items() if count)} in {hours:.2f} h",
        f"no loss was permitted in {len(strict)} episodes",
        f"pairs covered: {len(covered)}; most often: {'; '.join(rows)}",
    ]
