"""The commands `chaos`, `replay` and `shrink`: their options, and what they print."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Final, TypedDict, Unpack

import click

from harness.commands.exit_codes import may_be_written, writable_folder
from harness.commands.known_option import with_known
from harness.commands.option_types import PATH, SEED_MAX, Whole, with_brokers, with_plugins
from harness.commands.options import GateOptions
from harness.commands.output import Output, with_answer, with_output
from harness.evidence.documents import plain
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.known_findings import KnownFile
from harness.model.limits import limits_of

_EPISODES_MAX: Final = 10**9
_VARIATIONS_MAX: Final = 1000
_TIMES_MAX: Final = 1000
_HOURS_MAX: Final = 24 * 365
_TIME: Final = re.compile(r"([1-9][0-9]{0,5})([smh])")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


class _Where(TypedDict):
    """The release and the backend of the brokers."""

    kafka: str | None
    maven_repo: str | None
    backend: str
    memory: str | None
    cpus: float | None


def _options(seed: int, where: _Where) -> GateOptions:
    """The options of the brokers. BadInput for limits with which none could start."""
    return GateOptions(
        seed=seed,
        kafka=where["kafka"],
        maven_repo=where["maven_repo"],
        backend=where["backend"],
        limits=limits_of(where["memory"], where["cpus"]),
    )


@click.command()
@with_plugins
@with_output
@with_brokers
@click.option(
    "--hours", type=click.FloatRange(0, _HOURS_MAX, min_open=True), help="Ends after so long, over all its parts."
)
@click.option("--episodes", type=Whole(min=1, max=_EPISODES_MAX), help="Ends after so many episodes.")
@click.option("--seed", type=Whole(min=0, max=SEED_MAX), help="Seed of the plans. Default: that of OUT, else random.")
@click.option("--profile", default="default", show_default=True, metavar="NAME|FILE", help="The source of their parts.")
@click.option("--stop-on-first", is_flag=True, help="Judge each episode before the next; stop after the first FAIL.")
@click.option(
    "--plant-every",
    type=Whole(min=1, max=_EPISODES_MAX),
    default=100,
    show_default=True,
    metavar="N",
    help="In each N-th episode the harness plants a loss, which must be found; it counts nowhere else.",
)
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Folder of the night; a killed one continues.")
@with_known
def chaos(
    hours: float | None,
    episodes: int | None,
    seed: int | None,
    profile: str,
    stop_on_first: bool,
    plant_every: int,
    out: Path,
    known: KnownFile | None,
    output: Output,
    **where: Unpack[_Where],
) -> Exit:
    """Play generated episodes: faults and operations, drawn from a seed, on clusters and loads that are drawn, too.

    The night is PASS (exit 0) if no episode is FAIL, at least 90 % of them proved something, and no doubt is about the
    release. The same command continues a night that was killed, and loses at most the episode that it was playing.
    """
    from harness.chaos import profile as profiles  # reads every fault
    from harness.chaos.night import seed_in

    if (hours is None) == (episodes is None):
        raise click.UsageError("give either --hours or --episodes: where the night ends")
    chosen = profiles.load(profile)
    may_be_written(out, "--out")
    gate = _options(_seed(seed, seed_in(out)), where)
    from harness.commands import chaos as night  # clients of Kafka

    options = night.ChaosOptions(
        gate=gate,
        out=out,
        profile=chosen,
        hours=hours,
        episodes=episodes,
        stop_on_first=stop_on_first,
        planted_every=plant_every,
        known=known,
    )
    with output.progress() as progress:
        result = night.chaos(options, progress)
    document = {**plain(result.summary.document), "figures": night.document_of(result), "evidence": str(out)}
    output.publish(out, document, result.exit)
    for line in () if output.as_json or output.quiet else night.lines_of(result):
        click.echo(line)
    return result.exit


def _seed(given: int | None, known: int | None) -> int:
    if given is not None:
        return given
    return secrets.randbelow(1 << 32) if known is None else known


@click.command()
@with_plugins
@with_brokers
@click.argument("evidence", metavar="[BUNDLE|SCENARIO.toml]", type=PATH, required=False)
@click.option("--seed", type=Whole(min=0, max=SEED_MAX), help="With --episode: the seed of its night.")
@click.option("--episode", type=Whole(min=1, max=_EPISODES_MAX), help="Number of a generated episode.")
@click.option("--variation", type=Whole(min=0, max=_VARIATIONS_MAX), default=0, help="With --episode: its variation.")
@click.option(
    "--profile", default="default", show_default=True, metavar="NAME|FILE", help="With --episode: its profile."
)
@click.option("--times", type=Whole(min=1, max=_TIMES_MAX), default=1, show_default=True, help="Play it so often.")
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Folder of the evidence.")
@with_answer
def replay(
    evidence: Path | None,
    seed: int | None,
    episode: int | None,
    variation: int,
    profile: str,
    times: int,
    out: Path,
    output: Output,
    **where: Unpack[_Where],
) -> Exit:
    """Play the plan of a bundle again, or that of a generated episode, each time on a new cluster.

    The plan is the same; brokers are not deterministic, so the command says how often it failed again.
    """
    from harness.chaos import profile as profiles  # reads every fault
    from harness.chaos.plan import plan_of
    from harness.chaos.played import kinds_of, scenario_of

    if (evidence is None) == (seed is None or episode is None):
        raise click.UsageError("give either BUNDLE, or --seed and --episode")
    writable_folder(out)
    if evidence is not None:
        scenario, known = scenario_of(evidence)
        wanted = kinds_of(evidence)
    else:
        if seed is None or episode is None:
            raise BadInput("give --seed and --episode")
        scenario, known = plan_of(seed, profiles.load(profile), episode, variation).scenario, seed
        wanted = frozenset()
    options = _options(_seed(seed, known), where)
    from harness.commands import replay as again  # clients of Kafka

    with output.progress() as progress:
        played = again.replay(scenario, options, out, times, progress)
    if output.as_json:
        output.answer({"scenario": scenario.name, "seed": options.seed, **again.document_of(played, wanted)})
        return again.exit_of(played)
    for line in again.quiet_lines_of(played, wanted, out) if output.quiet else again.lines_of(played, wanted):
        click.echo(line)
    return again.exit_of(played)


@click.command()
@with_plugins
@with_brokers
@click.argument("bundle", metavar="BUNDLE", type=PATH)
@click.option("--budget", default="30m", show_default=True, metavar="TIME", help="Such as 30m, 2h or 90s.")
@click.option("--seed", type=Whole(min=0, max=SEED_MAX), help="Seed of payloads. Default: that of BUNDLE.")
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Folder for smallest.toml and the evidence.")
@with_answer
def shrink(bundle: Path, budget: str, seed: int | None, out: Path, output: Output, **where: Unpack[_Where]) -> Exit:
    """Find the smallest scenario that has the findings of a bundle again: smallest.toml, and issue.md for a report.

    Exit 0 if the findings appeared again, 10 if they did not.
    """
    from harness.chaos.played import scenario_of  # reads every fault

    budget_s = _seconds(budget)
    writable_folder(out)
    _, known = scenario_of(bundle)
    from harness.commands import shrink as smaller  # clients of Kafka

    options = _options(_seed(seed, known), where)
    with output.progress() as progress:
        result = smaller.shrink_bundle(bundle, options, out, budget_s, progress)
    if output.as_json:
        output.answer(result.document)
        return result.exit
    for line in result.quiet_lines if output.quiet else result.lines:
        click.echo(line)
    return result.exit


def _seconds(text: str) -> float:
    match = _TIME.fullmatch(text)
    if match is None:
        raise BadInput(f"--budget {text!r} is no time; write for example 30m, 2h or 90s")
    return int(match[1]) * _UNITS[match[2]]
