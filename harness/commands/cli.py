"""The command `durability`: words in, exit code out. What each command does lives in its own room."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar, cast

import click

import reports
from harness.commands import doctor, listing
from harness.commands import verify as verify_command
from harness.commands.contract_options import settings_options
from harness.commands.exit_codes import guarded, open_streams, writable_folder, writable_here
from harness.commands.options import OUT_DEFAULT, RECORDS_DEFAULT, GateOptions, GateResult
from harness.evidence.seal import seal_directory
from harness.model.backend import AUTO, BACKENDS
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.limits import limits_of
from harness.model.user_storage import read_user_storage

F = TypeVar("F", bound=Callable[..., Any])
RECORDS_MAX = 10**12
SEED_MAX = 2**63 - 1
REGRESSION = "regression"  # in the place of a scenario's name


class _Whole(click.IntRange):
    name = "whole number"  # as click's own sentence calls it


class _NamedPath(click.Path):
    """Not "", which would be the working directory: it is what a variable leaves that was never set."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("'' names no file or folder", param, ctx)
        return super().convert(value, param, ctx)


PATH = _NamedPath(path_type=Path)


def _version() -> str:
    try:
        return metadata.version("kafka-durability")
    except metadata.PackageNotFoundError:
        return "of a checkout that is not installed"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(_version(), prog_name="durability")
def commands() -> None:
    """Decides whether an Apache Kafka release may ship: real brokers, real faults, every acknowledged record followed.

    Exit codes: 0 PASS, 1 FAIL, 10 INCONCLUSIVE, 2 wrong usage or bad input, 3 the harness itself failed,
    130 interrupted, 143 terminated.
    """


