"""Runs a command of click, with wrong usage as BadInput in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import click

from harness.model.errors import BadInput
from harness.model.exits import Exit


def invoked(command: click.Command, name: str, arguments: Sequence[str]) -> Exit:
    """Runs the command with these arguments, and shows its help without any. It may raise anything."""
    try:
        # Not click's own main(): it ends in 1 on every broken pipe, even that of a socket, and without a message.
        with command.make_context(name, [*arguments] or ["--help"]) as context:
            return cast(Exit, command.invoke(context))
    except click.exceptions.Exit as after_help:
        return Exit(after_help.exit_code) if arguments else Exit.USAGE
    except click.ClickException as usage:
        raise BadInput(_usage(usage)) from None


def _usage(usage: click.ClickException) -> str:
    sentence = " ".join(usage.format_message().split()).rstrip(".")
    context = getattr(usage, "ctx", None)
    return f"{sentence}; `{context.command_path} --help` says more" if context else sentence
