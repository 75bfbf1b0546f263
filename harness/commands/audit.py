"""The command `audit`: watches a live cluster for weeks, and answers questions about what it has seen.

The process of the auditor lives long in little memory, so this module imports nothing large, and `main.py` loads it
alone. Each command imports what it needs itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypedDict, Unpack

import click

from harness.audit.queries.privileges import LEVELS, OBSERVE
from harness.commands.exit_codes import Terminated
from harness.commands.option_types import PATH, Whole
from harness.commands.usage import invoked
from harness.model.errors import BadInput
from harness.model.exits import Exit

DB_DEFAULT: Final = Path("durability-audit")
_PORT_MAX: Final = 65_535
_Command = Callable[..., Exit]


class Given(TypedDict):
    """The options of `durability audit`."""

    bootstrap: str | None
    controllers: str | None
    metadata_dir: Path | None
    command_config: Path | None
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    rules: Path | None
    db: Path
    metrics: int | None
    budget: str | None
    probe: str | None
    logs: Path | None
    tier_dir: Path | None
    webhook: str | None
    last_round: float


def _db(command: _Command) -> _Command:
    return click.option(
        "--db",
        type=PATH,
        metavar="DIR",
        default=DB_DEFAULT,
        show_default=True,
        help="Folder of the auditor's database.",
    )(command)


def _connection(command: _Command) -> _Command:
    options = [
        click.option("--bootstrap", metavar="HOST:PORT", help="One or more brokers of the cluster."),
        click.option(
            "--command-config",
            type=PATH,
            metavar="FILE",
            help="Client settings for TLS and SASL, as for Kafka's tools.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


_JSON = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


@click.group(invoke_without_command=True)
@_connection
@click.option(
    "--controllers",
    metavar="HOST:PORT",
    help="Follow the metadata log on these controllers. Needs CLUSTER_ACTION, the brokers' own permission.",
)
@click.option(
    "--metadata-dir",
    type=PATH,
    metavar="DIR",
    help="Follow the metadata log in the metadata.log.dir of a running node on this machine. Needs DESCRIBE only.",
)
@click.option(
    "--topics", metavar="PATTERN,...", multiple=True, help="Watch only these, such as 'orders-*'. Default: all."
)
@click.option("--groups", metavar="NAME,...", multiple=True, help="Watch the committed offsets of these groups.")
@click.option("--rules", type=PATH, metavar="FILE", help="TOML file with limits and severities of rules, and a budget.")
@_db
@click.option("--metrics", type=Whole(min=0, max=_PORT_MAX), metavar="PORT", help="Serve metrics on 127.0.0.1:PORT.")
@click.option(
    "--budget", metavar="cpu=5%,mem=64MiB,bytes_s=…", help="The limits of the auditor; it slows down to keep them."
)
@click.option(
    "--probe", metavar="TOPIC", help="Write records to this topic, which the auditor creates, and read them back."
)
@click.option("--logs", type=PATH, metavar="DIR", help="Folder with log files of brokers, for the reasons they give.")
@click.option(
    "--tier-dir",
    type=PATH,
    metavar="DIR",
    help="Folder with the objects of the remote tier: LocalTieredStorage, Aiven's layout, or a bucket mounted there.",
)
@click.option("--webhook", metavar="URL", envvar="DURABILITY_WEBHOOK", help="POST each event of an alarm as JSON.")
@click.option(
    "--last-round",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Before it ends, look at every partition once more, for at most this time.",
)
@_JSON
@click.pass_context
def audit(ctx: click.Context, /, as_json: bool, **given: Unpack[Given]) -> Exit:
    """Watch a live cluster, and raise an alarm when an operation loses records, or will lose them.

    It only reads, except for the topic of --probe. It follows the metadata log of the controllers, looks at the offsets
    of each partition, and keeps what it knows in --db, so that it continues there after a restart. SIGTERM and Ctrl-C
    end it with exit code 0; SIGHUP reads --rules again.

    At the start it names what it does not see. `durability audit privileges` shows the permissions that it needs.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_options(ctx)
        return Exit.PASS
    try:
        from harness.audit.service.options import AuditOptions
        from harness.audit.service.running import watch
    except (Terminated, KeyboardInterrupt):
        return Exit.PASS  # `watch` handles signals by itself, and this is the moment before it

    if given["bootstrap"] is None:
        raise click.UsageError("Missing option '--bootstrap HOST:PORT', or a command: status, explain, ...")
    if given["controllers"] is not None and given["metadata_dir"] is not None:
        raise click.UsageError("--controllers and --metadata-dir exclude each other: both are the metadata log")
    options = AuditOptions(
        bootstrap=given["bootstrap"],
        controllers=given["controllers"],
        metadata_dir=given["metadata_dir"],
        command_config=given["command_config"],
        topics=_names(given["topics"], "--topics"),
        groups=_names(given["groups"], "--groups"),
        rules=given["rules"],
        db=given["db"],
        metrics=given["metrics"],
        budget=given["budget"],
        probe=given["probe"],
        logs=given["logs"],
        tier_dir=given["tier_dir"],
        last_round_s=given["last_round"],
        as_json=as_json,
    )
    watch(options, sys.stdout, _post(given["webhook"]))
    return Exit.PASS


