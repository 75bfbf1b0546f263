"""The options about an existing cluster: --bootstrap, and what goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from pathlib import Path
from typing import Final

import click

from harness.commands.option_types import PATH, Command, Whole
from harness.commands.options import Attach
from harness.kafka.admin.client_config import client_config
from harness.model.backend import AUTO
from harness.model.exits import Exit
from harness.model.hooks import read_hooks

RATE_MAX: Final = 10**9
# What a file of client settings may say for a run. The rest is for other clients, or would change what is tested.
_OF_CONNECTIONS: Final = ("security.", "sasl.", "ssl.", "enable.ssl.", "broker.address.", "client.dns.")
# Options that choose or describe a cluster of the harness, and their values when they are not given.
_OF_A_NEW_CLUSTER: Final[Mapping[str, object]] = {
    "backend": AUTO,
    "tier_storage": None,
    "memory": None,
    "cpus": None,
    "keep": False,
}
_OPTIONS: Final = (
    click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="Run on this cluster, which the harness does not start, on topics of the run's own.",
    ),
    click.option(
        "--command-config",
        type=PATH,
        metavar="FILE",
        help="With --bootstrap: client settings for TLS and SASL, as for Kafka's tools.",
    ),
    click.option(
        "--hooks",
        type=PATH,
        metavar="FILE",
        help="With --bootstrap: TOML file with your commands that break and restore nodes and links.",
    ),
    click.option(
        "--allow-faults",
        metavar="CLUSTER_ID",
        help="With --bootstrap: the id of that cluster; without it no fault runs.",
    ),
    click.option(
        "--rate",
        type=Whole(min=1, max=RATE_MAX),
        metavar="N",
        help="With --bootstrap: the most records a second of the whole load.",
    ),
)


def with_attach(command: Command) -> Command:
    """Adds the options. The command gets `attach`: the cluster, or None. BadInput for files that cannot be used."""

    @wraps(command)
    def run_attached(
        *arguments: object,
        bootstrap: str | None,
        command_config: Path | None,
        hooks: Path | None,
        allow_faults: str | None,
        rate: int | None,
        **others: object,
    ) -> Exit:
        given = {"command-config": command_config, "hooks": hooks, "allow-faults": allow_faults, "rate": rate}
        if bootstrap is None:
            if foreign := [name for name, value in given.items() if value is not None]:
                raise click.UsageError(f"--{foreign[0]} needs --bootstrap HOST:PORT")
            return command(*arguments, attach=None, **others)
        _check(others)
        attach = Attach(
            bootstrap=bootstrap,
            config=_of_connections(command_config),
            config_file=command_config,
            hooks=None if hooks is None else read_hooks(hooks),
            allow_faults=allow_faults,
            rate_per_s=rate,
        )
        return command(*arguments, attach=attach, **others)

    added: Command = run_attached
    for option in reversed(_OPTIONS):
        added = option(added)
    return added


def _check(others: Mapping[str, object]) -> None:
    for name, unset in _OF_A_NEW_CLUSTER.items():
        if others.get(name, unset) != unset:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"--bootstrap and {option} exclude each other: that cluster is there already")


def _of_connections(file: Path | None) -> dict[str, str]:
    config = {} if file is None else client_config(file)
    return {name: value for name, value in config.items() if name.startswith(_OF_CONNECTIONS)}