def _run_options(command: F) -> F:
    """What `gate` and `run` have in common."""
    options = [
        click.option("--kafka", metavar="VERSION|DIR|TARBALL|image:REF", help="Default: the newest complete release."),
        click.option("--maven-repo", metavar="URL", help="Where versions come from, in place of Maven Central."),
        click.option("--backend", type=click.Choice(BACKENDS), default=AUTO),
        click.option(
            "--tier-storage", type=PATH, metavar="FILE", help="A remote storage manager of your own, as TOML."
        ),
        click.option("--memory", metavar="SIZE", help="Of a broker in a container, as 768m. Default: 1g."),
        click.option("--cpus", type=float, metavar="N", help="Of a broker in a container, as 0.5. Default: no limit."),
        click.option(
            "--records",
            type=_Whole(min=1, max=RECORDS_MAX),
            default=RECORDS_DEFAULT,
            show_default=True,
            help="Total of a whole gate; a scenario gets its share.",
        ),
        click.option("--seed", type=_Whole(min=0, max=SEED_MAX), help="Repeats the plan of an earlier run."),
        click.option("--out", type=PATH, help="Default: durability-out/<time>-<release>/"),
        click.option("--keep", is_flag=True, help="Leave the cluster up, and say how to reach and stop it."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@commands.command()
@_run_options
@click.option("--only", metavar="NAME,...", multiple=True, help="Only these scenarios of the gate.")
@click.option("--fail-fast", is_flag=True, help="Stop after the first scenario that is not PASS.")
def gate(only: tuple[str, ...], fail_fast: bool, **common: Any) -> Exit:
    """Judge a Kafka release by every scenario of the gate."""
    names = _names(only)
    return _gate(_options(only=names, fail_fast=fail_fast, leave_out=not names, **common))


def _names(only: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for part in only for name in part.split(",") if name.strip()))
    if only and not names:
        raise BadInput("--only names no scenario; `durability list scenarios` shows what there is")
    return names


@commands.command()
@click.argument("scenario", required=False)
@click.option("--tag", metavar="TAG", multiple=True, help="All built-in scenarios with this tag, such as nightly.")
@click.option("--issue", metavar="KAFKA-N", help="With SCENARIO `regression`: the bug.")
@_run_options
def run(scenario: str | None, tag: tuple[str, ...], issue: str | None, **common: Any) -> Exit:
    """Run one scenario, a built-in one by its name or a file of your own; or all that have one of some tags.

    `regression` runs the scenario of a known bug on releases with and without it, and then on yours: 0 when those with
    it FAIL as they must and all others PASS.

    What nothing on this machine can play of a tag's scenarios is not run and named as such; where CI is set it is
    refused, so that a set which shrinks does not go unnoticed.
    """
    if (scenario == REGRESSION) != (issue is not None):
        raise click.UsageError("`regression` and --issue KAFKA-N go together")
    if issue is not None and not tag:
        return _regression(issue, **common)
    if scenario is None and not tag:
        raise click.UsageError("Missing argument 'SCENARIO', or --tag TAG")
    if scenario is not None and tag:
        raise click.UsageError(f"{scenario!r} and --tag exclude each other")
    if scenario is None:
        return _gate(_options(tags=tuple(dict.fromkeys(tag)), leave_out=not os.environ.get("CI"), **common))
    if scenario.endswith(".toml"):
        return _gate(_options(scenarios=(Path(scenario),), **common))
    return _gate(_options(only=(scenario,), **common))


@commands.command()
@_run_options
@click.option("--only", metavar="NAME,...", multiple=True, help="Only these columns, by scenario or event.")
@click.option("--tag", metavar="TAG", multiple=True, help="Only columns with this tag, such as quick.")
def contracts(only: tuple[str, ...], tag: tuple[str, ...], **common: Any) -> Exit:
    """Play each configuration at each event, side by side, and print what was kept: the matrix of contracts."""
    from harness.commands import matrix  # as below

    names = matrix.chosen(_names(only), tag)
    options = _options(only=names, leave_out=not os.environ.get("CI"), **common)
    with reports.progress() as progress:
        result, cells = matrix.play(options, progress)
    reports.publish(result.out)
    page = reports.write_matrix(result.out)
    reports.show_matrix([result.out])
    click.echo(f"with reasons and sources: {page}, {result.out / reports.MARKDOWN}")
    return matrix.exit_of(result, cells)


@commands.command("matrix")
@click.argument("played", metavar="CONTRACTS.JSON...", type=PATH, nargs=-1, required=True)
def matrix_(played: tuple[Path, ...]) -> Exit:
    """Show one or more played matrices as one. Events of a later file replace those of an earlier one."""
    reports.show_matrix(played)
    return Exit.PASS


@commands.command("docs")
@click.argument("played", metavar="[CONTRACTS.JSON...]", type=PATH, nargs=-1)
def docs_(played: tuple[Path, ...]) -> Exit:
    """Write the generated catalogues of a source checkout: faults, scenarios, and the matrix of contracts.

    CONTRACTS.JSON: played matrices whose results replace those that MATRIX.md shows.
    """
    from harness.commands import docs  # reads every fault and scenario

    for path in docs.write(played):
        click.echo(f"wrote {path}")
    return Exit.PASS


def _options(
    *,
    seed: int | None,
    out: Path | None,
    memory: str | None,
    cpus: float | None,
    tier_storage: Path | None,
    **rest: Any,
) -> GateOptions:
    """Everything that can be refused is refused here, before anything is written or started."""
    limits = limits_of(memory, cpus)
    storage = None if tier_storage is None else read_user_storage(tier_storage)
    if out is None:
        writable_here(OUT_DEFAULT)
    else:
        writable_folder(out)
    seed = secrets.randbelow(1 << 32) if seed is None else seed
    options = GateOptions(seed=seed, out=out, limits=limits, tier_storage=storage, **rest)
    listing.check_scenarios(options)
    return options


def _gate(options: GateOptions) -> Exit:
    from harness.commands.gate import gate as run_gate  # the brokers' libraries; `--help` and `verify` do without

    with reports.progress() as progress:
        result: GateResult = run_gate(options, progress)
    reports.publish(result.out)
    return result.exit


def _regression(issue: str, *, keep: bool, **common: Any) -> Exit:
    from harness.commands import regression  # as above

    if keep:
        raise BadInput("--keep leaves a cluster up, and `regression` starts several; run the scenario by its name")
    options = _options(only=(regression.scenario_of(issue).name,), **common)
    with reports.progress() as progress:
        outcome = regression.play(issue, options, progress)
    for one in outcome.played:
        reports.publish(outcome.out / one.out)
    for one in outcome.played:
        click.echo(f"{issue}: {one.line}")
    return outcome.exit


@commands.command()
@click.argument("evidence", metavar="BUNDLE|OUT", type=PATH)
@click.option("--master", metavar="URL", help="A Spark cluster, as spark://host:7077. Default: this machine.")
@click.option("--json", "as_json", is_flag=True, help="The verdict as JSON, and nothing else, on standard output.")
def verify(evidence: Path, master: str | None, as_json: bool) -> Exit:
    """Judge evidence again, without any broker."""
    with reports.progress() as progress:
        judged = verify_command.judge_again(evidence, master, progress)
    without = judged.each.without_verdict
    for sentence in without.values():
        click.echo(f"not judged: {sentence}", err=True)
    if as_json:
        click.echo(json.dumps(judged.as_dict(), indent=1))
    else:
        reports.show(judged.summary, judged.bundles, evidence, without)
        reports.write_junit(judged.summary, evidence, without)
    return judged.exit


@commands.command("list")
@click.argument("what", type=click.Choice(["scenarios", "faults", "checks", "releases"]))
@click.option("--maven-repo", metavar="URL", help="Where to look for releases, in place of Maven Central.")
def list_(what: str, maven_repo: str | None) -> Exit:
    """What there is, what this machine can do, and why not."""
    reports.table(*listing.LISTS[what](maven_repo))
    return Exit.PASS


@commands.command("doctor")
def doctor_() -> Exit:
    """What this machine lacks, and the command that mends it."""
    problems = doctor.examine()
    reports.table(("", "what", "found", "mend it by"), [a.row() for a in problems])
    return Exit.PASS if all(a.well for a in problems) else Exit.USAGE


@commands.command()
@settings_options
@click.option("--bootstrap", metavar="HOST:PORT", help="Topics of this cluster, in place of a topic as described.")
@click.option("--topic", metavar="NAME", multiple=True, help="With --bootstrap: only these. Default: all.")
@click.option(
    "--command-config", type=PATH, metavar="FILE", help="With --bootstrap: client settings, as of Kafka's own."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, and nothing else, on standard output.")
@click.pass_context
def contract(ctx: click.Context, /, as_json: bool, **given: Any) -> Exit:
    """What a configuration promises: what may be lost, when, why, and which setting mends it.

    With --bootstrap of the topics of a live cluster, the worst first; it is asked for its settings and nothing else.
    Defaults are those of Kafka 4.x, but where an option says what Kafka's own is.
    """
    from harness.commands import contract  # the brokers' libraries

    said = {name for name in given if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE}
    for line in contract.answer(given, said, as_json=as_json):
        click.echo(line)
    return Exit.PASS


@commands.command()
@click.argument("folder", metavar="DIR", type=PATH)
def seal(folder: Path) -> Exit:
    """Write the digests of evidence made or edited by hand, and mark it as such."""
    bundle = seal_directory(folder)
    click.echo(f"sealed by hand: {bundle.path}; judge it with: durability verify {bundle.path}")
    return Exit.PASS


@commands.command()
@click.argument("run_id", metavar="[RUN]", required=False)
def clean(run_id: str | None) -> Exit:
    """Sweep what a crash or --keep left: processes and working folders, never evidence."""
    from harness.clusters import clean as sweep

    for line in sweep(run_id) or ["nothing was left behind"]:
        click.echo(line)
    return Exit.PASS


def invoke(arguments: list[str]) -> Exit:
    """The command with these arguments, up to its exit code."""

    def body() -> Exit:
        # Not click's own main(): it ends in 1 on every broken pipe, whosever it is, and says nothing.
        try:
            with commands.make_context("durability", [*arguments] or ["--help"]) as context:
                return cast(Exit, commands.invoke(context))
        except click.exceptions.Exit as after_help:
            return Exit(after_help.exit_code)

    code = guarded(body)
    return Exit.USAGE if code is Exit.PASS and not arguments else code


def main() -> None:
    """Entry point of the console script."""
    open_streams()
    sys.exit(int(invoke(sys.argv[1:])))