def _refuse_options(ctx: click.Context) -> None:
    """UsageError for an option in front of a command, where it would have no effect."""
    for name in ctx.params:
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = next(param.opts[-1] for param in ctx.command.params if param.name == name)
            raise click.UsageError(f"{option} stands behind {ctx.invoked_subcommand}")


def _names(given: tuple[str, ...], option: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for part in given for name in part.split(",") if name.strip()))
    if given and not names:
        raise BadInput(f"{option} names nothing; leave it out, or give a name")
    return names


def _post(url: str | None) -> Callable[[bytes], str | None] | None:
    if url is None:
        return None
    from harness.commands.notify import check_url, post  # urllib3 takes 7 MiB

    checked = check_url(url, "--webhook")
    return lambda body: post(checked, body)


@audit.command()
@_db
@_JSON
def status(db: Path, as_json: bool) -> Exit:
    """Show what is watched and what is not, since when, and the open alarms, the worst first.

    Reads the database alone, while the auditor runs and afterwards. The exit code is 0 with open alarms, too.
    """
    from harness.audit.queries.status import status_of, status_text

    found = status_of(db)
    for line in [found.json()] if as_json else status_text(found):
        click.echo(line)
    return Exit.PASS


@audit.command()
@click.argument("partition", metavar="TOPIC-PARTITION")
@_db
@_JSON
def explain(partition: str, db: Path, as_json: bool) -> Exit:
    """Show all that is known about a partition: replicas, offsets, epochs, settings, alarms, and the next failure."""
    from harness.audit.queries.explain import explain as answer

    for line in answer(partition, db, as_json=as_json):
        click.echo(line)
    return Exit.PASS


@audit.command()
@click.option(
    "--level", type=click.Choice(LEVELS), default=OBSERVE, show_default=True, help="The permissions of the auditor."
)
@click.option("--principal", default="User:auditor", show_default=True, help="The user of the auditor.")
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="For the printed commands.")
@click.option("--topics", metavar="NAME,...", multiple=True, help="Only these topics; NAME* is a prefix. Default: all.")
@click.option("--groups", metavar="NAME,...", multiple=True, help="Also the committed offsets of these groups.")
@_JSON
def privileges(
    level: str, principal: str, bootstrap: str, topics: tuple[str, ...], groups: tuple[str, ...], as_json: bool
) -> Exit:
    """Print the commands of kafka-acls.sh that give a user what the auditor needs, and what it cannot see then."""
    from harness.audit.queries.privileges import not_seen
    from harness.audit.queries.privileges import privileges as answer

    lines = [*answer(level, principal, bootstrap, _names(topics, "--topics"), _names(groups, "--groups"))]
    if as_json:
        commands = [line for line in lines if not line.startswith("#")]
        lines = [json.dumps({"level": level, "commands": commands, "not_seen": not_seen(level)}, indent=1)]
    for line in lines:
        click.echo(line)
    return Exit.PASS


@audit.command()
@_connection
@click.option("--controllers", metavar="HOST:PORT", help="For an auditor of its own, as for `durability audit`.")
@click.option("--metadata-dir", type=PATH, metavar="DIR", help="The same.")
@click.option(
    "--db", type=PATH, metavar="DIR", help="Database of the auditor that must alarm. Default: one of its own."
)
@click.option("--topic", default="durability-selftest", show_default=True, help="The topic; it must not exist.")
@_JSON
def selftest(
    bootstrap: str | None,
    command_config: Path | None,
    controllers: str | None,
    metadata_dir: Path | None,
    db: Path | None,
    topic: str,
    as_json: bool,
) -> Exit:
    """Prove that an alarm comes: create a topic, lower its retention, wait for the alarm, and delete the topic.

    With --db, the auditor that writes this database must alarm; else the command starts one for the test. Exit code 0
    is PASS, 1 is FAIL. It needs the permission to create, alter and delete the topic.
    """
    if bootstrap is None:
        raise click.UsageError("Missing option '--bootstrap HOST:PORT'")
    from harness.commands.audit_selftest import SelfTest, play

    say = partial(click.echo, err=as_json)
    result = play(SelfTest(bootstrap, command_config, controllers, metadata_dir, db, topic), say)
    click.echo(json.dumps({"passed": result.passed, "why": result.sentence}) if as_json else result.sentence)
    return Exit.PASS if result.passed else Exit.FAIL


def run_audit(arguments: list[str]) -> Exit:
    """Runs `durability audit` with these arguments, without the other commands. BadInput on wrong usage."""
    return invoked(audit, "durability audit", arguments)
