"""Completion of commands and options in a shell, by click's own means."""

from __future__ import annotations

import os
from typing import Final

import click
from click.shell_completion import get_completion_class, shell_complete

from harness.commands.output import JSON, Output
from harness.model.exits import Exit

NAME: Final = "durability"
VARIABLE: Final = "_DURABILITY_COMPLETE"  # click's name for it: the shell's script sets it when it asks
SHELLS: Final = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@JSON
@click.pass_context
def completion_(ctx: click.Context, /, shell: str, as_json: bool) -> Exit:
    """Print the script that completes commands and options in a shell.

    \b
    bash: eval "$(durability completion bash)"   in ~/.bashrc
    zsh:  eval "$(durability completion zsh)"    in ~/.zshrc
    fish: durability completion fish > ~/.config/fish/completions/durability.fish
    """
    text = script(ctx.find_root().command, shell)
    if as_json:
        Output().answer({"shell": shell, "script": text})
    else:
        click.echo(text)
    return Exit.PASS


def script(command: click.Command, shell: str) -> str:
    """The script that a shell reads at its start."""
    made = get_completion_class(shell)
    assert made is not None  # `SHELLS` are those of click
    return made(command, {}, NAME, VARIABLE).source()


def asked(command: click.Command) -> Exit | None:
    """Answers a shell that asks for completions, on standard output. None where none asks."""
    instruction = os.environ.get(VARIABLE)
    if not instruction:
        return None
    return Exit.PASS if shell_complete(command, {}, NAME, VARIABLE, instruction) == 0 else Exit.USAGE
