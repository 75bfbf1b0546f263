"""The command `durability`: reads its arguments, calls the module of the command, returns the exit code."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TypedDict, Unpack

import click

import reports
from harness.commands import completion, doctor, listing, open_report
from harness.commands import verify as verify_command
from harness.commands.attach_option import with_attach
from harness.commands.audit import audit
from harness.commands.chaos_commands import chaos, replay, shrink
from harness.commands.compare import compare, gate_against
from harness.commands.contract_options import Given, settings_options
from harness.commands.exit_codes import guarded, writable_folder, writable_here
from harness.commands.history import history as history_command
from harness.commands.known_option import with_known
from harness.commands.option_types import MAVEN_REPO, PATH, SEED_MAX, Command, Whole, with_brokers, with_plugins
from harness.commands.options import OUT_DEFAULT, RECORDS_DEFAULT, TRIES_MAX, Attach, GateOptions, GateResult
from harness.commands.output import JSON, Output, print_table, with_allure, with_output
from harness.commands.usage import invoked
from harness.evidence.documents import plain
from harness.evidence.gate import read_gate
from harness.evidence.seal import seal_directory
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.known_findings import KnownFile
from harness.model.limits import limits_of
from harness.model.user_storage import read_user_storage

RECORDS_MAX = 10**12
REGRESSION = "regression"  # given in the place of a scenario's name


class Common(TypedDict):
    """The options that `gate`, `run` and `contracts` have in common, see `_run_options`."""

    kafka: str | None
    maven_repo: str | None
    backend: str
    tier_storage: Path | None
    memory: str | None
    cpus: float | None
    records: int
    seed: int | None
    out: Path | None
    keep: bool
    tries: int


class Chosen(TypedDict, total=False):
    """The scenarios to play, see `GateOptions`."""

    only: tuple[str, ...]
    scenarios: tuple[Path, ...]
    tags: tuple[str, ...]
    without: tuple[str, ...]
    leave_out: bool
    fail_fast: bool
    known: KnownFile | None
    attach: Attach | None


def _version() -> str:
    try:
        return metadata.version("kafka-durability")
    except metadata.PackageNotFoundError:
        return "of a source tree that is not installed"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(_version(), prog_name="durability")
def commands() -> None:
    """Decides whether an Apache Kafka release may ship: it breaks real brokers and follows every acknowledged record.

    Exit codes: 0 PASS, 1 FAIL, 10 INCONCLUSIVE, 2 wrong usage or bad input, 3 the harness itself failed,
    130 interrupted, 143 terminated. PASS WITH KNOWN FINDINGS (--known) is 0, too. Over several scenarios the worst
    counts: FAIL, then bad input, then an error of the harness, then INCONCLUSIVE, then PASS.
    """


commands.add_command(audit)
commands.add_command(chaos)
commands.add_command(replay)
commands.add_command(shrink)
commands.add_command(compare)
commands.add_command(history_command)


def _run_options(command: Command) -> Command:
    """Adds the options that `gate`, `run` and `contracts` have in common."""
    options = [
        click.option(
            "--tier-storage",
            type=PATH,
            metavar="FILE",
            help="TOML file that describes a remote storage manager of yours.",
        ),
        click.option(
            "--records",
            type=Whole(min=1, max=RECORDS_MAX),
            default=RECORDS_DEFAULT,
            show_default=True,
            help="Records of a whole gate; each scenario gets its part by weight, also when it runs alone.",
        ),
        click.option(
            "--seed",
            type=Whole(min=0, max=SEED_MAX),
            help="Seed of an earlier run, to repeat its plan. Default: random.",
        ),
        click.option("--out", type=PATH, help="Folder of the evidence. Default: durability-out/<time>-<release>/"),
        click.option(
            "--tries",
            type=Whole(min=1, max=TRIES_MAX),
            default=TRIES_MAX,
            show_default=True,
            help="How often a scenario is played while its run is in doubt. A doubt about the release stays.",
        ),
        click.option(
            "--keep", is_flag=True, help="Leave the last cluster running, and print how to reach and stop it."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return with_brokers(command)


@commands.command()
@with_plugins
@with_output
@_run_options
@with_attach
@with_known
@click.option(
    "--against",
    metavar="RELEASE",
    help="Play the gate on this release first, by the same seed and settings, into OUT/against, and compare.",
)
@click.option("--only", metavar="NAME,...", multiple=True, help="Run only these scenarios: a part of the gate.")
@click.option(
    "--without", metavar="NAME,...", multiple=True, help="Leave these scenarios out, and say so in the verdict."
)
@click.option(
    "--fail-fast",
    is_flag=True,
    help="Judge each scenario before the next; stop after the first not PASS.",
)
def gate(
    only: tuple[str, ...],
    without: tuple[str, ...],
    fail_fast: bool,
    known: KnownFile | None,
    against: str | None,
    output: Output,
    attach: Attach | None,
    **common: Unpack[Common],
) -> Exit:
    """Judge a Kafka release by every scenario of the gate.

    The gate is PASS (exit 0) when each of its scenarios ran and is PASS. It is INCONCLUSIVE (exit 10) when a scenario
    has no verdict, for example because this machine cannot play it or a jar cannot be had, unless --without leaves it
    out on purpose; the verdict then names it. A scenario that needs a newer Kafka than the tested one does not apply:
    it is named, and does not make the gate INCONCLUSIVE. On containers the gate includes more scenarios, to which the
    same rules apply.

    With --only, the verdict follows the scenarios that ran, and says of how many of the gate it is.

    With --against, the exit code is that of `compare`: 1 only for what is new and condemns.

    With --bootstrap, the cluster at that address is judged. A scenario that it cannot play is named and not run. What
    needs files of the brokers is not covered, and the verdict says so.
    """
    if only and without:
        raise click.UsageError("--only and --without exclude each other: leave the name out of --only")
    if attach is not None and against is not None:
        raise click.UsageError("--bootstrap and --against exclude each other: compare the evidence of two gates later")
    names, left_out = _names(only, "--only"), _names(without, "--without")
    chosen = Chosen(only=names, without=left_out, fail_fast=fail_fast, leave_out=not names, known=known, attach=attach)
    options = _options(common, **chosen)
    return _gate(options, output) if against is None else gate_against(against, options, output)


def _names(given: tuple[str, ...], option: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for part in given for name in part.split(",") if name.strip()))
    if given and not names:
        raise BadInput(f"{option} names no scenario; `durability list scenarios` shows what there is")
    return names


@commands.command()
@with_plugins
@click.argument("scenario", required=False)
@click.option("--tag", metavar="TAG", multiple=True, help="Run all scenarios with this tag, such as nightly.")
@click.option("--without", metavar="NAME,...", multiple=True, help="With --tag: leave these scenarios out.")
@click.option("--issue", metavar="KAFKA-N", help="With SCENARIO `regression`: the known bug.")
@with_known
@with_output
@_run_options
@with_attach
def run(
    scenario: str | None,
    tag: tuple[str, ...],
    without: tuple[str, ...],
    issue: str | None,
    known: KnownFile | None,
    output: Output,
    attach: Attach | None,
    **common: Unpack[Common],
) -> Exit:
    """Run one scenario, or all with a tag. SCENARIO is the name of one, built-in or of a plugin, or a .toml file.

    `run regression` runs the scenario of a known bug on releases with and without the bug, and then on yours: exit 0
    when those with the bug FAIL as they must and all others PASS.

    A scenario of a tag that this machine cannot play is named and not run, and the verdict is INCONCLUSIVE then, unless
    --without leaves it out. Where the variable CI is set, the command is refused instead, before anything runs.

    With --bootstrap, it runs on the cluster at that address, on topics of the run's own, which are deleted afterwards.
    """
    if without and not tag:
        raise click.UsageError("--without needs --tag")
    if (scenario == REGRESSION) != (issue is not None):
        raise click.UsageError("`regression` and --issue KAFKA-N go together")
    if issue is not None and known is not None:
        raise click.UsageError("`regression` and --known exclude each other: releases with the bug must FAIL")
    if issue is not None and attach is not None:
        raise click.UsageError("`regression` and --bootstrap exclude each other: it starts a cluster of each release")
    if issue is not None and not tag:
        return _regression(issue, common, output)
    if scenario is None and not tag:
        raise click.UsageError("Missing argument 'SCENARIO', or --tag TAG")
    if scenario is not None and tag:
        raise click.UsageError(f"{scenario!r} and --tag exclude each other")
    if scenario is None:
        left_out = _names(without, "--without")
        chosen = Chosen(tags=tuple(dict.fromkeys(tag)), without=left_out, leave_out=not os.environ.get("CI"))
    elif scenario.endswith(".toml"):
        chosen = Chosen(scenarios=(Path(scenario),))
    else:
        chosen = Chosen(only=(scenario,))
    chosen |= Chosen(known=known, attach=attach)
    return _gate(_options(common, **chosen), output)


@commands.command()
@with_plugins
@with_output
@_run_options
@click.option("--only", metavar="NAME,...", multiple=True, help="Play only these events, by name or scenario.")
@click.option("--tag", metavar="TAG", multiple=True, help="Play only events with this tag, such as quick.")
def contracts(only: tuple[str, ...], tag: tuple[str, ...], output: Output, **common: Unpack[Common]) -> Exit:
    """Play each configuration at each event, and print what each kept or lost: the matrix of contracts.

    Exit 0 only if every scenario is PASS and every configuration has exactly the promised result. There is no --known:
    a known finding is not the promised result either. What this machine cannot play is not run; where CI is set, the
    command is refused then.
    """
    from harness.commands import matrix  # see _gate

    names = matrix.chosen(_names(only, "--only"), tag)
    options = _options(common, only=names, leave_out=not os.environ.get("CI"))
    with output.progress() as progress:
        result, cells = matrix.play(options, progress)
    page, code = reports.write_matrix(result.out), matrix.exit_of(result, cells)
    output.publish(result.out, plain(reports.read_matrix([result.out])), code)
    if not (output.as_json or output.quiet):
        reports.show_matrix([result.out])
        click.echo(f"with reasons and sources: {page}, {result.out / reports.MARKDOWN}")
    return code


@commands.command("matrix")
@click.argument("played", metavar="CONTRACTS.JSON...", type=PATH, nargs=-1, required=True)
@JSON
def matrix_(played: tuple[Path, ...], as_json: bool) -> Exit:
    """Show one or more played matrices as one. Events of a later file replace those of an earlier one."""
    if as_json:
        Output().answer(plain(reports.read_matrix(played)))
    else:
        reports.show_matrix(played)
    return Exit.PASS


@commands.command("docs")
@with_plugins
@click.argument("played", metavar="[CONTRACTS.JSON...]", type=PATH, nargs=-1)
@JSON
def docs_(played: tuple[Path, ...], as_json: bool) -> Exit:
    """Write the generated catalogues of a source checkout: faults, scenarios, the matrix of contracts, and FORMAT.md.

    CONTRACTS.JSON: played matrices whose results replace those that MATRIX.md shows. With --plugins, CATALOGUE.md is
    written into the folder of each plugin, and nothing else.
    """
    from harness.commands import docs  # reads every fault and scenario

    written = docs.write(played)
    if as_json:
        Output().answer({"written": [str(path) for path in written]})
        return Exit.PASS
    for path in written:
        click.echo(f"wrote {path}")
    return Exit.PASS


def _options(common: Common, **chosen: Unpack[Chosen]) -> GateOptions:
    """The options of a run. BadInput, before anything is fetched, written or started, where they cannot be met."""
    from harness.commands.scenario_selection import check_choice  # see _gate

    limits = limits_of(common["memory"], common["cpus"])
    storage = None if common["tier_storage"] is None else read_user_storage(common["tier_storage"])
    out, seed = common["out"], common["seed"]
    if out is None:
        writable_here(OUT_DEFAULT)
    else:
        writable_folder(out)
    seed = secrets.randbelow(1 << 32) if seed is None else seed
    options = GateOptions(
        seed=seed,
        out=out,
        limits=limits,
        tier_storage=storage,
        tier_storage_file=common["tier_storage"],
        kafka=common["kafka"],
        maven_repo=common["maven_repo"],
        backend=common["backend"],
        records=common["records"],
        keep=common["keep"],
        tries_max=common["tries"],
        **chosen,
    )
    check_choice(options)
    return options


def _gate(options: GateOptions, output: Output) -> Exit:
    from harness.commands.gate import gate as run_gate  # clients of Kafka, which `--help` and `verify` do not need

    with output.progress() as progress:
        result: GateResult = run_gate(options, progress)
    output.publish(result.out)
    return result.exit


def _regression(issue: str, common: Common, output: Output) -> Exit:
    from harness.commands import regression  # see _gate

    if common["keep"]:
        raise BadInput(
            "--keep leaves one cluster running, and `regression` starts several; run the scenario by its name"
        )
    options = _options(common, only=(regression.scenario_of(issue).name,))
    with output.progress() as progress:
        outcome = regression.play(issue, options, progress)
    for one in outcome.played:
        output.show(read_gate(outcome.out / one.out), outcome.out / one.out, {})
        output.write_allure(outcome.out / one.out, one.out)
    if output.as_json:
        output.answer(outcome.document)
    for one in () if output.as_json else outcome.played:
        click.echo(f"{issue}: {one.line}")
    return outcome.exit


@commands.command()
@with_plugins
@click.argument("evidence", metavar="BUNDLE|OUT", type=PATH)
@click.option("--master", metavar="URL", help="Spark cluster, as spark://host:7077. Default: this machine.")
@with_known
@with_output
def verify(evidence: Path, master: str | None, known: KnownFile | None, output: Output) -> Exit:
    """Judge an evidence bundle, or all of an --out folder, again. No broker is needed.

    Writes verdict.json into each bundle, and gate.json, junit.xml and report/index.html beside them.
    """
    with output.progress() as progress:
        judged = verify_command.judge_again(evidence, master, progress, known)
    without = judged.each.without_verdict
    for sentence in without.values():
        click.echo(f"not judged: {sentence}", err=True)
    output.publish_judged(judged.summary, evidence, without, judged.exit, judged.as_dict())
    return judged.exit


@commands.command()
@with_plugins
@click.argument("evidence", metavar="BUNDLE|OUT...", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, metavar="DIR", help="Folder of the page. Default: report/ in BUNDLE or OUT.")
@with_known
@with_allure
@click.option("--against", type=PATH, metavar="BUNDLE|OUT", help="Evidence of an earlier gate, to compare with.")
@click.option("--history", type=PATH, metavar="FILE", help="File of earlier gates, for their trend; it is only read.")
@click.option("--vote", is_flag=True, help="Print two lines for a vote on the release instead, and write no page.")
@JSON
def report(
    evidence: tuple[Path, ...],
    out: Path | None,
    known: KnownFile | None,
    allure: Path | None,
    against: Path | None,
    history: Path | None,
    vote: bool,
    as_json: bool,
) -> Exit:
    """Write the review page of evidence that was judged: index.html, which opens from disk.

    It has the verdict, findings, doubts, what was not tested, and the timeline of each scenario. Beside it are the
    single operations that a timeline shows where you zoom in, the timelines as pictures and for Perfetto, and the
    matrix of contracts if OUT has one. Of several BUNDLE or OUT, each gets its own page. Known findings are those of
    --known alone; those that an earlier command was given do not count. Ends in 0 whatever the verdict is.
    """
    if vote and out is not None:
        raise click.UsageError("--vote writes no page, so it has no --out")
    if len(evidence) > 1 and (out is not None or allure is not None):
        raise click.UsageError("--out and --allure take one BUNDLE or OUT: one folder would mix several releases")
    judged = {one: reports.load(one, without=verify_command.damaged(one), known=known).without for one in evidence}
    for sentence in (sentence for without in judged.values() for sentence in without.values()):
        click.echo(f"not judged: {sentence}", err=True)
    answers: list[dict[str, object]] = []
    for one, without in judged.items():
        if vote:
            lines = reports.vote(one, known, without)
            answers.append({"vote": lines})
        else:
            page = _page_of(one, out, without=without, known=known, against=against, history=history)
            lines = [f"wrote {page}"]
            answers.append({"page": str(page)})
        if not as_json:
            click.echo("\n".join(lines))
        if not vote:
            reports.show_allure(one, allure, quiet=as_json)
    if as_json:
        click.echo(json.dumps(answers[0] if len(answers) == 1 else answers, indent=1))
    return Exit.PASS


def _page_of(
    evidence: Path,
    out: Path | None,
    *,
    without: Mapping[str, str],
    known: KnownFile | None,
    against: Path | None,
    history: Path | None,
) -> Path:
    """Writes the page of evidence, compared with that of an earlier gate if there is one."""
    found = None
    if against is not None:
        found = reports.compared(against, evidence, history, without=without, known=known)
    return reports.write_page(
        evidence, out, without=without, known=known, pictures=True, against=found, history=history
    )


commands.add_command(open_report.open_)
commands.add_command(completion.completion_)


@commands.command("list")
@with_plugins
@click.argument("what", type=click.Choice([*listing.LISTS]))
@MAVEN_REPO
@JSON
def list_(what: str, maven_repo: str | None, as_json: bool) -> Exit:
    """List scenarios, faults, checks, excuses, doubts or releases, and which of them this machine can do."""
    print_table(*listing.LISTS[what](maven_repo), as_json=as_json)
    return Exit.PASS


@commands.command("doctor")
@JSON
def doctor_(as_json: bool) -> Exit:
    """Show what this machine lacks for a gate, and how to fix it."""
    findings = doctor.examine()
    print_table(("", "what", "found", "how to fix"), [one.row() for one in findings], as_json=as_json)
    return Exit.PASS if all(one.ok for one in findings) else Exit.USAGE


@commands.command()
@settings_options
@click.option("--bootstrap", metavar="HOST:PORT", help="Read the settings from this cluster instead of the options.")
@click.option("--topic", metavar="NAME", multiple=True, help="With --bootstrap: only these topics. Default: all.")
@click.option(
    "--command-config", type=PATH, metavar="FILE", help="With --bootstrap: client settings, as for Kafka's tools."
)
@JSON
@click.pass_context
def contract(ctx: click.Context, /, as_json: bool, **given: Unpack[Given]) -> Exit:
    """Show what a configuration promises: which records may be lost, when, why, and which setting prevents that.

    With --bootstrap, the topics of a live cluster, those with most to lose first. The command reads the cluster's
    settings and changes nothing. Defaults are those of Kafka 4.x, unless an option names Kafka's own default.
    """
    from harness.commands import contract  # see _gate

    given_by_user = {name for name in given if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE}
    for line in contract.answer(given, given_by_user, as_json=as_json):
        click.echo(line)
    return Exit.PASS


@commands.command()
@click.argument("folder", metavar="DIR", type=PATH)
@JSON
def seal(folder: Path, as_json: bool) -> Exit:
    """Write the digests of evidence that was made or edited by hand, and mark it as such."""
    bundle = seal_directory(folder)
    if as_json:
        Output().answer({"bundle": str(bundle.path), "sealed_by": "hand"})
        return Exit.PASS
    click.echo(f"sealed by hand: {bundle.path}; judge it with: durability verify {bundle.path}")
    return Exit.PASS


@commands.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@JSON
def clean(run_id: str | None, as_json: bool) -> Exit:
    """Remove what crashed and kept runs left: processes and working folders, never evidence.

    RUN is the name of one run; without it, all of them.
    """
    from harness.clusters import clean as sweep

    removed = sweep(run_id)
    if as_json:
        Output().answer({"removed": removed})
        return Exit.PASS
    for line in removed or ["nothing was left behind"]:
        click.echo(line)
    return Exit.PASS


def run_command(arguments: list[str]) -> Exit:
    """Runs the command with these arguments. It may raise anything; BadInput on wrong usage."""
    if (answered := completion.asked(commands)) is not None:
        return answered
    return invoked(commands, completion.NAME, arguments)


def invoke(arguments: list[str]) -> Exit:
    """Runs a command and returns its exit code. It raises nothing; standard error has the reason of an error."""
    return guarded(lambda: run_command(arguments))
