"""Types of options and options that several commands have."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Final

import click

from harness.model.backend import AUTO, BACKENDS
from harness.model.exits import Exit

Command = Callable[..., Exit]
PLUGINS: Final = "DURABILITY_PLUGINS"
SEED_MAX: Final = 2**63 - 1


class Whole(click.IntRange):
    name = "whole number"  # click puts it into its sentence


class _NamedPath(click.Path):
    """A path that is not empty: "" comes from a shell variable without a value, and means the working directory."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if value == "":
            self.fail("'' names no file or folder", param, ctx)
        return super().convert(value, param, ctx)


PATH = _NamedPath(path_type=Path)
MAVEN_REPO = click.option("--maven-repo", metavar="URL", help="Repository of the releases. Default: Maven Central.")
_OF_BROKERS = (
    click.option("--kafka", metavar="VERSION|DIR|TARBALL|image:REF", help="Default: the newest complete release."),
    MAVEN_REPO,
    click.option(
        "--backend",
        type=click.Choice(BACKENDS),
        default=AUTO,
        show_default=True,
        help="Backend of the brokers; auto takes containers where an engine answers.",
    ),
    click.option("--memory", metavar="SIZE", help="Memory of each node in a container, such as 768m. Default: 1g."),
    click.option(
        "--cpus", type=float, metavar="N", help="CPUs of each node in a container, such as 0.5. Default: no limit."
    ),
)


def with_brokers(command: Command) -> Command:
    """Adds the options that say which release is played, on which backend, and with which limits."""
    for option in reversed(_OF_BROKERS):
        command = option(command)
    return command


def with_plugins(command: Command) -> Command:
    """Adds the option --plugins, and loads the plugins for as long as the command runs."""

    @wraps(command)
    def run_with_plugins(*arguments: object, plugins: tuple[Path, ...], **options: object) -> Exit:
        from harness.commands.plugins import loaded  # reads every fault and scenario

        if not plugins:
            return command(*arguments, **options)
        with loaded(plugins):
            return command(*arguments, **options)

    add = click.option(
        "--plugins",
        type=PATH,
        metavar="DIR",
        multiple=True,
        envvar=PLUGINS,
        help=f"Folder with faults, scenarios and checks of yours; may be given several times. Default: ${PLUGINS}, "
        "folders with a colon between them.",
    )
    return add(run_with_plugins)
