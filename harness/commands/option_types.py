"""Types of options that several commands have, and the option --plugins."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Final

import click

from harness.model.exits import Exit

Command = Callable[..., Exit]
PLUGINS: Final = "DURABILITY_PLUGINS"


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
